"""The progress of jobs: a job without progress fails, and a long or waiting one gives way to other jobs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any, TypeVar

import structlog

from shared.domain.errors import LeaseLost, Permanent, Transient
from shared.domain.jobs import JobClaim
from shared.ledger.jobs.job_claims import JobClaims

STALLED = timedelta(hours=1)
TURN = timedelta(minutes=2)
_NEXT_OFFER_SECONDS = 5.0
_SHORT_SECONDS = 5.0  # a first part that took less can be repeated
_WAITING_SECONDS = 5.0  # a job that waits longer for a server gives way at once
_LONGEST_PART = 5  # turns, after which a part is abandoned although it must be repeated

R = TypeVar("R")

log = structlog.get_logger()


class JobYielded(LeaseLost):
    """The job waits in the queue again; it continues from its saved position."""


@asynccontextmanager
async def watched(stalled: timedelta = STALLED) -> AsyncIterator[Callable[[], None]]:
    """Yield a function that reports progress, and cancel the block if it reports none for a time.

    Each request of a job has its own timeout. The watch ends waits without a timeout, such as for a file system that
    never answers.

    Raises:
        Permanent: the time is over.
    """
    loop, seconds = asyncio.get_running_loop(), stalled.total_seconds()
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            yield lambda: timeout.reschedule(loop.time() + seconds)
    except TimeoutError:
        if not timeout.expired():
            raise
        raise Permanent(f"It made no progress for {_spoken(stalled)}, so it was stopped.") from None


class JobTurn:
    """The turn of a claimed job. When it is over, the job gives way to a waiting one, usually between two parts.

    The turn lasts at least as long as the first part took, because the job may have to open its source again: fetching
    the names of a large repository takes many minutes.

    Args:
        claims: claims of this process.
        claim: the claimed job.
        length: time for which other jobs wait.
        now: clock in monotonic seconds.
    """

    def __init__(
        self, claims: JobClaims, claim: JobClaim, length: timedelta, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._claims = claims
        self._claim = claim
        self._seconds = length.total_seconds()
        self._now = now
        self._started = now()
        self._next_offer: float | None = None

    async def offer(self) -> None:
        """Release the claim if the turn is over and another job needs it; everything must be saved.

        Raises:
            JobYielded: the claim is released.
        """
        now = self._now()
        if self._next_offer is None:
            first_part = now - self._started
            self._next_offer = self._started + max(self._seconds, 2 * first_part if first_part > _SHORT_SECONDS else 0)
        if now < self._next_offer:
            return
        self._next_offer = now + _NEXT_OFFER_SECONDS
        await self._give_way()

    async def during(
        self, part: Coroutine[Any, Any, R], *, waiting_seconds: Callable[[], float], is_resumable: bool
    ) -> R:
        """Return the result of a part, and release the claim meanwhile if another job needs it.

        The claim is released when the part does nothing but wait for a server, when the turn is over, or after five
        turns if the part must be repeated.

        Args:
            part: the part, which is cancelled when the claim is released.
            waiting_seconds: returns the time for which the part waits for a server.
            is_resumable: whether the next turn continues the part.

        Raises:
            JobYielded: the claim is released.
        """
        task = asyncio.create_task(part)
        ends = self._started + self._seconds if is_resumable else self._now() + _LONGEST_PART * self._seconds
        try:
            while not (await asyncio.wait({task}, timeout=_NEXT_OFFER_SECONDS))[0]:
                pause = waiting_seconds()
                if pause >= _WAITING_SECONDS:
                    await self._give_way(pause)
                elif self._now() >= ends:
                    await self._give_way()
            return await task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def sleep(self, seconds: float) -> None:
        """Sleep before another attempt, and release the claim meanwhile if another job needs it.

        Raises:
            JobYielded: the claim is released.
        """
        ends = self._now() + seconds
        while (left := ends - self._now()) > 0:
            if left >= _WAITING_SECONDS:
                await self._give_way(left)
            await asyncio.sleep(min(left, _NEXT_OFFER_SECONDS))

    async def _give_way(self, pause_seconds: float = 0.0) -> None:
        try:
            gave_way = await self._claims.yield_claim(self._claim, pause=timedelta(seconds=pause_seconds))
        except Transient as error:  # if it was released anyway, the next part cannot be saved
            log.warning("job.not_yielded", reason=error.message)
            return
        if gave_way:
            log.info("job.yielded")
            raise JobYielded


def _spoken(time_: timedelta) -> str:
    minutes = time_.total_seconds() / 60
    return f"{minutes:.0f} minutes" if minutes > 1 else f"{time_.total_seconds():g} seconds"
