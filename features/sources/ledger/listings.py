"""The work of a claimed sync: items, their documents and the position of the listing, saved together.

A worker compares the listing with the items part by part, and saves each part in one transaction. Another worker
continues after it: nothing is lost, and nothing is submitted twice. A worker that lost its lease saves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import timedelta
from typing import Self
from uuid import UUID

from features.sources.domain import MOST_SHOWN, RefusedEntry, SourceDefinition
from features.sources.ledger.sources import definition_of
from features.sources.ledger.syncs import DELETABLE
from shared.domain.corpus.documents import NewDocument
from shared.domain.errors import LeaseLost
from shared.domain.jobs import JobClaim, JobState
from shared.ledger.documents import build_sync, document_readers
from shared.ledger.documents.documents import delete_named
from shared.ledger.documents.submission import Submission, replace_references, submit_within
from shared.ledger.jobs import job_claims
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import counters, states
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database, again_after_collision

_DELETED_AT_ONCE = 100  # documents of one transaction: a few statements each

SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    deletable=DELETABLE,
    chunk_counts=counters.of_tenant("chunks"),
)


@dataclass(frozen=True, slots=True)
class ClaimedSync:
    """A claimed sync with its saved work.

    Args:
        listing: name of the listing, which it keeps when another worker continues it.
        after: key up to which the listing is saved.
        is_listed: whether the listing is complete.
        deletes: whether the deletions of a complete listing are carried out.
        is_closed: whether the program has ended a listing that it pushed.
    """

    source: SourceDefinition
    listing: str
    after: str
    is_listed: bool
    deletes: bool
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An entry with a document, as the last sync left it.

    Args:
        version: version of the document's content.
        is_marked: whether a listing lacked it.
        readable_by: stored readers of the document; None if they were not read, or the document was deleted.
    """

    key: str
    version: str
    is_marked: bool
    readable_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SyncedDocument:
    """The fetched content of an entry; `is_new` if the entry had no item."""

    key: str
    version: str
    document: NewDocument
    is_new: bool


@dataclass(frozen=True, slots=True)
class SyncedPart:
    """The result of comparing a part of a listing with the items.

    Args:
        after: last key of the part, from which another worker continues.
        seen: number of entries.
        unchanged: number of entries with the version of their item.
        documents: content of other entries.
        present: keys of items that exist again.
        missing: keys of items that the part lacks.
        refused: entries that cannot be read.
        readers: new readers by the key of an entry without new content.
    """

    after: str
    seen: int = 0
    unchanged: int = 0
    documents: Sequence[SyncedDocument] = ()
    present: Sequence[str] = ()
    missing: Sequence[str] = ()
    refused: Sequence[RefusedEntry] = ()
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedPart:
    """A saved part.

    Args:
        submissions: results of its documents, in order.
        is_paused: whether the job is paused, so that its worker stops here.
    """

    submissions: Sequence[Submission] = field(default_factory=tuple)
    is_paused: bool = False


