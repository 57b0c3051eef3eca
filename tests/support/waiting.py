"""The common timeout of all tests, and functions that wait until a condition holds."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

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


async def until_blocked(database: Database, sessions: int = 1) -> None:
    """Wait until this many sessions wait for locks of others."""
    waiting = Statement(
        "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    )

    async def are_blocked() -> bool:
        return len(await database.rows(waiting)) >= sessions

    await eventually(are_blocked, f"fewer than {sessions} sessions wait for locks")


async def _value(result: object | Awaitable[object]) -> object:
    return await result if isawaitable(result) else result
