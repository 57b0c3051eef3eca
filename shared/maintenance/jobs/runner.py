"""The runner of a worker: it claims jobs, works on them concurrently with the drains, and keeps their leases."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import structlog

from shared.domain.errors import ForeaskError, LeaseLost, Permanent, Transient
from shared.domain.jobs import JobClaim, JobKind
from shared.ledger.jobs.job_claims import JobClaims
from shared.maintenance.jobs.retries import retried

_EXTEND_SECONDS = 1.0  # a cancelled job stops within this time
_MOST_OF_KIND = 4  # of one process: other workers take the rest
_MOST_LOST = 3  # leases: further workers would probably die, too

log = structlog.get_logger()


class JobWork(ABC):
    """The work on the jobs of one kind."""

    @abstractmethod
    async def work(self, claim: JobClaim) -> None:
        """Work on a claimed job, and save its result.

        Raises:
            LeaseLost: the job was cancelled, it gave way to another one, or another worker has claimed it.
            ForeaskError: the reason of its failure.
        """

    async def aclose(self) -> None:  # noqa: B027 - most work keeps nothing between two jobs
        """Release everything that it keeps between two jobs."""


class Runner:
    """Works on claimed jobs until it is stopped.

    Args:
        claims: claims of this process.
        works: make the work of each kind that this process does, when its first job is claimed.
    """

    def __init__(self, claims: JobClaims, works: Mapping[JobKind, Callable[[], JobWork]]) -> None:
        self._claims = claims
        self._makers = works
        self._works = dict[JobKind, JobWork]()
        self._tasks = set[asyncio.Task[None]]()
        self._works_in_progress = set[asyncio.Task[None]]()
        self._claimed = Counter[JobKind]()
        self._claiming = asyncio.Lock()
        self._stopping = False

    @property
    def claimed(self) -> int:
        """The number of jobs that this runner works on."""
        return len(self._tasks)

    async def take(self) -> None:
        """Claim and start every job that may be claimed now. When one ends, the next one follows.

        Raises:
            Transient: the ledger is unavailable.
        """
        async with self._claiming:
            while kinds := self._wanted():
                claim = await self._claims.claim(kinds)
                if claim is None:
                    return
                self._claimed[claim.kind] += 1
                _start(self._serve(claim), self._tasks)

    def _wanted(self) -> list[JobKind]:
        """Return the kinds of which this process may claim another job."""
        return [] if self._stopping else [kind for kind in self._makers if self._claimed[kind] < _MOST_OF_KIND]

    def stop(self) -> None:
        """Claim no more, and release the claimed jobs, so that other workers continue."""
        self._stopping = True
        for work in self._works_in_progress:
            work.cancel()

    async def aclose(self) -> None:
        """Stop, wait until the claims are released, and close the work."""
        self.stop()
        async with self._claiming:  # a claim that was requested before the stop may still be granted
            pass
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for work in self._works.values():
            await work.aclose()

    async def _serve(self, claim: JobClaim) -> None:
        """Work on a job while it is claimed, then take the next one.

        This task is never cancelled, only its work: a cancelled claim or release may be committed or not.
        """
        structlog.contextvars.bind_contextvars(job_id=str(claim.id), kind=str(claim.kind), tenant=claim.tenant)
        log.info("job.claimed", lost_leases=claim.lost_leases)
        work = _start(self._work(claim), self._works_in_progress)
        if self._stopping:
            work.cancel()
        while not (await asyncio.wait({work}, timeout=_EXTEND_SECONDS))[0]:
            if not await self._extend(claim):
                log.info("job.withdrawn")
                break
        await _cancelled(work)
        with suppress(Transient):  # otherwise the lease expires, and the scheduler wakes a worker
            if work.cancelled():
                await self._claims.release(claim)
        self._claimed[claim.kind] -= 1
        with suppress(Transient):
            await self.take()

    async def _extend(self, claim: JobClaim) -> bool:
        try:
            return await self._claims.extend(claim)
        except Transient:  # the next extension tries again; without a lease, no result can be saved
            return True

    async def _work(self, claim: JobClaim) -> None:
        try:
            if claim.lost_leases >= _MOST_LOST:
                raise Permanent(f"Its worker ended {claim.lost_leases} times during the run.")
            await self._work_of(claim.kind).work(claim)
        except LeaseLost:
            log.info("job.withdrawn")
        except ForeaskError as error:
            await self._fail(claim, error.message)
        except Exception:  # the boundary of a job
            log.exception("job.raised")
            await self._fail(claim, "The job failed; the worker's log has the reason.")

    def _work_of(self, kind: JobKind) -> JobWork:
        if kind not in self._works:
            self._works[kind] = self._makers[kind]()
        return self._works[kind]

    async def _fail(self, claim: JobClaim, reason: str) -> None:
        log.warning("job.failed", reason=reason)
        try:
            await retried(self._claims.fail)(claim, reason)
        except Transient as error:  # the lease expires, and the job starts again
            log.warning("job.unsettled", reason=error.message)


def _start(work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> asyncio.Task[None]:
    """Start a task, which is in a set until it ends."""
    task = asyncio.create_task(work)
    tasks.add(task)
    task.add_done_callback(tasks.discard)
    return task


async def _cancelled(task: asyncio.Task[None]) -> None:
    """Cancel a task, and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
