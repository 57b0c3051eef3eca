"""Following a run: its row is read until it ends. The run does not depend on its followers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress
from typing import Protocol, TypeVar

from fastapi import Request

from api.progress.readiness import Shutdown
from shared.domain.errors import Conflict, Unavailable
from shared.domain.jobs import OPEN_STATES, JobState

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_SILENT_SECONDS = 15.0  # after which a stream sends a comment, because proxies close silent ones


class Run(Protocol):
    @property
    def state(self) -> JobState: ...

    @property
    def error(self) -> str | None: ...


RunT = TypeVar("RunT", bound=Run)


async def follow(
    run: RunT, read: Callable[[RunT], Awaitable[RunT]], shutdown: Shutdown, request: Request | None = None
) -> AsyncGenerator[RunT | None, None]:
    """Yield a run at once, whenever it has changed, and when it is done; in between None, to show that it is followed.

    An unavailable ledger does not end the run, so the next read tries again.

    Args:
        run: the run.
        read: returns the run after it was last read.
        shutdown: ends the iteration.
        request: a request whose client may disconnect, which ends the iteration; None for a stream, which is closed.

    Raises:
        NotFound: the run was deleted.
        Conflict: the run was cancelled.
        Unavailable: the run failed, or this process stops.
    """
    pause, shown_at = _FIRST_PAUSE_SECONDS, time.monotonic()
    yield run
    while run.state in OPEN_STATES:
        if shutdown.stopping:
            raise Unavailable("This server stops. The run continues: repeat the request to follow it.", component="api")
        if request is not None and await request.is_disconnected():
            return
        await asyncio.sleep(pause)
        before = run
        with suppress(Unavailable):
            run = await read(before)
        if run != before:
            pause, shown_at = _FIRST_PAUSE_SECONDS, time.monotonic()
            yield run
        else:
            pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS)
            if time.monotonic() - shown_at > _SILENT_SECONDS:
                shown_at = time.monotonic()
                yield None
    if run.state is JobState.FAILED:
        raise Unavailable(run.error or "The run failed.", component="worker")
    if run.state is JobState.CANCELLED:
        raise Conflict("The run was cancelled.")