class Listings:
    """The work of claimed syncs.

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

    async def start(self, claim: JobClaim) -> ClaimedSync:
        """Start or continue a claimed sync.

        Raises:
            LeaseLost: it was cancelled, or another worker has claimed it.
        """
        rows = await self._database.rows(SQL.start, job_claims.claim_parameters(claim))
        if not rows:
            raise LeaseLost
        (row,) = rows
        listing = f"{claim.id}/{row['number']}"
        return ClaimedSync(
            definition_of(row),
            listing,
            row["after"],
            is_listed=row["listed_at"] is not None,
            deletes=row["deletes"],
            is_closed=row["closed_at"] is not None,
        )

    async def items(
        self, source: SourceDefinition, *, after: str, limit: int, with_readers: bool = False
    ) -> list[StoredItem]:
        """Return items of a source after a key, in the order of their keys' bytes.

        Args:
            source: the source.
            after: the key.
            limit: maximum number of items.
            with_readers: whether the readers of their documents are read, too.
        """
        rows = await self._database.rows(SQL.items, {"source_id": source.id, "after": after, "limit": limit})
        items = [StoredItem(**row) for row in rows]
        return await read_readers(self._database, source, items) if with_readers else items

    @again_after_collision
    async def save(self, claim: JobClaim, source: SourceDefinition, part: SyncedPart) -> SavedPart:
        """Save a part of a listing with its documents and items, in one transaction.

        Raises:
            LeaseLost: the sync was cancelled, or another worker has claimed it.
            Conflict: the collection is being erased.
        """
        async with self._database.begin() as connection:
            job = await _hold_job(connection, claim)
            submissions = await _submit(connection, claim, part, job.number)
            await change_readers(connection, source, part.readers)
            await write_items(connection, source, part.documents, part.present)
            await _mark_missing(connection, claim, source, part)
            accepted = [d.is_new for d, s in zip(part.documents, submissions, strict=True) if s.accepted]
            counts = {"seen": part.seen, "missing": len(part.missing), "refused": len(part.refused)}
            counts |= {"created": sum(accepted), "changed": len(accepted) - sum(accepted)}
            counts["unchanged"] = part.unchanged + len(submissions) - len(accepted)
            same = [each for each in submissions if not each.accepted and each.described is not None]
            counts["readers_changed"] = len(part.readers) + len(same)
            shown = json.dumps([asdict(entry) for entry in part.refused[:MOST_SHOWN]])
            row = {"after": part.after, "refused_entries": shown, "most": MOST_SHOWN}
            if not (await connection.execute(SQL.advance, job_claims.claim_parameters(claim) | row | counts)).all():
                raise LeaseLost
        return SavedPart(submissions, is_paused=job.is_paused)

    async def end_listing(self, claim: JobClaim, source: SourceDefinition) -> None:
        """Record that a listing is complete, and decide whether its deletions need approval.

        Raises:
            LeaseLost: as `save`.
        """
        async with self._database.begin() as connection:
            await _hold_job(connection, claim)
            listed = (await connection.execute(SQL.end_listing, job_claims.claim_parameters(claim))).one_or_none()
            if listed is None:
                raise LeaseLost
            scope = {"id": claim.id, "source_id": source.id, "apart": self._apart}
            found = (await connection.execute(SQL.count_deletable, scope)).one()
            # An empty listing usually means that the source is not mounted, or that its address is wrong.
            allowed = source.allowed_deletions(found["items"]) if listed.seen else 0
            if listed.approved is not None:
                allowed = listed.approved
            deletes = found.deletable <= allowed
            row = {"id": claim.id, "deletes": deletes, "withheld": 0 if deletes else found.deletable}
            await connection.execute(SQL.decide, row)

    @again_after_collision
    async def delete_some(self, claim: JobClaim, source: SourceDefinition) -> bool:
        """Delete the documents of some items that may be deleted; return whether more may be left.

        Raises:
            JobPaused: the job is paused.
            LeaseLost: as `save`.
        """
        async with self._database.begin() as connection:
            if (await _hold_job(connection, claim)).is_paused:
                raise JobPaused
            scope = {"id": claim.id, "apart": self._apart, "limit": _DELETED_AT_ONCE}
            keys = (await connection.execute(SQL.lock_deletable, scope)).scalars()
            names = [source.external_id(key) for key in keys]
            deleted = await delete_named(connection, source.tenant, source.collection, names)
            await connection.execute(SQL.delete_items, {"source_id": source.id, "keys": keys})
            counted = await connection.execute(
                SQL.count_deleted, job_claims.claim_parameters(claim) | {"deleted": deleted}
            )
            if not counted.all():
                raise LeaseLost
        return len(keys) == _DELETED_AT_ONCE

    async def finish(self, claim: JobClaim) -> None:
        """End a claimed sync; its job waits for approval if deletions are withheld.

        Nothing changes if it was cancelled, or another worker has claimed it.
        """
        async with self._database.begin() as connection:
            if await job_claims.end(connection, claim, JobState.DONE):
                await connection.execute(SQL.wait_for_approval, {"id": claim.id})

    async def open_chunks(self, tenant: str) -> int:
        """Return how many chunks of a tenant wait for a worker, without counting rows."""
        (row,) = await self._database.rows(SQL.open_chunks, {"tenant": tenant})
        count: int = row["rows"]
        return count


async def read_readers(database: Database, source: SourceDefinition, items: Sequence[StoredItem]) -> list[StoredItem]:
    """Return items with the readers of their documents."""
    names = {item.key: source.external_id(item.key) for item in items}
    readers = await document_readers.read(database, source.tenant, source.collection, list(names.values()))
    return [replace(item, readable_by=readers.get(names[item.key])) for item in items]


async def change_readers(
    connection: Connection, source: SourceDefinition, readers: Mapping[str, Sequence[str]]
) -> Sequence[UUID]:
    """Change the readers of documents, by the keys of their entries, in the transaction of the caller.

    Returns:
        The rows of the documents in all builds, whose points are outdated now.
    """
    named = {source.external_id(key): names for key, names in readers.items()}
    return await document_readers.change(connection, source.tenant, source.collection, named)


class JobPaused(LeaseLost):
    """The job of a claimed sync is paused."""


@dataclass(frozen=True, slots=True)
class _Job:
    number: int
    is_paused: bool


async def _hold_job(connection: Connection, claim: JobClaim) -> _Job:
    """Keep the state of a sync's job until the transaction ends.

    Raises:
        LeaseLost: the job is being cancelled, or was deleted.
    """
    row = (await connection.execute(SQL.hold_job, {"id": claim.id})).one_or_none()
    if row is None or row.state not in (JobState.RUNNING, JobState.PAUSED):
        raise LeaseLost
    return _Job(row.number, row.state == JobState.PAUSED)


async def _submit(connection: Connection, claim: JobClaim, part: SyncedPart, job_number: int) -> Sequence[Submission]:
    if not part.documents:
        return []
    await build_sync.hold(connection, claim.tenant, claim.collection)
    live = await build_sync.live_of(connection, claim.tenant, claim.collection)
    if live is None:
        raise being_erased(f"the collection '{claim.collection}'")
    collection = collection_of(live)
    new = [replace(each.document, collection=collection, job_id=claim.id) for each in part.documents]
    submissions = await submit_within(connection, new, job_number)
    unchanged = [each for each, submission in zip(new, submissions, strict=True) if not submission.accepted]
    await replace_references(connection, unchanged)
    return submissions


async def write_items(
    connection: Connection, source: SourceDefinition, documents: Sequence[SyncedDocument], present: Sequence[str]
) -> None:
    """Write the items of new contents, and of entries that a listing lacked; nothing for unchanged ones."""
    if documents:
        written = sorted((each.key, each.version) for each in documents)
        keys, versions = [key for key, _ in written], [version for _, version in written]
        await connection.execute(SQL.save_items, {"source_id": source.id, "keys": keys, "versions": versions})
    if present:
        await connection.execute(SQL.mark_present, {"source_id": source.id, "keys": list(present)})


async def _mark_missing(connection: Connection, claim: JobClaim, source: SourceDefinition, part: SyncedPart) -> None:
    if part.missing:
        scope = {"id": claim.id, "source_id": source.id, "keys": list(part.missing)}
        await connection.execute(SQL.mark_missing, scope)
