"""The progress of jobs for listeners: one read of the ledger a second for all streams of a job."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from uuid import UUID

from shared.domain import jobs
from shared.http.event_stream import event
from shared.http.schemas.jobs import JobView

CACHE_SECONDS = 0.5  # each listener polls once a second, at its own time

ReadJob = Callable[[str, UUID], Awaitable[JobView]]


class JobFeed:
    """The progress of one job.

    Args:
        tenant: tenant of the job.
        job_id: id of the job.
        read: reads the job from the ledger.
        now: clock in monotonic seconds.
    """

    def __init__(self, tenant: str, job_id: UUID, read: ReadJob, now: Callable[[], float]) -> None:
        self.listeners = 0
        self._tenant = tenant
        self._job_id = job_id
        self._read = read
        self._now = now
        self._lock = asyncio.Lock()
        self._read_at = -math.inf
        self._shown: JobView | None = None
        self._piece = b""

    async def latest(self) -> tuple[bytes, bool]:
        """Read the job, unless another listener just did.

        Returns:
            The encoded event, which is the same object while the job has not changed, and whether the job is open.

        Raises:
            NotFound: the tenant has no such job any more.
            Transient: the ledger is unavailable.
        """
        async with self._lock:
            if self._now() - self._read_at >= CACHE_SECONDS:
                shown = await self._read(self._tenant, self._job_id)
                self._read_at = self._now()
                if shown != self._shown:
                    self._shown, self._piece = shown, event("job", shown)
        assert self._shown is not None
        return self._piece, jobs.JobState(self._shown.state) in jobs.OPEN_STATES


class JobFeeds:
    """The feeds of all jobs with listeners; for the arguments see `JobFeed`."""

    def __init__(self, read: ReadJob, now: Callable[[], float] = time.monotonic) -> None:
        self._read = read
        self._now = now
        self._feeds: dict[tuple[str, UUID], JobFeed] = {}

    @contextmanager
    def joined(self, tenant: str, job_id: UUID) -> Iterator[JobFeed]:
        """Listen to a job's feed within the block; the last listener closes it."""
        feed = self._feeds.setdefault((tenant, job_id), JobFeed(tenant, job_id, self._read, self._now))
        feed.listeners += 1
        try:
            yield feed
        finally:
            feed.listeners -= 1
            if not feed.listeners:
                del self._feeds[tenant, job_id]
