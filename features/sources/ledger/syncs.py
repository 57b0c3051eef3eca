"""Syncs of sources for their owners. A sync is a job whose worker lists a source.

The job ends when the listing has ended and its documents are processed. If deletions are withheld, it is paused until
they are approved: then the same job lists again.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Self
from uuid import UUID

from features.sources.domain import MOST_SHOWN, PUSH, RefusedEntry, SyncCounts, SyncState, WaitingSync, Withheld
from shared.domain.errors import Conflict, InvalidInput, NotFound
from shared.domain.jobs import JobKind, JobState, PauseReason
from shared.domain.stored import known_fields
from shared.ledger.documents import build_sync
from shared.ledger.documents.open_jobs import open_job
from shared.ledger.jobs import job_claims
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import states
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision

_RETAINED = 50  # syncs of a source
_MOST_QUEUED = 100  # of a tenant: it may have as many open jobs

# Items `i` that two complete listings lacked: listing `y`, and a listing that ended some time before its start.
DELETABLE = (
    "i.source_id = y.source_id AND i.missing_in = y.number"
    " AND i.missing_from <= y.started_at - CAST(:apart AS interval)"
)
SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    deletable=DELETABLE,
    resumed=states.RESUME_JOB.sets_where(f"j.pause_reason = '{PauseReason.APPROVAL}'", "j"),
)


class Syncs:
    """The syncs of all sources.

    Args:
        database: the ledger.
        apart: time between two listings that must both lack an item before it is deleted.
    """

    def __init__(self, database: Database, apart: timedelta) -> None:
        self._database = database
        self._apart = apart

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, terms.sync_deletion_after)

    @again_after_collision
    async def start(self, tenant: str, source: str) -> SyncState:
        """Queue a sync of a source; the caller wakes the queue `syncs`.

        The listing of the last sync must have ended; its documents may still be processed. If its job waits for
        approval, the wait ends, because this sync finds the withheld deletions again.

        Raises:
            NotFound: the tenant has no source of that name.
            JobIsOpen: the last sync is listing, deleting or paused; the error has the id of its job.
            Conflict: the tenant has the maximum number of open jobs, or the collection is being erased.
        """
        async with self._database.begin() as connection:
            if (await _hold_source(connection, tenant, source))["kind"] == PUSH:
                raise Conflict(f"Programs push the entries of the source '{source}': start the program instead.")
            return await state_of(connection, tenant, await open_sync(connection, tenant, source))

    @again_after_collision
    async def approve(self, tenant: str, source: str, *, deletions: int) -> SyncState:
        """Approve withheld deletions: the job that waits for approval lists again.

        Args:
            tenant: tenant of the source.
            source: its name.
            deletions: upper bound. If the new listing lacks more items, nothing is deleted and all are withheld again,
                because their owner has approved other deletions than these.

        Raises:
            NotFound: the tenant has no source of that name.
            InvalidInput: the number is not positive.
            Conflict: no deletions of this source are withheld.
        """
        if deletions < 1:
            raise InvalidInput("Approve at least one deletion, or resume the job without them.", field="deletions")
        async with self._database.begin() as connection:
            found = await _hold_source(connection, tenant, source)
            waiting = await connection.execute(SQL.lock_waiting, {"tenant": tenant, "key": str(found["id"])})
            job_id = waiting.scalar_one_or_none()
            if job_id is None:
                raise Conflict(f"No deletions of the source '{source}' wait for approval.")
            await connection.execute(SQL.resume, {"id": job_id})
            await _enqueue(connection, job_id, tenant, found["collection"])
            parameters = {"id": job_id, "source_id": found["id"], "approved": deletions}
            if found["kind"] == PUSH:
                await self._require_enough(connection, source, job_id, deletions)
                await connection.execute(SQL.delete_withheld, parameters)
            else:
                await connection.execute(SQL.list_again, parameters)
            return await state_of(connection, tenant, job_id)

    async def withheld(self, tenant: str, source: str) -> Withheld:
        """Return the deletions of a source that need approval.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        async with self._database.begin() as connection:
            found = await _hold_source(connection, tenant, source)
            scope = {"tenant": tenant, "key": str(found["id"]), "source_id": found["id"]}
            items = (await connection.execute(SQL.count_items, scope)).scalar_one()
            waiting = (await connection.execute(SQL.waiting, scope)).one_or_none()
            if waiting is None:
                return Withheld(None, 0, items, [])
            chosen = {"id": waiting.id, "apart": self._apart, "limit": MOST_SHOWN}
            keys = (await connection.execute(SQL.withheld_keys, chosen)).scalars()
        return Withheld(waiting.id, waiting.withheld, items, keys)

    async def waiting(self, tenant: str) -> list[WaitingSync]:
        """Return the syncs of a tenant that wait for approval, in order of their sources' names."""
        return [WaitingSync(**row) for row in await self._database.rows(SQL.waiting_of_tenant, {"tenant": tenant})]

    async def page(
        self, tenant: str, source: str, *, after: tuple[datetime, UUID] | None = None, limit: int = 20
    ) -> list[SyncState]:
        """Return the syncs of a source, newest first, after `after`; the newest 50 are retained.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        at, sync_id = after or (None, None)
        async with self._database.begin() as connection:
            found = await _hold_source(connection, tenant, source)
            parameters = {"source_id": found["id"], "at": at, "after": sync_id, "limit": limit}
            return [_state(row) for row in (await connection.execute(SQL.page, parameters))]

    async def get(self, tenant: str, job_id: UUID) -> SyncState:
        """Return a sync by the id of its job.

        Raises:
            NotFound: the tenant has no sync of that id.
        """
        async with self._database.begin() as connection:
            return await state_of(connection, tenant, job_id)

    async def _require_enough(self, connection: Connection, source: str, job_id: UUID, deletions: int) -> None:
        """Raise Conflict unless an approval allows all withheld deletions of a listing that a program has pushed."""
        found = await connection.execute(SQL.count_withheld, {"id": job_id, "apart": self._apart})
        if (withheld := found.scalar_one()) > deletions:
            raise Conflict(f"{withheld:,} deletions of the source '{source}' are withheld: nothing was deleted.")


async def newest(connection: Connection, sources: Sequence[UUID]) -> dict[UUID, SyncState]:
    """Return the newest sync of each of these sources; sources without syncs are missing."""
    rows = await connection.execute(SQL.newest, {"sources": list(sources)})
    return {row["source_id"]: _state(row) for row in rows}


def no_source(name: str) -> NotFound:
    return NotFound(f"There is no source '{name}'. GET /v1/sources lists the sources.")


async def open_sync(connection: Connection, tenant: str, source: str) -> UUID:
    """Open and queue a sync of a source; return its id. Raises as `Syncs.start`."""
    found = await _hold_source(connection, tenant, source)
    job_id = await _open(connection, tenant, found)
    scope = {"id": job_id, "source_id": found["id"], "tenant": tenant, "collection": found["collection"]}
    await connection.execute(SQL.insert, scope)
    await connection.execute(SQL.delete_oldest, {"source_id": found["id"], "retained": _RETAINED})
    return job_id


async def _hold_source(connection: Connection, tenant: str, source: str) -> Row:
    """Keep a source until the transaction ends.

    Raises:
        NotFound: the tenant has no source of that name.
    """
    found = await connection.execute(SQL.hold_source, {"tenant": tenant, "source": source})
    row = found.one_or_none()
    if row is None:
        raise no_source(source)
    return row


async def _open(connection: Connection, tenant: str, source: Row) -> UUID:
    """Open and queue the job of a sync; raises as `Syncs.start`."""
    name, key = source["collection"], str(source["id"])
    await build_sync.hold(connection, tenant, name)
    live = await build_sync.live_of(connection, tenant, name)
    if live is None:
        raise being_erased(f"the collection '{name}'")
    await connection.execute(SQL.release_key, {"tenant": tenant, "key": key})
    job = await open_job(connection, collection_of(live), JobKind.SYNC, key=key, expected=None)
    await _enqueue(connection, job.id, tenant, name)
    return job.id


async def _enqueue(connection: Connection, job_id: UUID, tenant: str, collection: str) -> None:
    await job_claims.enqueue(connection, job_id, JobKind.SYNC, tenant=tenant, collection=collection, most=_MOST_QUEUED)


async def state_of(connection: Connection, tenant: str, job_id: UUID) -> SyncState:
    """Return a sync; raises as `Syncs.get`."""
    row = (await connection.execute(SQL.get, {"tenant": tenant, "id": job_id})).one_or_none()
    if row is None:
        raise NotFound(f"There is no sync {job_id}.")
    return _state(row)


def _state(row: Row) -> SyncState:
    counts: dict[str, Any] = {name: row[name] for name in SyncCounts.__dataclass_fields__}
    return SyncState(
        id=row["id"],
        source=row["source"],
        collection=row["collection"],
        state=JobState(row["state"]),
        counts=SyncCounts(**counts),
        refused=[RefusedEntry(**known_fields(e, RefusedEntry.__dataclass_fields__)) for e in row["refused_entries"]],
        waiting=row["waiting"],
        approved=row["approved"],
        error=row["error"],
        created_at=row["created_at"],
        listed_at=row["listed_at"],
        ended_at=row["ended_at"],
        checkpoint=row["checkpoint"],
        expires_at=row["expires_at"],
    )
