"""Slots that a process keeps for a second after a query, so that its next query needs no call of the shared script.

A kept slot counts as a call in flight, so the calls of all processes stay within the limit. Slots are kept only while
at least half of the limit is free, and nothing waits or fails: a process that needs slots does not wait for kept ones.
A failure that another process reports reaches this process within the second.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from shared.providers.limiter.script import Breaker, CallOutcome, FinishedCall, Grant, LimiterReply

_SECONDS = 1.0
_IDLE_SECONDS = 0.5  # a slot that was unused for as long is returned with the next call of the script


@dataclass(slots=True)
class KeptSlots:
    """The free slots of one process; times are in seconds of the process's clock.

    Args:
        free: slots that a call may use, with the time of their last use; the last one was used last.
        returned: ids of slots that are no longer kept, for the next call of the script.
        valid_until: time until which slots may be used or kept without another call of the script.
        ahead_seconds: the script's clock minus the process's clock, or less.
    """

    free: list[tuple[Grant, float]] = field(default_factory=list)
    returned: list[str] = field(default_factory=list)
    valid_until: float = float("-inf")
    ahead_seconds: float = 0.0

    def take(self, tenant: str, tokens: int, now: float) -> Grant | None:
        """Return a slot for a call with these estimated tokens; None if none is free."""
        if not self.free or now >= self.valid_until:
            return None
        grant, _ = self.free.pop()
        at = int((now + self.ahead_seconds) * 1000)
        return replace(grant, tenant=tenant, at=at, reserved_tokens=tokens, is_reused=True)

    def keep(self, ended: FinishedCall, now: float) -> bool:
        """Keep the slot of a finished call, if that is possible now; return whether it is kept."""
        if ended.outcome is not CallOutcome.OK or ended.grant.probe or now >= self.valid_until:
            return False
        self.free.append((ended.grant, now))
        return True

    def learn(self, reply: LimiterReply, now: float) -> None:
        """Accept a reply of the script: slots may be kept for another second, or must be returned."""
        self.ahead_seconds = reply.at / 1000 - now
        is_calm = reply.breaker is Breaker.CLOSED and not (reply.cooldown_seconds or reply.wait_seconds or reply.reason)
        is_roomy = 2 * reply.in_flight <= reply.in_flight_limit
        if is_calm and is_roomy:
            self.valid_until = now + _SECONDS
        else:
            self.return_all()

    def return_all(self) -> None:
        """Return all free slots, and keep none until the next reply of the script."""
        self.valid_until = float("-inf")
        self._return_unused_since(float("inf"))

    def take_returned(self, now: float) -> list[str]:
        """Return the ids of returned and of idle slots for the script, and forget them."""
        self._return_unused_since(now - _IDLE_SECONDS)
        returned, self.returned = self.returned, []
        return returned

    def _return_unused_since(self, time: float) -> None:
        self.returned += [grant.id for grant, used_at in self.free if used_at <= time]
        self.free = [(grant, used_at) for grant, used_at in self.free if used_at > time]
