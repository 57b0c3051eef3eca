"""The use of each limit, for display."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.domain.errors import Unavailable
from shared.domain.spending.limit_use import LimitUnit, LimitUse
from shared.domain.spending.rates import Rates
from shared.providers.limiter.endings import TenantPause
from shared.providers.limiter.limiter import Limiter
from shared.providers.limiter.script import Breaker, LimiterScript

_SLOT_SECONDS = 10  # as in limiter.lua
_SLOTS = 7
_TOLERANCE_SECONDS = 1  # as in limiter.lua


async def usage_of(limiter: Limiter, tenant: str) -> list[LimitUse]:
    """Return the used share of the limits of a limiter's provider and of a tenant.

    Raises:
        Unavailable: the broker is unavailable.
    """
    limits = limiter.limits
    own = (tenant, limits.for_tenant(tenant))
    uses = await read(limiter.redis, limiter.script, limits.component, limits.rates, own)
    pause = (await limiter.endings.pauses()).get(tenant)
    return uses if pause is None or pause.is_over else [*uses, _of_pause(pause, limits.component, tenant)]


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
            await pipeline.hmget(script.key("reason"), "reason", "since")
            (seconds, micros), state, tenant_state, flight, (reason, since) = await pipeline.execute()
    except (RedisError, OSError) as error:
        raise Unavailable("the broker, which stores the limits, is unavailable", component="broker") from error
    now = seconds + micros / 1e6
    shared = _numbers(state, now)
    in_flight = sum(ends > now * 1000 for _, ends in flight)
    limit = None if rates.requests is not None else int(shared["limit"]) if "limit" in shared else None

    flex_until = shared.get("flex_until", 0) if "flex_dry" in shared else 0
    flex_pause = timedelta(seconds=max(0.0, flex_until / 1000 - now))
    flex_dry = timedelta(seconds=max(0.0, now - shared.get("flex_dry", now * 1000) / 1000))

    failing = timedelta() if reason is None else timedelta(seconds=max(0.0, now - float(since or now * 1000) / 1000))

    def use(kind: LimitUnit, declared: int | None, values: Mapping[str, float], prefix: str = "") -> LimitUse:
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
            flex_pause=flex_pause,
            flex_dry=flex_dry,
            flex_limit=max(1, int(shared["flex"])) if {"flex", "flex_until"} <= shared.keys() else None,
            reason="" if reason is None else reason.decode(errors="replace"),
            failing=failing,
        )

    uses = [use("requests", rates.requests, shared), use("tokens", rates.tokens, shared)]
    if tenant_rates.declared:
        values, prefix = _numbers(tenant_state, now), f"tenant {name}: "
        uses += [
            use("requests", tenant_rates.requests, values, prefix),
            use("tokens", tenant_rates.tokens, values, prefix),
        ]
    return uses


def _of_pause(pause: TenantPause, component: str, tenant: str) -> LimitUse:
    """Return the pause of a tenant's load as a limit that allows nothing."""
    return LimitUse(
        name=f"tenant {tenant}: {component} replies",
        limit=None,
        used=0,
        in_flight=0,
        in_flight_limit=None,
        breaker=Breaker.CLOSED.name.lower(),
        cooldown=max(pause.left, timedelta(seconds=1)),
        component=component,
        unit="requests",
        latency=None,
        in_flight_lowered=False,
        reason=pause.sentence,
    )


def _numbers(fields: Mapping[Any, Any], now: float) -> dict[str, float]:
    """Return the fields of a state; none if the clock was set back, as the next call will find."""
    numbers = {key.decode(): float(value) for key, value in fields.items()}
    return {} if numbers.get("seen", 0) / 1000 > now + _TOLERANCE_SECONDS else numbers


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
