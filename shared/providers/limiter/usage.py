"""The use of each limit, for display."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.domain.errors import Unavailable
from shared.domain.rates import Rates
from shared.providers.limiter.script import Breaker, LimiterScript

_SLOT_SECONDS = 10  # as in limiter.lua
_SLOTS = 7

Unit = Literal["requests", "tokens"]


@dataclass(frozen=True, slots=True)
class LimitUse:
    """One shared limit and its use.

    Args:
        name: such as `llm requests`, or `tenant acme: llm tokens`.
        limit: maximum per minute; None if not declared.
        used: use in the last minute.
        in_flight: calls in flight of all processes.
        in_flight_limit: their limit; None if a rate is declared instead.
        breaker: `closed`, `open` or `half-open`.
        cooldown: remaining pause requested by the provider.
        component: `llm` or `embedding`.
        unit: unit of `limit` and `used`.
        latency: recent duration of calls; None before the first.
        in_flight_lowered: whether the provider has refused calls or timed out, so that `in_flight_limit` is an estimate
            of its capacity.
    """

    name: str
    limit: int | None
    used: int
    in_flight: int
    in_flight_limit: int | None
    breaker: str
    cooldown: timedelta
    component: str
    unit: Unit
    latency: timedelta | None
    in_flight_lowered: bool = False


async def read(
    redis: Redis, script: LimiterScript, component: str, rates: Rates, tenant: tuple[str, Rates]
) -> list[LimitUse]:
    """Read the use of a provider's limits, and of a tenant's own.

    Raises:
        Unavailable: the broker is unavailable.
    """
    name, tenant_rates = tenant
    try:
        async with redis.pipeline(transaction=False) as pipeline:
            await pipeline.time()
            await pipeline.hgetall(script.key("state"))
            await pipeline.hgetall(script.key(f"tenant:{name}"))
            await pipeline.zrange(script.key("flight"), 0, -1, withscores=True)
            (seconds, micros), state, tenant_state, flight = await pipeline.execute()
    except (RedisError, OSError) as error:
        raise Unavailable("the broker, which stores the limits, is unavailable", component="broker") from error
    now = seconds + micros / 1e6
    shared = _numbers(state)
    in_flight = sum(ends > now * 1000 for _, ends in flight)
    limit = None if rates.requests is not None else int(shared["limit"]) if "limit" in shared else None

    def use(kind: Unit, declared: int | None, values: Mapping[str, float], prefix: str = "") -> LimitUse:
        return LimitUse(
            name=f"{prefix}{component} {kind}",
            limit=declared,
            used=_used(values, kind, now),
            in_flight=in_flight,
            in_flight_limit=limit,
            breaker=_breaker(shared, now).name.lower().replace("_", "-"),
            cooldown=timedelta(seconds=max(0.0, shared.get("cooldown", 0) / 1000 - now)),
            component=component,
            unit=kind,
            latency=timedelta(milliseconds=shared["took"]) if "took" in shared else None,
            in_flight_lowered=limit is not None and "lowered" in shared,
        )

    uses = [use("requests", rates.requests, shared), use("tokens", rates.tokens, shared)]
    if tenant_rates.declared:
        values, prefix = _numbers(tenant_state), f"tenant {name}: "
        uses += [
            use("requests", tenant_rates.requests, values, prefix),
            use("tokens", tenant_rates.tokens, values, prefix),
        ]
    return uses


def _numbers(fields: Mapping[Any, Any]) -> dict[str, float]:
    return {key.decode(): float(value) for key, value in fields.items()}


def _breaker(state: Mapping[str, float], now: float) -> Breaker:
    if "open" not in state:
        return Breaker.CLOSED
    return Breaker.OPEN if now * 1000 < state["open"] else Breaker.HALF_OPEN


def _used(values: Mapping[str, float], kind: str, now: float) -> int:
    """Return the sum over the last minute: all newer slots, and the part of the oldest slot within that minute."""
    slot, into = divmod(now, _SLOT_SECONDS)
    total = 0.0
    for index in range(_SLOTS):
        age = slot - values.get(f"slot{index}", -1e9)
        share = 1.0 if age < _SLOTS - 1 else 1 - into / _SLOT_SECONDS if age < _SLOTS else 0.0
        total += share * values.get(f"{kind}{index}", 0.0)
    return max(0, round(total))
