"""How much of a shared limit is used."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

from shared.domain.durations import duration

_FAILING = timedelta(seconds=2)  # a call that fails between others that succeed is not worth a sentence

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
        cooldown: remaining pause of all calls after a refusal: as long as the provider requested, or as we chose.
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

    @property
    def trouble(self) -> str | None:
        """The reason why calls wait or fail, as a sentence that starts in lower case; None if they do not."""
        if self.breaker != "closed":
            cause = self.reason or f"the {self.component} provider fails"
            return f"{cause}; calls wait until it answers again."
        if self.cooldown > timedelta(0):
            pause = duration(max(1, round(self.cooldown.total_seconds())))
            if self.reason:
                return f"{self.reason}; the next call is made in {pause}."
            return f"calls of the {self.component} provider pause for {pause}."
        return f"{self.reason}; no call has succeeded since." if self.reason and self.failing >= _FAILING else None
