"""Retries of a job's requests while an engine or a provider is unavailable, because a failed job wastes its work."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import ParamSpec, TypeVar

import tenacity

from shared.domain.errors import LeaseLost, Misconfigured, Transient

P = ParamSpec("P")
R = TypeVar("R")
TIMEOUT = timedelta(minutes=2)  # of one request with its retries
_PAUSE = tenacity.wait_random_exponential(multiplier=0.5, max=20)


def is_retried(error: BaseException) -> bool:
    """Return whether another attempt may succeed."""
    return isinstance(error, Transient) and not isinstance(error, Misconfigured | LeaseLost)


def _pause(state: tenacity.RetryCallState) -> float:
    error = state.outcome.exception() if state.outcome else None
    requested = error.retry_after.total_seconds() if isinstance(error, Transient) and error.retry_after else 0.0
    return max(requested, _PAUSE(state))


def retried_while(
    idle_seconds: Callable[[], float], timeout: timedelta, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> tenacity.AsyncRetrying:
    """Return retries for work whose progress renews its time, with a `sleep` between two attempts.

    They end when the time without progress would be longer than the timeout after the next pause, whose length a server
    may choose.
    """
    return tenacity.AsyncRetrying(
        retry=tenacity.retry_if_exception(is_retried),
        stop=lambda state: idle_seconds() + state.upcoming_sleep > timeout.total_seconds(),
        wait=_pause,
        sleep=sleep,
        reraise=True,
    )


def retried_for(timeout: timedelta) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator of coroutine functions that are retried for a time."""
    return tenacity.retry(
        retry=tenacity.retry_if_exception(is_retried),
        stop=tenacity.stop_before_delay(timeout),
        wait=_pause,
        reraise=True,
    )


retried = retried_for(TIMEOUT)
