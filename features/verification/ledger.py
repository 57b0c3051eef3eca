"""Verifications of collections: each has a position, its counts, and the first differing points as its result.

A worker saves them after each page, so that the next worker continues there. Before it repairs points it saves which
ones, because a repaired difference is not found again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from features.verification.domain import ComparisonProgress, DifferingPoint, Position
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, LeaseLost
from shared.domain.jobs import JobClaim, JobKind, JobState
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.jobs import job_claims
from shared.ledger.jobs.jobs_of_kind import JobsOfKind, JobTerms, StoredJob, encoded
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.records import record

MOST_FINDINGS = 1_000  # of a verification; further ones are only counted

SQL = statements.load(__file__, states.FRAGMENTS)

ERASED_TABLES = (ErasedTable(name="findings", of_part=SQL.erase_findings),)


@dataclass(frozen=True, slots=True)
class VerificationRequest:
    """The work of a verification that is left.

    Args:
        position: position from which the next worker continues.
        intended: differences that an earlier worker may have repaired since.
        reopened: documents after the position that are, or will be, processed again.
    """

    position: Position
    intended: Sequence[DifferingPoint] = ()
    reopened: Sequence[UUID] = ()


VerificationJob = StoredJob[VerificationRequest, ComparisonProgress]


class Verifications(JobsOfKind[VerificationRequest, ComparisonProgress]):
    terms = JobTerms(
        JobKind.VERIFICATION,
        VerificationRequest,
        ComparisonProgress,
        retained=20,
        deleted="The collection was deleted during the verification.",
        missing="The collection '{target.name}' was not verified.",
        idle="The collection '{target.name}' has no running verification.",
    )

    async def start(self, collection: Collection, *, repair: bool, position: Position | None = None) -> VerificationJob:
        """Queue a verification, or return the open one of the collection.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the open one repairs and this one would not, or vice versa; or the tenant has the maximum number
                of queued verifications.
        """
        request = VerificationRequest(position or Position())
        job = await self._start(collection, request, ComparisonProgress(repair=repair), result="[]")
        if job.progress.repair != repair:
            kind = "with repairs" if job.progress.repair else "without repairs"
            raise Conflict(f"A verification {kind} is running: wait until it is done, or cancel it with DELETE.")
        return job

    async def save(
        self,
        claim: JobClaim,
        request: VerificationRequest,
        progress: ComparisonProgress,
        *,
        findings: Sequence[DifferingPoint],
    ) -> None:
        """Save the work of a claimed verification.

        Args:
            claim: the claim.
            request: work that is left. It intends repairs, except at the end of a page.
            progress: counts so far.
            findings: findings to add.

        Raises:
            LeaseLost: it was cancelled or deleted, or another worker has claimed it.
        """
        row = {
            "request": encoded(request),
            "progress": encoded(progress),
            "findings": json.dumps([asdict(each) for each in findings], default=str) if findings else None,
            "advanced": not request.intended,
        }
        if not await self._database.rows(SQL.save, job_claims.claim_parameters(claim) | row):
            raise LeaseLost

    async def finish(self, claim: JobClaim) -> None:
        """End a claimed verification, unless it was cancelled or another worker has claimed it."""
        async with self._database.begin() as connection:
            await job_claims.end(connection, claim, JobState.DONE)


def findings_of(job: VerificationJob) -> Sequence[DifferingPoint]:
    """Return the findings of a verification that was read with them, in their order."""
    return [record(DifferingPoint, stored) for stored in job.result or []]
