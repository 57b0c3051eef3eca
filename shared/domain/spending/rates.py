"""Declared limits, and the token buckets that enforce them in every window."""

from __future__ import annotations

from dataclasses import dataclass, field

Bucket = tuple[float, float]  # units a millisecond, capacity

UNLIMITED: Bucket = (0.0, 0.0)
_STRICTLY_UNDER = 1 - 1e-6
_TOKENS_A_CALL = 1000  # a high guess: with fewer, calls that could have started would wait


@dataclass(frozen=True, slots=True)
class Window:
    """The window of a declared limit, and the margin of a bucket within it.

    Args:
        seconds: length of the window.
        burst_seconds: part of the limit that may be used at once after a pause.
        jitter_seconds: delay with which a call may reach the provider relative to others: the provider and the calling
            process both stall at times.
    """

    seconds: float = 60.0
    burst_seconds: float = 1.0
    jitter_seconds: float = 2.0


MINUTE = Window()


@dataclass(frozen=True, slots=True)
class Rates:
    """Maximum numbers of requests and tokens per window; None: no limit."""

    requests: int | None = None
    tokens: int | None = None
    window: Window = field(default=MINUTE)

    @property
    def declared(self) -> bool:
        return self.requests is not None or self.tokens is not None

    @property
    def calls_at_once(self) -> int | None:
        """The number of calls in one window, because further concurrent calls would wait; None: no limit."""
        calls = [] if self.requests is None else [self.requests]
        if self.tokens is not None:
            calls.append(max(1, self.tokens // _TOKENS_A_CALL))
        return min(calls, default=None)

    def buckets(self) -> tuple[Bucket, Bucket]:
        """Return the buckets of requests and of tokens."""
        return (
            UNLIMITED if self.requests is None else _of_requests(self.requests, self.window),
            UNLIMITED if self.tokens is None else _of_tokens(self.tokens, self.window),
        )


def _of_requests(limit: int, window: Window) -> Bucket:
    """Return a bucket that grants at most `limit` requests in any window, including their jitter.

    A bucket with capacity C and rate r grants at most C + r t in any time t, rounded down. Requests that arrive
    within a window were granted within it and the jitter before it, so C + r (window + jitter) < limit + 1 suffices: 95
    % of 2,400 a minute, and 96.8 % of 60.
    """
    capacity = max(1.0, limit * window.burst_seconds / window.seconds)
    seconds = window.seconds + window.jitter_seconds
    return (limit + 1 - capacity) * _STRICTLY_UNDER / seconds / 1000, capacity


def _of_tokens(limit: int, window: Window) -> Bucket:
    """Return a bucket of tokens: half of the burst is reserved for the one call that may overdraw it."""
    burst = limit * window.burst_seconds / window.seconds
    return (limit - burst) / (window.seconds + window.jitter_seconds) / 1000, max(1.0, burst / 2)
