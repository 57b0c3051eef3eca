"""Hints of sources: keys of entries that may have changed, and the run of a source that looks them up.

A hint is durable, and it is deleted in the transaction that saves its document. The run of a source has the id of the
source, so that a source has one at most. Hints whose run has failed are looked up again by `reopen`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.errors import Conflict, LeaseLost
from shared.domain.runs import RunClaim, RunKind
from shared.domain.sources import SourceDefinition
from shared.ledger.documents import build_sync
from shared.ledger.documents.submission import Submission, submit_within
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.runs import run_claims
from shared.ledger.sources import listings
from shared.ledger.sources.listings import StoredItem, SyncedDocument
from shared.ledger.sources.sources import definition_of
from shared.ledger.sources.syncs import no_source

_MOST = 100_000  # hints of a source: a listing is faster than so many single reads
_PAUSE_AFTER_FAILURE = timedelta(minutes=5)

SQL = statements.load(
    __file__,
    run_claims.PHASES,
    ended=run_claims.ENDED,
    clear=run_claims.CLEARED[RunKind.LOOKUP],
    LOOKUP=f"'{RunKind.LOOKUP}'",
)


@dataclass(frozen=True, slots=True)
class StoredHint:
    """A hint that can be looked up.

    Args:
        key: key of the entry.
        hinted_at: when it was last hinted.
        item: item of the entry; None without a document.
    """

    key: str
    hinted_at: datetime
    item: StoredItem | None


class Hints:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def add(self, tenant: str, source: str, keys: Sequence[str]) -> None:
        """Store hints, and queue the run that looks them up; the caller wakes the queue `syncs`.

        Raises:
            NotFound: the tenant has no source of that name.
            Conflict: too many hints of the source wait already.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(SQL.hold_source, {"tenant": tenant, "source": source})
            row = found.mappings().one_or_none()
            if row is None:
                raise no_source(source)
            await _require_room(connection, row["id"], source)
            await connection.execute(SQL.add, {"id": row["id"], "keys": sorted(keys)})
            await _open(connection, [row["id"]])

    async def report(self, source_id: UUID, keys: Sequence[str]) -> None:
        """Store hints of a worker; `reopen` queues the run that looks them up. Without effect if too many wait."""
        async with self._database.begin() as connection:
            if (await connection.execute(SQL.count, {"id": source_id, "most": _MOST})).scalar_one() < _MOST:
                await connection.execute(SQL.add, {"id": source_id, "keys": sorted(keys)})

    async def reopen(self) -> bool:
        """Queue runs for hints that no run looks up; return whether there were any."""
        async with self._database.begin() as connection:
            due = (await connection.execute(SQL.due, {"pause": _PAUSE_AFTER_FAILURE})).scalars().all()
            await _open(connection, due)
        return bool(due)

    async def source_of(self, claim: RunClaim) -> SourceDefinition:
        """Return the source of a claimed run.

        Raises:
            LeaseLost: the source is being removed, or another worker has claimed the run.
        """
        rows = await self._database.rows(SQL.source_of, run_claims.of(claim))
        if not rows:
            raise LeaseLost
        return definition_of(rows[0])

    async def next(self, source: SourceDefinition, limit: int) -> list[StoredHint]:
        """Return some hints of a source that can be looked up now, the oldest first."""
        return [_hint(row) for row in await self._database.rows(SQL.next, {"id": source.id, "limit": limit})]

    @again_after_collision
    async def save(
        self,
        claim: RunClaim,
        source: SourceDefinition,
        hints: Sequence[StoredHint],
        *,
        documents: Sequence[SyncedDocument],
        present: Sequence[str],
    ) -> Sequence[Submission]:
        """Submit the documents of hints, and delete the hints, in one transaction.

        A missing entry changes nothing: it is deleted after two complete listings lacked it. While the source is
        listed, the hints remain, because the listing may have read older content, and saves it later.

        Args:
            claim: claimed run.
            source: source of the run.
            hints: hints that were looked up.
            documents: content of new and changed entries.
            present: keys of items that a listing lacked, and that exist.

        Raises:
            LeaseLost: the source was removed, or another worker has claimed the run.
            Conflict: the collection is being erased.
        """
        looked = {"id": source.id, "keys": [h.key for h in hints], "times": [h.hinted_at for h in hints]}
        async with self._database.begin() as connection:
            if (await connection.execute(SQL.hold_run, run_claims.of(claim))).one_or_none() is None:
                raise LeaseLost
            submissions = await _submit(connection, source, documents)
            await _write_items(connection, source, documents, present)
            await connection.execute(SQL.repeat_later, looked)
            await connection.execute(SQL.delete, looked)
        return submissions

    async def wait(self, claim: RunClaim, reason: str) -> None:
        """Store why a claimed run reads no more entries now."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.wait, run_claims.of(claim) | {"waiting": reason})

    async def finish(self, claim: RunClaim) -> None:
        """End a claimed run; nothing changes if another worker has claimed it."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.finish, run_claims.of(claim))


async def _require_room(connection: AsyncConnection, source_id: UUID, name: str) -> None:
    if (await connection.execute(SQL.count, {"id": source_id, "most": _MOST})).scalar_one() >= _MOST:
        raise Conflict(f"{_MOST:,} hints of the source '{name}' wait already: start a sync instead.")


async def _open(connection: AsyncConnection, ids: Sequence[UUID]) -> None:
    """Queue the runs of sources that have none."""
    opened = (await connection.execute(SQL.open, {"ids": list(ids)})).scalars().all() if ids else []
    if opened:
        await connection.execute(SQL.show_queued, {"ids": list(opened)})


async def _submit(
    connection: AsyncConnection, source: SourceDefinition, documents: Sequence[SyncedDocument]
) -> Sequence[Submission]:
    if not documents:
        return []
    await build_sync.hold(connection, source.tenant, source.collection)
    live = await build_sync.live_of(connection, source.tenant, source.collection)
    if live is None:
        raise being_erased(f"the collection '{source.collection}'")
    collection = collection_of(live)
    return await submit_within(connection, [replace(each.document, collection=collection) for each in documents], 0)


async def _write_items(
    connection: AsyncConnection, source: SourceDefinition, documents: Sequence[SyncedDocument], present: Sequence[str]
) -> None:
    if documents:
        written = sorted((each.key, each.version) for each in documents)
        keys, versions = [key for key, _ in written], [version for _, version in written]
        await connection.execute(listings.SQL.save_items, {"source_id": source.id, "keys": keys, "versions": versions})
    if present:
        await connection.execute(listings.SQL.mark_present, {"source_id": source.id, "keys": list(present)})


def _hint(row: RowMapping) -> StoredHint:
    has_item = row["version"] is not None
    item = StoredItem(row["key"], row["version"], row["is_marked"]) if has_item else None
    return StoredHint(row["key"], row["hinted_at"], item)
