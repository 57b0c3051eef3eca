"""Claims on jobs: a job is queued, a worker claims it under a lease, and another one follows if the worker dies.

`job_claims` has a narrow row for each open job with a worker; claims and leases change that row alone. A claim is fair:
it selects a job of the tenant with the fewest claimed jobs, and among these the job that has waited longest. More
workers do more jobs at once, and a long job gives way if another job could not be claimed otherwise.

A worker that lost its lease cannot write a result, because each statement about a result needs the token of the newest
claim. Every transaction locks the job's row before its claim.
"""

from __future__ import annotations

from collections.abc import Collection as Some
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Self
from uuid import UUID

from shared.domain.errors import Conflict
from shared.domain.jobs import JOBS_OF_PARSERS, JobClaim, JobKind, JobState
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import AdvisoryLock, Database, lock
from shared.ledger.work.heartbeats import ALIVE_FOR

MOST_QUEUED = 20  # of a tenant and a kind
# Of each kind, at least; each live worker after the fourth adds one. Jobs are slow, and searches of users share the
# providers and Qdrant with them.
_MOST = 4
_MOST_OF_TENANT = 2  # or half of all
_TURN_IS_OVER = "Other syncs waited for a worker, too: it continues from its saved position when their turns are over."
_OUTCOMES = [f"CAST(:outcome AS text) = '{outcome}'" for outcome in (JobState.CANCELLED, JobState.FAILED)]
SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    at_least=str(_MOST),
    at_least_of_tenant=str(_MOST_OF_TENANT),
    parsed=", ".join(f"'{kind}'" for kind in sorted(JOBS_OF_PARSERS)),
    alive_for=f"interval '{ALIVE_FOR.total_seconds()} seconds'",
    ended_listing=states.END_LISTING.sets(*_OUTCOMES),
    ended_job=states.FINISH_JOB.sets_where("j.number IS NULL", "j", *_OUTCOMES, "false"),
)


async def enqueue(
    connection: Connection,
    job_id: UUID,
    kind: JobKind,
    *,
    tenant: str,
    collection: str,
    embeddings: Sequence[str] = (),
    most: int = MOST_QUEUED,
) -> None:
    """Queue a job for workers that serve all its embeddings, by name. Concurrent requests may exceed the maximum.

    Raises:
        Conflict: the tenant has `most` queued jobs of this kind.
    """
    queue = {"tenant": tenant, "kind": kind}
    if (await connection.execute(SQL.count_queued, queue)).scalar_one() >= most:
        raise Conflict(f"This tenant has {most} queued {kind}s: wait until one starts, or delete one.")
    row = queue | {"id": job_id, "collection": collection, "embeddings": list(embeddings)}
    await connection.execute(SQL.insert, row)


async def cancel(connection: Connection, job_id: UUID) -> None:
    """Cancel the work on a job, whose worker then stops; without effect if it has ended."""
    await connection.execute(SQL.end, {"id": job_id, "token": None, "outcome": JobState.CANCELLED, "error": None})
    await connection.execute(SQL.delete_request, {"id": job_id})


async def end(connection: Connection, claim: JobClaim, outcome: JobState, error: str | None = None) -> bool:
    """End the work on a claimed job; return False if it has ended, or another worker has claimed it."""
    ended = await connection.execute(SQL.end, claim_parameters(claim) | {"outcome": outcome, "error": error})
    if not ended.all():
        return False
    if claim.kind not in JOBS_OF_PARSERS:
        await connection.execute(SQL.delete_request, {"id": claim.id})
    return True


class JobClaims:
    """The claims of one process.

    Args:
        database: the ledger.
        worker: name of the process.
        lease: duration of a claim unless it is extended.
        embeddings: names of the embeddings that the process serves.
    """

    def __init__(self, database: Database, *, worker: str, lease: timedelta, embeddings: Sequence[str]) -> None:
        self._database = database
        self._worker = worker
        self._lease = lease
        self._embeddings = list(embeddings)

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, worker=terms.worker, lease=terms.lease, embeddings=terms.embeddings)

    async def due(self) -> set[JobKind]:
        """Return the kinds of the jobs that may be claimed. Jobs of a newer release's kinds are left to its workers."""
        return {JobKind(row["kind"]) for row in await self._database.rows(SQL.due, {"kinds": list(JobKind)})}

    async def claim(self, kinds: Some[JobKind]) -> JobClaim | None:
        """Claim the next job of these kinds; None if none may be claimed."""
        parameters: dict[str, Any] = {
            "kinds": list(kinds),
            "worker": self._worker,
            "lease": self._lease,
            "embeddings": self._embeddings,
        }
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.JOBS)
            row = (await connection.execute(SQL.claim, parameters)).one_or_none()
        return None if row is None else JobClaim(**{**row, "kind": JobKind(row["kind"])})

    async def extend(self, claim: JobClaim) -> bool:
        """Extend a claim; return False if the job has ended or another worker has claimed it."""
        return bool(await self._database.rows(SQL.extend, claim_parameters(claim) | {"lease": self._lease}))

    async def release(self, claim: JobClaim, reason: str | None = None, *, pause: timedelta | None = None) -> None:
        """End a claim without a result: the job is queued again, and not claimed before a pause is over.

        A later claim is not affected.

        Args:
            claim: the claim.
            reason: why the job waits, as a sentence for its owner.
            pause: time until it may be claimed.
        """
        async with self._database.begin() as connection:
            await connection.execute(SQL.release, claim_parameters(claim) | {"pause": pause, "waiting": reason})

    async def yield_claim(self, claim: JobClaim, *, pause: timedelta = timedelta()) -> bool:
        """Release a claim if another job waits for it, which this worker could do; return whether it was released.

        The released job then waits longer than no other job of its kind, and at least for the pause.
        """
        waiting = _TURN_IS_OVER if claim.kind in JOBS_OF_PARSERS else None
        parameters = claim_parameters(claim) | {"embeddings": self._embeddings, "pause": pause, "waiting": waiting}
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.JOBS)  # otherwise several jobs would give way to the same one
            return bool((await connection.execute(SQL.yield_claim, parameters)).all())

    async def fail(self, claim: JobClaim, error: str) -> None:
        """End a job with the reason of its failure, unless another worker has claimed it."""
        async with self._database.begin() as connection:
            await end(connection, claim, JobState.FAILED, error)


def claim_parameters(claim: JobClaim) -> dict[str, Any]:
    """Return the parameters that select a claimed job."""
    return {"id": claim.id, "token": claim.token}
