"""Queries in slots that their process has kept, with a real Valkey and several limiters, as in several processes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from datetime import timedelta
from uuid import uuid4

import pytest
from redis.asyncio import Redis

from shared.domain.errors import RateLimited
from shared.domain.spending.rates import Rates
from shared.providers.limiter.limiter import QUERY, Limiter, ProviderLimits
from shared.providers.limiter.script import Timing
from shared.providers.limiter.usage import usage_of
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually

_TIMING = Timing(lease=timedelta(minutes=5))  # no slot expires during a test


class Processes:
    """Limiters of one provider with one clock, which only the test moves, unless `is_timed`.

    Args:
        asked: number of requests to the shared script for slots.
        running: number of calls in progress.
    """

    def __init__(self, redis: Redis, exits: AsyncExitStack) -> None:
        self._redis = redis
        self._exits = exits
        self._provider = uuid4().hex
        self.is_timed = False
        self._passed = 1_000.0
        self.asked = 0
        self.running = 0

    def start(self, rates: Rates | None = None, in_flight: int = 64, **more: object) -> Limiter:
        limits = ProviderLimits(
            "embedding", self._provider, rates or Rates(), in_flight=in_flight, timing=_TIMING, **more
        )
        limiter = Limiter(self._redis, limits, asyncio.Event().wait, self.now)
        script = limiter.script

        async def counted(requests, *others):
            self.asked += len(requests)
            return await script(requests, *others)

        limiter._client._script = counted
        self._exits.push_async_callback(limiter.aclose)
        return limiter

    def now(self) -> float:
        return self._passed + (time.monotonic() if self.is_timed else 0)

    async def query(
        self, limiter: Limiter, tenant: str = "", error: Exception | None = None, until: asyncio.Event | None = None
    ) -> None:
        """Make a query that ends when `until` is set, or at once."""
        async with asyncio.timeout(TIMEOUT_SECONDS), limiter.call(tenant, 10, 0, QUERY):
            self.running += 1
            if until is not None:
                await until.wait()
            self.running -= 1
            if error is not None:
                raise error

    def pass_time(self, seconds: float, *limiters: Limiter) -> None:
        self._passed += seconds
        for limiter in limiters:
            limiter._client._wake.set()  # its timer was set before

    async def in_flight(self) -> int:
        return int(await self._redis.zcard(f"foreask:limits:{{{self._provider}}}:flight"))

    async def has_no_slots(self) -> bool:
        return await self.in_flight() == 0


@pytest.fixture
async def processes(stack) -> AsyncIterator[Processes]:
    async with AsyncExitStack() as exits:
        redis = await exits.enter_async_context(Redis.from_url(stack.settings.redis_url.get_secret_value()))
        yield Processes(redis, exits)


async def test_queries_of_a_second_share_one_slot(processes):
    limiter = processes.start()

    for _ in range(20):
        await processes.query(limiter)

    assert processes.asked == 1
    assert await processes.in_flight() == 1


@guards(
    "shared/providers/limiter/kept_slots.py",
    "now >= self.valid_until:\n            return None",
    "False:\n            return None",
    means="a process uses a kept slot for ever without asking whether it still may",
)
async def test_slot_is_used_for_one_second_only(processes):
    limiter = processes.start()
    await processes.query(limiter)

    processes.pass_time(1.0)
    await processes.query(limiter)

    assert processes.asked == 2


@guards(
    "shared/providers/limiter/kept_slots.py",
    "used_at <= time]",
    "False]",
    means="unused slots are never returned",
)
async def test_unused_slot_is_returned_after_a_second(processes):
    limiter = processes.start()
    await processes.query(limiter)

    processes.pass_time(1.0, limiter)

    await eventually(processes.has_no_slots)


@guards(
    "shared/providers/limiter/kept_slots.py",
    "grant, _ = self.free.pop()",
    "grant, _ = self.free[-1]",
    means="several calls use one slot",
)
async def test_running_calls_never_exceed_limit_of_processes(processes):
    processes.is_timed = True
    several = [processes.start(in_flight=8) for _ in range(3)]
    for limiter in several:
        await processes.query(limiter)
    assert await processes.in_flight() == 3
    until = asyncio.Event()

    calls = [asyncio.create_task(processes.query(limiter, until=until)) for limiter in several for _ in range(4)]
    asked = processes.asked
    await eventually(lambda: processes.running >= 8 and processes.asked > asked + 30)  # the others ask again and again

    assert processes.running == 8 == await processes.in_flight()
    until.set()
    await asyncio.gather(*calls)


@guards(
    "shared/providers/limiter/kept_slots.py",
    "2 * reply.in_flight <= reply.in_flight_limit",
    "True",
    means="a process keeps the only slot, and others wait for it",
)
async def test_scarce_slots_are_not_kept(processes):
    limiter = processes.start(in_flight=1)

    await processes.query(limiter)
    processes.pass_time(0.1, limiter)  # its end is reported

    await eventually(processes.has_no_slots)


@guards(
    "shared/providers/limiter/kept_slots.py",
    "if is_calm and is_roomy:",
    "if is_roomy:",
    means="a process goes on calling a provider that has asked for a pause",
)
async def test_429_of_another_process_ends_use_within_second(processes):
    first, second = processes.start(), processes.start()
    await processes.query(first)
    with pytest.raises(RateLimited):
        await processes.query(second, error=RateLimited("slow down", retry_after=timedelta(minutes=5)))
    processes.pass_time(0.8)
    await processes.query(first)  # so its slot is not idle when the pause is noticed

    processes.pass_time(0.2, first)
    await eventually(processes.has_no_slots)

    with pytest.raises(RateLimited):
        await processes.query(first)


async def test_own_429_ends_use_at_once(processes):
    limiter = processes.start()
    await processes.query(limiter)
    with pytest.raises(RateLimited):
        await processes.query(limiter, error=RateLimited("slow down", retry_after=timedelta(minutes=5)))

    with pytest.raises(RateLimited):
        await processes.query(limiter)


@guards(
    "shared/providers/limiter/limiter.py",
    "keeps_slots=not limits.rates.declared",
    "keeps_slots=True",
    means="queries in kept slots exceed a declared rate",
)
async def test_each_query_counts_towards_declared_rate(processes):
    processes.is_timed = True
    limiter = processes.start(Rates(tokens=60_000_000))
    for _ in range(5):
        await processes.query(limiter)

    assert processes.asked >= 5


async def test_each_query_counts_towards_limits_of_tenant(processes):
    processes.is_timed = True
    limiter = processes.start(tenants={"acme": Rates(requests=6_000_000)})

    for _ in range(5):
        await processes.query(limiter, tenant="acme")

    assert processes.asked >= 5


@guards(
    "shared/providers/limiter/limiter.lua",
    "if e[12] == 1 then count(s, 1, call.reserved) end",
    "",
    means="the shown use of a provider lacks queries in kept slots",
)
async def test_use_includes_queries_in_kept_slots(processes):
    limiter = processes.start()
    for _ in range(5):
        await processes.query(limiter)

    processes.pass_time(1.0, limiter)
    await eventually(processes.has_no_slots)

    used = {use.name: use.used for use in await usage_of(limiter, "")}
    assert used == {"embedding requests": 5, "embedding tokens": 50}


async def test_stopped_process_returns_its_slots(processes):
    limiter = processes.start()
    await processes.query(limiter)

    await limiter.aclose()

    assert await processes.in_flight() == 0
