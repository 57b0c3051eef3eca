"""The common timeout of all tests, and functions that wait until a condition holds."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable

TIMEOUT = "TEST_TIMEOUT"  # environment variable with another value of the next line
# Ends a test whose condition never holds; long enough for a busy machine.
TIMEOUT_SECONDS = float(os.environ.get(TIMEOUT, "240"))
_POLL_SECONDS = 0.02


async def eventually(
    condition: Callable[[], object],
    failure: str = "",
    *,
    timeout: float = TIMEOUT_SECONDS,
    poll_seconds: float = _POLL_SECONDS,
) -> None:
    """Return when the condition, a function or a coroutine function, returns a true value.

    Raises:
        AssertionError: the condition stayed false until the timeout.
    """
    deadline = time.monotonic() + timeout
    while not await _value(condition()):
        assert time.monotonic() < deadline, failure or f"the condition was still false after {timeout:g} s"
        await asyncio.sleep(poll_seconds)


def wait_until(condition: Callable[[], object], failure: str = "", *, timeout: float = TIMEOUT_SECONDS) -> None:
    """Wait for a condition, like `eventually`, in a test without an event loop."""
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline, failure or f"the condition was still false after {timeout:g} s"
        time.sleep(_POLL_SECONDS)


async def _value(result: object | Awaitable[object]) -> object:
    return await result if isawaitable(result) else result
