"""How much of a shared limit is used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

LimitUnit = Literal["requests", "tokens"]


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
        flex_pause: remaining pause of calls in the service tier flex, because the provider has no capacity left in it.
        flex_limit: calls in flight in the tier flex for which the provider has capacity; None if it has refused none.
        flex_dry: time since when the provider has refused all calls in this tier; 0 if it serves some.
        reason: sentence of the last failure, with the provider's words; empty after a call that succeeded.
        failing: time since the first of these failures.
    """

    name: str
    limit: int | None
    used: int
    in_flight: int
    in_flight_limit: int | None
    breaker: str
    cooldown: timedelta
    component: str
    unit: LimitUnit
    latency: timedelta | None
    in_flight_lowered: bool = False
    flex_pause: timedelta = timedelta()
    flex_dry: timedelta = timedelta()
    flex_limit: int | None = None
    reason: str = ""
    failing: timedelta = timedelta()

    def defers_flex(self, standard_after: timedelta | None) -> bool:
        """Return whether the provider has no capacity in the tier flex, and its calls wait.

        Args:
            standard_after: time without capacity after which calls are made in the standard tier; None: never.
        """
        return self.flex_pause > timedelta(0) and (standard_after is None or self.flex_dry < standard_after)
