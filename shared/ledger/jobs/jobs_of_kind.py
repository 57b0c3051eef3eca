"""The store of a kind of job that one worker does: start, read, cancel, save and finish its jobs.

A kind adds a subclass with its terms, and with the statements that it alone needs. Requests and progress are
dataclasses, stored as JSON. A value that a newer release has written may have more fields, which are ignored, and a
field that an older release has not written needs a default.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar
from uuid import UUID, uuid4

from shared.domain.corpus.builds import Build
from shared.domain.corpus.collections import Collection
from shared.domain.errors import LeaseLost, NotFound
from shared.domain.jobs import JobClaim, JobKind, JobState
from shared.ledger.documents import build_sync
from shared.ledger.jobs import job_claims
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.records import record

SQL = statements.load(__file__, states.FRAGMENTS)
_EVERYTHING = {"with_request": True, "with_result": True}
RequestT = TypeVar("RequestT")
ProgressT = TypeVar("ProgressT")


@dataclass(frozen=True, slots=True)
class JobTerms(Generic[RequestT, ProgressT]):
    """The terms of a kind of job.

    Args:
        request: dataclass of the work that is left; it is deleted when the job ends.
        progress: dataclass of the numbers that lists show, during the job and afterwards.
        retained: number of jobs that a collection keeps; older ones are deleted when another is started.
        deleted: error if a job with the id `{id}` does not exist.
        missing: error if the collection or build `{of}` has no job.
        idle: error if the collection or build `{of}` has no open job.
        of_build: whether each build of a collection has jobs of its own.
        is_joined: whether a second request joins the open job.
    """

    kind: JobKind
    request: type[RequestT]
    progress: type[ProgressT]
    retained: int
    deleted: str
    missing: str = ""
    idle: str = ""
    of_build: bool = False
    is_joined: bool = True


@dataclass(frozen=True, slots=True)
class StoredJob(Generic[RequestT, ProgressT]):
    """A job of one worker.

    Args:
        collection_id: build of a gate; for other kinds the build that was live at its start.
        request: work that is left; None if it has ended, or if the reader did not want it.
        result: its result as JSON; None if there is none yet, or if the reader did not want it.
        error: reason of its failure.
    """

    id: UUID
    collection_id: UUID
    state: JobState
    request: RequestT | None
    progress: ProgressT
    result: Any
    error: str | None
    created_at: datetime
    ended_at: datetime | None


class JobsOfKind(Generic[RequestT, ProgressT]):
    terms: JobTerms[RequestT, ProgressT]

    def __init__(self, database: Database) -> None:
        self._database = database

    async def _start(
        self,
        target: Collection | Build,
        request: RequestT,
        progress: ProgressT,
        *,
        result: str | None = None,
        embeddings: Sequence[str] = (),
    ) -> StoredJob[RequestT, ProgressT]:
        """Queue a job, or return the open one if requests join it.

        Args:
            target: the build that it is about.
            request: its work.
            progress: its progress before the first step.
            result: its result before the first step, as JSON.
            embeddings: names of the embeddings that its worker needs.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the tenant has the maximum number of queued jobs of this kind.
        """
        scope, terms, job_id = self._scope(target), self.terms, uuid4()
        row = {
            "id": job_id,
            "collection_id": target.id,
            "request": encoded(request),
            "progress": encoded(progress),
            "result": result,
        }
        async with self._database.begin() as connection:
            await build_sync.hold_live(connection, target.tenant, target.name)
            await connection.execute(SQL.lock, scope)
            if terms.is_joined and (open_ := await self._open(connection, scope)) is not None:
                return open_
            await connection.execute(SQL.insert, scope | row)
            await job_claims.enqueue(
                connection, job_id, terms.kind, tenant=target.tenant, collection=target.name, embeddings=embeddings
            )
            await connection.execute(SQL.delete_oldest, scope | {"retained": terms.retained})
            queued = await connection.execute(SQL.get, scope | _EVERYTHING | {"id": job_id})
            return self._job(queued.one())

    async def get(
        self,
        job_id: UUID,
        target: Collection | None = None,
        *,
        with_request: bool = False,
        with_result: bool = True,
    ) -> StoredJob[RequestT, ProgressT]:
        """Return a job, of a collection or of any.

        Raises:
            NotFound: it was deleted, or is another collection's.
        """
        scope = {"kind": self.terms.kind, "tenant": target and target.tenant, "collection": target and target.name}
        wanted = {"id": job_id, "with_request": with_request, "with_result": with_result}
        rows = await self._database.rows(SQL.get, scope | wanted)
        if not rows:
            raise self._missing(job_id)
        return self._job(rows[0])

    async def newest(self, target: Collection | Build) -> StoredJob[RequestT, ProgressT]:
        """Return the newest job of a collection, or of a build, without its request.

        Raises:
            NotFound: there is none.
        """
        wanted = {"with_request": False, "with_result": True, "limit": 1}
        rows = await self._database.rows(SQL.list, self._scope(target) | wanted)
        if not rows:
            raise NotFound(self.terms.missing.format(target=target))
        return self._job(rows[0])

    async def all_of(self, target: Collection | Build) -> list[StoredJob[RequestT, ProgressT]]:
        """Return the jobs of a collection, or of a build, without requests and results, the newest first."""
        wanted = {"with_request": False, "with_result": False, "limit": None}
        return [self._job(row) for row in await self._database.rows(SQL.list, self._scope(target) | wanted)]

    async def cancel(self, target: Collection | Build) -> None:
        """Cancel the open job of a collection, or of a build. Its work so far is kept.

        Raises:
            NotFound: there is none.
        """
        async with self._database.begin() as connection:
            open_ = await self._open(connection, self._scope(target))
            if open_ is None:
                raise NotFound(self.terms.idle.format(target=target))
            await job_claims.cancel(connection, open_.id)

    async def delete(self, job_id: UUID, target: Collection) -> None:
        """Delete a job of a collection, whose worker then stops.

        Raises:
            NotFound: there is none.
        """
        if not await self._database.rows(SQL.delete, self._scope(target) | {"id": job_id}):
            raise self._missing(job_id)

    async def claimed(self, claim: JobClaim) -> StoredJob[RequestT, ProgressT]:
        """Return a claimed job.

        Raises:
            LeaseLost: it was cancelled or deleted, or another worker has claimed it.
        """
        rows = await self._database.rows(SQL.get_claimed, job_claims.claim_parameters(claim) | _EVERYTHING)
        if not rows:
            raise LeaseLost
        return self._job(rows[0])

    async def save_progress(self, claim: JobClaim, progress: ProgressT) -> None:
        """Save the progress of a claimed job; without effect if another worker has claimed it."""
        row = {"progress": encoded(progress)}
        async with self._database.begin() as connection:
            await connection.execute(SQL.save_progress, job_claims.claim_parameters(claim) | row)

    async def _finish(self, connection: Connection, claim: JobClaim, progress: ProgressT, result: str) -> bool:
        """End a claimed job with its result as JSON; return False if another worker has claimed it, or it has ended."""
        if not await job_claims.end(connection, claim, JobState.DONE):
            return False
        row = {"id": claim.id, "progress": encoded(progress), "result": result}
        await connection.execute(SQL.save_result, row)
        return True

    def _scope(self, target: Collection | Build) -> dict[str, Any]:
        """Return the parameters that select the jobs of this kind."""
        build = target.id if self.terms.of_build else None
        return {"tenant": target.tenant, "kind": self.terms.kind, "collection": target.name, "build": build}

    def _missing(self, job_id: UUID) -> NotFound:
        return NotFound(self.terms.deleted.format(id=job_id))

    async def _open(self, connection: Connection, scope: dict[str, Any]) -> StoredJob[RequestT, ProgressT] | None:
        found = await connection.execute(SQL.get_open, scope | _EVERYTHING)
        row = found.one_or_none()
        return None if row is None else self._job(row)

    def _job(self, row: Row) -> StoredJob[RequestT, ProgressT]:
        request = None if row["request"] is None else record(self.terms.request, row["request"])
        progress = record(self.terms.progress, row["progress"])
        return StoredJob(**{**row, "state": JobState(row["state"]), "request": request, "progress": progress})


def encoded(value: Any) -> str:
    """Return a dataclass as JSON."""
    return json.dumps(asdict(value), default=str)
