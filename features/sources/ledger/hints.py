"""Hints of sources: keys of entries that may have changed, and the job of a source that looks them up.

A hint is durable, and it is deleted in the transaction that saves its document. The lookup of a source has the id of
the source, so that a source has one at most. Hints whose lookup has failed are looked up again by `reopen`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from uuid import UUID

from features.sources.domain import SourceDefinition
from features.sources.ledger import listings
from features.sources.ledger.listings import StoredItem, SyncedDocument
from features.sources.ledger.sources import definition_of
from features.sources.ledger.syncs import no_source
from shared.domain.errors import Conflict, LeaseLost
from shared.domain.jobs import JobClaim, JobState
from shared.ledger.documents import build_sync
from shared.ledger.documents.submission import Submission, submit_within
from shared.ledger.jobs import job_claims
from shared.ledger.model import states
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision

_MOST = 100_000  # hints of a source: a listing is faster than so many single reads
_PAUSE_AFTER_FAILURE = timedelta(minutes=5)

SQL = statements.load(__file__, states.FRAGMENTS)


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
        """Store hints, and queue the lookup; the caller wakes the queue `syncs`.

        Raises:
            NotFound: the tenant has no source of that name.
            Conflict: too many hints of the source wait already.
        """
        async with self._database.begin() as connection:
            found = await connection.execute(SQL.hold_source, {"tenant": tenant, "source": source})
            row = found.one_or_none()
            if row is None:
                raise no_source(source)
            await _require_room(connection, row["id"], source)
            await connection.execute(SQL.add, {"id": row["id"], "keys": sorted(keys)})
            await _open(connection, [row["id"]])

    async def report(self, source_id: UUID, keys: Sequence[str]) -> None:
        """Store hints of a worker; `reopen` queues the lookup. Without effect if too many wait."""
        async with self._database.begin() as connection:
            if (await connection.execute(SQL.count, {"id": source_id, "most": _MOST})).scalar_one() < _MOST:
                await connection.execute(SQL.add, {"id": source_id, "keys": sorted(keys)})

    async def reopen(self) -> bool:
        """Queue lookups for hints that no job looks up; return whether there were any."""
        async with self._database.begin() as connection:
            due = (await connection.execute(SQL.due, {"pause": _PAUSE_AFTER_FAILURE})).scalars()
            return await _open(connection, due)

    async def source_of(self, claim: JobClaim) -> SourceDefinition:
        """Return the source of a claimed lookup.

        Raises:
            LeaseLost: the source is being removed, or another worker has claimed the lookup.
        """
        rows = await self._database.rows(SQL.source_of, job_claims.claim_parameters(claim))
        if not rows:
            raise LeaseLost
        return definition_of(rows[0])

    async def next(self, source: SourceDefinition, limit: int, *, with_readers: bool = False) -> list[StoredHint]:
        """Return some hints of a source that can be looked up now, the oldest first."""
        hints = [_hint(row) for row in await self._database.rows(SQL.next, {"id": source.id, "limit": limit})]
        if not with_readers:
            return hints
        items = [hint.item for hint in hints if hint.item is not None]
        read = {item.key: item for item in await listings.read_readers(self._database, source, items)}
        return [replace(hint, item=read.get(hint.key)) for hint in hints]

    @again_after_collision
    async def save(
        self,
        claim: JobClaim,
        source: SourceDefinition,
        hints: Sequence[StoredHint],
        *,
        documents: Sequence[SyncedDocument],
        present: Sequence[str],
        readers: Mapping[str, Sequence[str]],
    ) -> Sequence[Submission]:
        """Submit the documents of hints, and delete the hints, in one transaction.

        A missing entry changes nothing: it is deleted after two complete listings lacked it. While the source is
        listed, the hints remain, because the listing may have read older content, and saves it later.

        Args:
            claim: claimed lookup.
            source: its source.
            hints: hints that were looked up.
            documents: content of new and changed entries.
            present: keys of items that a listing lacked, and that exist.
            readers: new readers by the key of an entry without new content.

        Raises:
            LeaseLost: the source was removed, or another worker has claimed the lookup.
            Conflict: the collection is being erased.
        """
        looked = {"id": source.id, "keys": [h.key for h in hints], "times": [h.hinted_at for h in hints]}
        async with self._database.begin() as connection:
            if (
                await connection.execute(job_claims.SQL.hold, job_claims.claim_parameters(claim))
            ).one_or_none() is None:
                raise LeaseLost
            submissions = await _submit(connection, source, documents)
            await listings.change_readers(connection, source, readers)
            await listings.write_items(connection, source, documents, present)
            await connection.execute(SQL.repeat_later, looked)
            await connection.execute(SQL.delete, looked)
        return submissions

    async def finish(self, claim: JobClaim) -> None:
        """End a claimed lookup; nothing changes if another worker has claimed it."""
        async with self._database.begin() as connection:
            await job_claims.end(connection, claim, JobState.DONE)


async def _require_room(connection: Connection, source_id: UUID, name: str) -> None:
    if (await connection.execute(SQL.count, {"id": source_id, "most": _MOST})).scalar_one() >= _MOST:
        raise Conflict(f"{_MOST:,} hints of the source '{name}' wait already: start a sync instead.")


async def _open(connection: Connection, ids: Sequence[UUID]) -> bool:
    """Queue lookups of sources that have no open one; return whether there were any."""
    opened = (await connection.execute(SQL.open, {"ids": list(ids)})).scalars() if ids else []
    if opened:
        await connection.execute(SQL.queue, {"ids": list(opened)})
    return bool(opened)


async def _submit(
    connection: Connection, source: SourceDefinition, documents: Sequence[SyncedDocument]
) -> Sequence[Submission]:
    if not documents:
        return []
    await build_sync.hold(connection, source.tenant, source.collection)
    live = await build_sync.live_of(connection, source.tenant, source.collection)
    if live is None:
        raise being_erased(f"the collection '{source.collection}'")
    collection = collection_of(live)
    return await submit_within(connection, [replace(each.document, collection=collection) for each in documents], 0)


def _hint(row: Row) -> StoredHint:
    has_item = row["version"] is not None
    item = StoredItem(row["key"], row["version"], row["is_marked"]) if has_item else None
    return StoredHint(row["key"], row["hinted_at"], item)
