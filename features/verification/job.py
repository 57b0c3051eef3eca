"""The work on a verification. It is saved after each page, and continues there after the loss of its worker."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Collection as Some
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from features.verification.comparison import Verification
from features.verification.domain import ComparisonProgress, DifferingPoint, Position
from features.verification.ledger import MOST_FINDINGS, VerificationRequest, Verifications
from shared.domain.corpus.collections import Collection
from shared.domain.jobs import JobClaim
from shared.ledger.documents.audit import Audit
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model.collections import Collections
from shared.maintenance.jobs.progress import TURN, JobTurn, watched
from shared.maintenance.jobs.retries import TIMEOUT, retried, retried_while
from shared.maintenance.jobs.runner import JobWork
from shared.vectors.index import Index


@dataclass(frozen=True, slots=True)
class VerificationWork(JobWork):
    """Verifies the collections of claimed jobs.

    Args:
        claims: claims of this process.
        wake_indexers: wakes the workers that write points which are due to be written again.
        turn: time after which a verification gives way to a waiting one.
    """

    verifications: Verifications
    collections: Collections
    audit: Audit
    index: Index
    claims: JobClaims
    wake_indexers: Callable[[], None]
    turn: timedelta = TURN

    async def work(self, claim: JobClaim) -> None:
        """Verify the live build from the saved position to the end.

        Raises:
            NotFound: the collection was deleted.
            LeaseLost: the verification was cancelled, it gave way to another one, or another worker has claimed it.
            Permanent: it made no progress for too long.
            Transient: an engine was unavailable, and no page was finished, for too long.
        """
        collection = await retried(self.collections.get)(claim.tenant, claim.collection)
        async with watched() as progressed:
            pages = _Pages(self, claim, collection, progressed)
            await retried_while(lambda: pages.idle_seconds, TIMEOUT)(pages.verify)
        await retried(self.verifications.finish)(claim)


@dataclass(slots=True)
class _UnsavedFindings:
    """Findings that are not saved yet: their counts, and as many of them as a verification shows."""

    counts: Counter[str] = field(default_factory=Counter)
    first: list[DifferingPoint] = field(default_factory=list)

    def add(self, finding: DifferingPoint) -> None:
        self.counts[finding.kind] += 1
        self.counts["repaired"] += finding.repaired
        if len(self.first) < MOST_FINDINGS:
            self.first.append(finding)


class _Pages:
    """The pages of one claimed verification.

    A repaired difference is saved before the next repair. Another one is saved at the end of its page, which finds it
    again after a crash.
    """

    def __init__(
        self, services: VerificationWork, claim: JobClaim, collection: Collection, progressed: Callable[[], None]
    ) -> None:
        self._services = services
        self._progressed = progressed
        self._turn = JobTurn(services.claims, claim, services.turn)
        self._claim = claim
        self._collection = collection
        self._finished_at = time.monotonic()
        self._position = Position()
        self._progress = ComparisonProgress()
        self._saved_findings = 0
        self._intended: dict[str, DifferingPoint] = {}  # of a worker that died, unless found again
        self._repaired, self._others = _UnsavedFindings(), _UnsavedFindings()

    @property
    def idle_seconds(self) -> float:
        """The time since the last page was finished."""
        return time.monotonic() - self._finished_at

    async def verify(self) -> None:
        """Verify all pages from the saved position."""
        services = self._services
        job = await services.verifications.claimed(self._claim)
        assert job.request is not None
        self._position, self._progress, self._saved_findings = job.request.position, job.progress, len(job.result)
        self._intended = {finding.point_id: finding for finding in job.request.intended}
        self._repaired, self._others = _UnsavedFindings(), _UnsavedFindings()
        verification = Verification(
            services.audit,
            services.index,
            self._collection,
            repair=job.progress.repair,
            position=self._position,
            reopened=job.request.reopened,
            intend=self._save_intended,
        )
        before = verification.so_far
        async with aclosing(verification.run()) as items:
            async for item in items:
                if isinstance(item, DifferingPoint):
                    self._intended.pop(item.point_id, None)
                    (self._repaired if item.repaired else self._others).add(item)
                else:
                    read = {"documents": item.documents - before.documents, "points": item.points - before.points}
                    await self._finish_page(verification.position, read)
                    before = item

    async def _save_intended(self, differences: Sequence[DifferingPoint], reopened: Some[UUID]) -> None:
        """Save the repairs so far, and the next ones."""
        found, self._repaired = self._repaired, _UnsavedFindings()
        intended = self._intended | {difference.point_id: difference for difference in differences}
        await self._save([found], list(intended.values()), reopened)

    async def _finish_page(self, position: Position, read: dict[str, int]) -> None:
        for finding in self._intended.values():  # the worker that died has repaired it
            self._repaired.add(replace(finding, repaired=True))
        found = [self._repaired, self._others]
        self._repaired, self._others, self._intended = _UnsavedFindings(), _UnsavedFindings(), {}
        self._position = position
        self._count(read)
        await self._save(found)
        self._finished_at = time.monotonic()
        self._progressed()
        await self._turn.offer()

    async def _save(
        self, found: Sequence[_UnsavedFindings], intended: Sequence[DifferingPoint] = (), reopened: Some[UUID] = ()
    ) -> None:
        for each in found:
            self._count(each.counts)
        shown = [finding for each in found for finding in each.first][: MOST_FINDINGS - self._saved_findings]
        rest = VerificationRequest(self._position, intended, sorted(reopened))
        await self._services.verifications.save(self._claim, rest, self._progress, findings=shown)
        self._saved_findings += len(shown)
        if any(each.counts["repaired"] for each in found):
            self._services.wake_indexers()

    def _count(self, more: Mapping[str, int]) -> None:
        self._progress = replace(self._progress, counts=self._progress.counts.plus(more))
