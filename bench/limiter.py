"""The cost of the limiter: `python -m bench limiter`.

One process, a real Valkey, calls that take no time or 0.2 seconds, with limits that do not delay them.
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
import time
from pathlib import Path
from uuid import uuid4

import uvloop
from redis.asyncio import Redis

from embedded.stack import Stack
from shared.domain.spending.rates import Rates
from shared.providers.limiter.limiter import Limiter, ProviderLimits
from shared.settings import Settings

_SECONDS = 5


async def run(url: str) -> None:
    print("callers  call takes  limit                 calls/s  CPU us a call (here)  CPU us a call (Valkey)")
    for callers, seconds in ((1, 0.0), (64, 0.0), (64, 0.2), (256, 0.2)):
        await measure(url, "none declared", Rates(), callers, seconds)
    await measure(url, "1,000,000 a minute", Rates(requests=1_000_000), 64, 0.0)
    await measure(url, "2,400 a minute", Rates(requests=2_400), 64, 0.2)


async def measure(url: str, name: str, rates: Rates, callers: int, seconds: float) -> None:
    """Run `callers` concurrent callers, and print the extra cost of a call compared with calls without a limiter."""
    idle = await _rounds(None, callers, seconds)
    async with Redis.from_url(url) as redis:
        limits = ProviderLimits("llm", uuid4().hex, rates, in_flight=callers)
        limiter = Limiter(redis, limits, _nothing)
        engine = await _engine_seconds(redis)
        calls, cpu = await _rounds(limiter, callers, seconds)
        engine = await _engine_seconds(redis) - engine
        await limiter.aclose()
    beside = cpu - idle[1] / max(1, idle[0]) * calls
    figures = f"{calls / _SECONDS:9.0f}  {beside / calls * 1e6:20.0f}  {engine / calls * 1e6:22.0f}"
    print(f"{callers:7}  {seconds:10}  {name:20}{figures}", flush=True)


async def _rounds(limiter: Limiter | None, callers: int, seconds: float) -> tuple[int, float]:
    calls = 0

    async def caller() -> None:
        nonlocal calls
        while time.perf_counter() < end:
            if limiter is None:
                await asyncio.sleep(seconds)
            else:
                async with limiter.call("acme", 500, 2_500) as call:
                    await asyncio.sleep(seconds)
                    call.took(500, 150)
            calls += 1

    end, cpu = time.perf_counter() + _SECONDS, time.process_time()
    await asyncio.gather(*(caller() for _ in range(callers)))
    return calls, time.process_time() - cpu


async def _engine_seconds(redis: Redis) -> float:
    used = await redis.info("cpu")
    return float(used["used_cpu_user"]) + float(used["used_cpu_sys"])


async def _nothing() -> None:
    return None


def main() -> None:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    with (
        tempfile.TemporaryDirectory() as folder,
        Stack(Settings(_env_file=None), Path(folder), engines=["valkey"]) as s,
    ):
        assert s.settings.redis_url is not None
        uvloop.run(run(s.settings.redis_url.get_secret_value()))


if __name__ == "__main__":
    main()
