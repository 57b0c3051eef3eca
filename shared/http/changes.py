"""Following a row until it changes: it is read again and again, at first soon, then once a second."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, suppress
from typing import Protocol, TypeVar

from fastapi import Request

from shared.domain.errors import Conflict, Unavailable
from shared.domain.jobs import OPEN_STATES, JobState
from shared.http.shutdown import Shutdown

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0
_SILENT_SECONDS = 15.0  # after which a stream sends a comment, because proxies close silent ones


class FollowedJob(Protocol):
    @property
    def state(self) -> JobState: ...

    @property
    def error(self) -> str | None: ...


T = TypeVar("T")
JobT = TypeVar("JobT", bound=FollowedJob)


async def reads_of(row: T, read: Callable[[T], Awaitable[T]], deadline: float = math.inf) -> AsyncGenerator[T, None]:
    """Yield a row, and the result of each further read until a deadline in monotonic seconds.

    An unavailable ledger is not an error: the next read tries again.
    """
    pause = _FIRST_PAUSE_SECONDS
    yield row
    while (left := deadline - time.monotonic()) > 0:
        await asyncio.sleep(min(pause, left))
        before = row
        with suppress(Unavailable):
            row = await read(before)
        pause = min(1.5 * pause, _LONGEST_PAUSE_SECONDS) if row == before else _FIRST_PAUSE_SECONDS
        yield row


async def follow(
    started: JobT, read: Callable[[JobT], Awaitable[JobT]], shutdown: Shutdown, request: Request | None = None
) -> AsyncGenerator[JobT | None, None]:
    """Yield a job at once, whenever it has changed, and when it is done; in between None, to show that it is followed.

    The job does not depend on its followers.

    Args:
        started: the job as it was started or found.
        read: returns the job after it was last read.
        shutdown: ends the iteration.
        request: a request whose client may disconnect, which ends the iteration; None for a stream, which is closed.

    Raises:
        NotFound: the job was deleted.
        Conflict: the job was cancelled.
        Unavailable: the job failed, or this process stops.
    """
    shown, shown_at = None, time.monotonic()
    async with aclosing(reads_of(started, read)) as reads:
        async for job in reads:
            if job != shown:
                shown, shown_at = job, time.monotonic()
                yield job
            elif time.monotonic() - shown_at > _SILENT_SECONDS:
                shown_at = time.monotonic()
                yield None
            if job.state not in OPEN_STATES:
                break
            if shutdown.stopping:
                reason = "This server stops. The job continues: repeat the request to follow it."
                raise Unavailable(reason, component="api")
            if request is not None and await request.is_disconnected():
                return
    if job.state is JobState.FAILED:
        raise Unavailable(job.error or "The job failed.", component="worker")
    if job.state is JobState.CANCELLED:
        raise Conflict("The job was cancelled.")
