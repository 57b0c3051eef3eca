"""Declared limits, and the buckets that keep them in every window."""

from __future__ import annotations

from dataclasses import dataclass, field

Bucket = tuple[float, float]  # units a millisecond, capacity

UNLIMITED: Bucket = (0.0, 0.0)
_STRICTLY_UNDER = 1 - 1e-6


@dataclass(frozen=True, slots=True)
class Window:
    """The window that a limit is declared over, and what a bucket must leave room for within it.

    Args:
        seconds: the length of the window.
        burst_seconds: how much of the limit may be used at once after a pause.
        jitter_seconds: how much later than its neighbours a call may reach the provider.
    """

    seconds: float = 60.0
    burst_seconds: float = 1.0
    jitter_seconds: float = 0.8


MINUTE = Window()


@dataclass(frozen=True, slots=True)
class Rates:
    """How many requests and tokens a window may hold; None is no limit."""

    requests: int | None = None
    tokens: int | None = None
    window: Window = field(default=MINUTE)

    @property
    def declared(self) -> bool:
        return self.requests is not None or self.tokens is not None

    def buckets(self) -> tuple[Bucket, Bucket]:
        """The buckets of requests and of tokens."""
        return (
            UNLIMITED if self.requests is None else _of_requests(self.requests, self.window),
            UNLIMITED if self.tokens is None else _of_tokens(self.tokens, self.window),
        )


def _of_requests(limit: int, window: Window) -> Bucket:
    """A bucket that lets at most `limit` requests arrive in any window, wherever the window begins.

    A bucket with capacity C and rate r grants at most C + r t in any time t, in whole requests. Those that arrive
    within a window were granted within it and the jitter before it, so C + r (window + jitter) < limit + 1 is enough:
    97 % of 2,400 a minute, and 98.7 % of 60.
    """
    capacity = max(1.0, limit * window.burst_seconds / window.seconds)
    seconds = window.seconds + window.jitter_seconds
    return (limit + 1 - capacity) * _STRICTLY_UNDER / seconds / 1000, capacity


def _of_tokens(limit: int, window: Window) -> Bucket:
    """As with requests, but half the burst is left for the one call that may go into debt."""
    burst = limit * window.burst_seconds / window.seconds
    return (limit - burst) / (window.seconds + window.jitter_seconds) / 1000, max(1.0, burst / 2)
