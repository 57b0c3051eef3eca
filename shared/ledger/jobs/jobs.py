"""Jobs: open, list, pause, resume and cancel them, and record their ends.

Builds and erasures are listed from their own tables. They have operations of their own, as kinds that one worker does.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, NotFound
from shared.domain.jobs import HIDDEN_JOBS, Job, JobKind, JobState, PauseReason
from shared.domain.states import DocumentState
from shared.ledger.documents import build_sync
from shared.ledger.documents.dead_letters import discard_queued
from shared.ledger.documents.open_jobs import finish, open_job
from shared.ledger.jobs import job_claims
from shared.ledger.model import states
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.postgres.statements import Statement

_SLICE = 100  # jobs deleted by one transaction
_OWN_ROUTES = {
    JobKind.BUILD: "/v1/collections/{name}/builds",
    JobKind.EVALUATION: "/v1/collections/{name}/evaluations",
    JobKind.GATE: "/v1/collections/{name}/builds/{number}/gate",
    JobKind.VERIFICATION: "/v1/collections/{name}/verify",
    JobKind.ERASURE: "/v1/erasures",
}
_LISTED = [kind for kind in JobKind if kind not in HIDDEN_JOBS]  # a newer release may have further kinds
SQL = statements.load(__file__, states.FRAGMENTS, listed=", ".join(f"'{kind}'" for kind in _LISTED))


@dataclass(frozen=True, slots=True)
class OpenedLoad:
    """A load that accepts documents, and whether it is new."""

    job: Job
    is_new: bool


class Jobs:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def open_load(
        self, collection: Collection, *, key: str | None, expected: int | None, reopen: bool = False
    ) -> OpenedLoad:
        """Open a load, or return the open one with the same key.

        Args:
            collection: collection of its documents.
            key: name that no other open load of the tenant has; None if it needs none.
            expected: number of documents that the client will upload; None if unknown.
            reopen: whether an open load with this key is returned, and accepts documents again.

        Raises:
            JobIsOpen: a load with this key is open.
            Conflict: the collection is being erased, or the tenant has the maximum number of open jobs.
        """
        async with self._database.begin() as connection:
            await build_sync.hold(connection, collection.tenant, collection.name)
            live = await build_sync.live_of(connection, collection.tenant, collection.name)
            if live is None:
                raise being_erased(f"the collection '{collection.name}'")
            opened = await open_job(
                connection, collection_of(live), JobKind.LOAD, key=key, expected=expected, reopen=reopen
            )
        return OpenedLoad(await self.get(collection.tenant, opened.id), opened.is_new)

    async def page(
        self,
        tenant: str,
        *,
        kind: JobKind | None = None,
        after: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Return a tenant's jobs, newest first, after `after`; `kind` selects the jobs of one kind."""
        at, job_id = after or (None, None)
        chosen = {"kind": kind, "at": at, "after": job_id, "limit": limit}
        rows = await self._database.rows(SQL.page, {"tenant": tenant, **chosen})
        return [_job(row) for row in rows]

    async def get(self, tenant: str, job_id: UUID) -> Job:
        """Return a job of any kind with its progress.

        Raises:
            NotFound: the tenant has no job of that id.
        """
        rows = await self._database.rows(SQL.get, {"tenant": tenant, "id": job_id})
        if not rows:
            raise _not_found(job_id)
        return _job(rows[0])

    async def close(self, tenant: str, job_id: UUID) -> Job:
        """Record that no more documents are added to a load: it ends when its documents are finished.

        Raises:
            NotFound: the tenant has no job of that id.
            Conflict: the job is not a load.
        """
        async with self._database.begin() as connection:
            row = (await connection.execute(SQL.lock, {"tenant": tenant, "id": job_id})).one_or_none()
            if row is not None and row.kind != JobKind.LOAD:
                raise Conflict(f"The job {job_id} is a {row.kind}: only loads are closed by their clients.")
            await connection.execute(SQL.close, {"id": job_id})
        if row is None:
            raise await self._without_row(tenant, job_id)
        return await self.get(tenant, job_id)

    async def pause(self, tenant: str, job_id: UUID, reason: PauseReason) -> Job:
        """Pause a job: no worker claims its documents and chunks. Work in progress is finished.

        A job that is paused already keeps its reason.

        Raises:
            NotFound: the tenant has no job of that id.
            Conflict: the job has ended, is being cancelled, or has operations of its own.
        """
        return await self._change(tenant, job_id, JobState.PAUSED, SQL.pause, reason=reason)

    async def resume(self, tenant: str, job_id: UUID) -> Job:
        """Resume a paused job, whatever the reason of its pause; raises as `pause`."""
        return await self._change(tenant, job_id, JobState.RUNNING, SQL.resume)

    async def cancel(self, tenant: str, job_id: UUID) -> Job:
        """Cancel a job: it accepts no more documents, its queued documents are discarded, and the others finish.

        `settle` discards them. Paid questions are kept. Raises as `pause`.
        """
        return await self._change(tenant, job_id, JobState.CANCELLING, SQL.cancel)

    @again_after_collision
    async def settle(self) -> bool:
        """Discard some documents of cancelled jobs, and finish the jobs whose documents are finished.

        Returns:
            Whether more documents may be left to discard.
        """
        try:
            async with self._database.begin() as connection:
                found = (await connection.execute(SQL.find_cancelling)).scalar_one_or_none()
                return found is not None and (await discard_queued(connection, found))[1]
        finally:  # a job that cannot be cancelled keeps no other job open
            async with self._database.begin() as connection:
                await finish(connection)

    async def forget(self, age: timedelta) -> bool:
        """Delete some loads and reindexes that ended before an age; return whether more may be left."""
        async with self._database.begin() as connection:
            forgotten = (await connection.execute(SQL.forget, {"age": age, "limit": _SLICE})).all()
        return len(forgotten) == _SLICE

    async def _change(
        self, tenant: str, job_id: UUID, state: JobState, statement: Statement, **parameters: object
    ) -> Job:
        """Change the state of a job, unless it has the state already."""
        async with self._database.begin() as connection:
            row = (await connection.execute(SQL.lock, {"tenant": tenant, "id": job_id})).one_or_none()
            if row is not None and row.state != state:
                changed = await connection.execute(statement, {"id": job_id, **parameters})
                if changed.one_or_none() is None:
                    raise Conflict(f"The job {job_id} is {row.state}.")
                if state == JobState.CANCELLING and row.kind == JobKind.REINDEX:
                    await connection.execute(SQL.stop_reindex, {"collection": row.collection_id})
                if state == JobState.CANCELLING:
                    await job_claims.cancel(connection, job_id)
                else:
                    await connection.execute(SQL.pause_claim, {"id": job_id})
        if row is None:
            raise await self._without_row(tenant, job_id)
        return await self.get(tenant, job_id)

    async def _without_row(self, tenant: str, job_id: UUID) -> Conflict:
        """Return the error for a job that has no row of its own.

        Raises:
            NotFound: the tenant has no job of that id.
        """
        job = await self.get(tenant, job_id)
        return Conflict(f"The job {job_id} is of the kind '{job.kind}': use the routes {_OWN_ROUTES[job.kind]}.")


def _job(row: Row) -> Job:
    documents = {DocumentState(state): count for state, count in row["documents"].items()}
    known = sum(documents.values())
    finished = sum(count for state, count in documents.items() if state in states.FINAL_DOCUMENTS)
    done, total = (finished if row["done"] is None else row["done"]), max(row["total"] or 0, known)
    return Job(
        id=row["id"],
        kind=JobKind(row["kind"]),
        state=JobState(row["state"]),
        collection=row["collection"],
        pause_reason=None if row["pause_reason"] is None else PauseReason(row["pause_reason"]),
        closed_at=row["closed_at"],
        done=done,
        total=total,
        documents=documents,
        points=row["points"],
        needs_calls=row["needs_calls"],
        error=row["error"],
        created_at=row["created_at"],
        ended_at=row["ended_at"],
    )


def _not_found(job_id: UUID) -> NotFound:
    return NotFound(f"There is no job {job_id}. GET /v1/jobs lists the jobs.")
