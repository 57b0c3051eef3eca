"""Listings that programs push: pages of entries in any order, which are saved as they arrive.

The job of such a listing is open, and its claim waits until the program ends the listing. Then a worker carries out the
deletions, as after each listing. If the program is silent for too long, a worker claims the job and fails it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any
from uuid import UUID

from features.sources.domain import PUSH, SourceDefinition, SyncState
from features.sources.ledger import listings, syncs
from features.sources.ledger.listings import StoredItem, SyncedDocument
from features.sources.ledger.sources import definition_of
from shared.domain.errors import Conflict, JobIsOpen, NotFound
from shared.domain.jobs import JobClaim, JobState
from shared.ledger.documents import build_sync
from shared.ledger.documents.documents import delete_named
from shared.ledger.documents.submission import Submission, submit_within
from shared.ledger.model import states
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision

_WAITING = "Its program has not ended the listing yet."
_FORGOTTEN_AT_ONCE = 10_000

SQL = statements.load(__file__, states.FRAGMENTS)


@dataclass(frozen=True, slots=True)
class StoredDescription:
    """The description of a document's newest version; the readers are as they are stored."""

    document_id: UUID
    title: str | None
    metadata: Mapping[str, Any]
    readable_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """The item of an entry, and the description of its document; None if there is none."""

    item: StoredItem | None = None
    document: StoredDescription | None = None


@dataclass(frozen=True, slots=True)
class PushedPart:
    """A part of a page, small enough for one transaction. The keys are distinct.

    Args:
        documents: content of entries.
        present: keys of items that a listing lacked, and that exist.
        readers: new readers by the key of an entry without new content.
        unchanged: keys of entries with the version of their item.
        problems: why the documents of other entries are not up to date, by key.
    """

    documents: Sequence[SyncedDocument] = ()
    present: Sequence[str] = ()
    readers: Mapping[str, Sequence[str]] = field(default_factory=dict)
    unchanged: Sequence[str] = ()
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SavedPush:
    """A saved part.

    Args:
        submissions: results of its documents, in order.
        described: rows of the documents whose points are outdated now.
    """

    submissions: Sequence[Submission]
    described: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class UnlistedKey:
    """A key that a listing lacks, or, with a problem, an entry whose document is not up to date."""

    key: str
    problem: str | None


class Pushes:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def source(self, tenant: str, name: str) -> SourceDefinition:
        """Return a source to which programs push.

        Raises:
            NotFound: the tenant has no source of that name.
            Conflict: it has another kind.
        """
        rows = await self._database.rows(SQL.find_source, {"tenant": tenant, "source": name})
        if not rows:
            raise syncs.no_source(name)
        definition = definition_of(rows[0])
        if definition.kind != PUSH:
            raise Conflict(f"The source '{name}' has the kind {definition.kind}: foreask reads it in its syncs.")
        return definition

    @again_after_collision
    async def start(self, source: SourceDefinition, key: str, *, expires: timedelta) -> tuple[SyncState, bool]:
        """Start a listing, or return the open one with the same key; and whether it is new.

        Raises:
            NotFound: the source is being removed.
            JobIsOpen: a listing with another key is open, or the deletions of the last one are being carried out.
            Conflict: as `Syncs.start`.
        """
        async with self._database.begin() as connection:
            try:
                job_id = await syncs.open_sync(connection, source.tenant, source.name)
            except JobIsOpen as error:
                listing = await _listing(connection, source, error.job_id)
                if listing is None or not listing["is_awaited"] or listing["push_key"] != key:
                    raise
                await _wait(connection, error.job_id, expires)
                return await syncs.state_of(connection, source.tenant, error.job_id), False
            await connection.execute(SQL.start, {"id": job_id, "key": key})
            await _wait(connection, job_id, expires)
            return await syncs.state_of(connection, source.tenant, job_id), True

    @again_after_collision
    async def end(self, source: SourceDefinition, listing_id: UUID) -> SyncState:
        """End a listing; the caller wakes the queue `syncs`. A listing that was ended before stays as it is.

        Raises:
            NotFound: the source has no such listing.
            Conflict: it was cancelled, or has failed.
        """
        async with self._database.begin() as connection:
            await connection.execute(SQL.lock_job, {"id": listing_id})
            listing = await _required(connection, source, listing_id)
            if listing["closed_at"] is None:
                _require_awaited(listing)
                await connection.execute(SQL.close, {"id": listing_id})
                await connection.execute(SQL.queue, {"id": listing_id})
            return await syncs.state_of(connection, source.tenant, listing_id)

    async def stored(self, source: SourceDefinition, keys: Sequence[str]) -> dict[str, StoredEntry]:
        """Return the items and the documents of entries by key."""
        names = {source.external_id(key): key for key in keys}
        of_documents = {"tenant": source.tenant, "name": source.collection, "external_ids": list(names)}
        rows = await self._database.rows(SQL.items, {"source_id": source.id, "keys": list(keys)})
        items = {row["key"]: StoredItem(**row) for row in rows}
        documents = {
            names[row["external_id"]]: StoredDescription(
                row["document_id"], row["title"], row["metadata"], tuple(row["readable_by"])
            )
            for row in await self._database.rows(SQL.descriptions, of_documents)
        }
        return {key: StoredEntry(items.get(key), documents.get(key)) for key in keys}

    @again_after_collision
    async def save(
        self, source: SourceDefinition, listing_id: UUID | None, part: PushedPart, *, expires: timedelta
    ) -> SavedPush:
        """Save a part of a page with its documents and items, in one transaction.

        Args:
            source: the source.
            listing_id: the listing that it belongs to; None: it belongs to none.
            part: the part.
            expires: time without a page after which the listing fails.

        Raises:
            NotFound: the source is being removed, or has no such listing.
            Conflict: the listing has ended, or the collection is being erased.
        """
        async with self._database.begin() as connection:
            job_number = await _hold(connection, source, listing_id)
            submissions = await _submit(connection, source, part, listing_id, job_number)
            changed = await listings.change_readers(connection, source, part.readers)
            await listings.write_items(connection, source, part.documents, part.present)
            same = [each.described for each in submissions if each.described is not None]
            await _count(connection, source, listing_id, part, submissions)
            if listing_id is not None:  # last, because concurrent pages of a listing wait for this row
                await _wait(connection, listing_id, expires)
        return SavedPush(submissions, [*changed, *same])

    @again_after_collision
    async def delete(
        self, source: SourceDefinition, listing_id: UUID | None, keys: Sequence[str], *, expires: timedelta
    ) -> int:
        """Delete the documents and items of at most a hundred keys; return the number of documents.

        Raises:
            NotFound, Conflict: as `save`.
        """
        async with self._database.begin() as connection:
            await _hold(connection, source, listing_id)
            names = [source.external_id(key) for key in keys]
            deleted = await delete_named(connection, source.tenant, source.collection, names)
            scope = {"source_id": source.id, "keys": list(keys)}
            await connection.execute(listings.SQL.delete_items, scope)
            if listing_id is not None:
                await connection.execute(SQL.forget_keys, {"id": listing_id, "keys": list(keys)})
                none = dict.fromkeys(("seen", "created", "changed", "unchanged", "readers_changed"), 0)
                await connection.execute(SQL.count, none | {"id": listing_id, "deleted": deleted})
                await _wait(connection, listing_id, expires)
        return deleted

    async def save_checkpoint(self, listing_id: UUID, checkpoint: str) -> None:
        """Keep the position of a program, which has pushed everything before it."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.save_checkpoint, {"id": listing_id, "checkpoint": checkpoint})

    async def unlisted(self, claim: JobClaim, *, after: str, limit: int) -> list[UnlistedKey]:
        """Return keys after a key, in order, that a claimed listing lacks or whose documents are not up to date."""
        rows = await self._database.rows(SQL.unlisted, {"id": claim.id, "after": after, "limit": limit})
        return [UnlistedKey(**row) for row in rows]

    async def forget_some(self, claim: JobClaim, source: SourceDefinition) -> bool:
        """Delete some pushed keys of a claimed listing that is complete; return whether more may be left."""
        parameters = {"id": claim.id, "source_id": source.id, "limit": _FORGOTTEN_AT_ONCE}
        return len(await self._database.rows(SQL.forget, parameters)) == _FORGOTTEN_AT_ONCE


async def _hold(connection: Connection, source: SourceDefinition, listing_id: UUID | None) -> int:
    """Keep a source and an open listing until the transaction ends; return the number of the listing's job.

    Raises:
        NotFound, Conflict: as `Pushes.save`.
    """
    if not (await connection.execute(SQL.hold_source, {"id": source.id})).all():
        raise syncs.no_source(source.name)
    if listing_id is None:
        return 0
    job = (await connection.execute(listings.SQL.hold_job, {"id": listing_id})).one_or_none()
    listing = await _required(connection, source, listing_id)
    _require_awaited(listing)
    if job is None or job.state not in (JobState.RUNNING, JobState.PAUSED):
        raise Conflict("The listing was cancelled: start another one.", field="listing")
    number: int = job.number
    return number


async def _listing(connection: Connection, source: SourceDefinition, listing_id: UUID) -> Row | None:
    found = await connection.execute(SQL.find_listing, {"id": listing_id, "source_id": source.id})
    return found.one_or_none()


async def _required(connection: Connection, source: SourceDefinition, listing_id: UUID) -> Row:
    listing = await _listing(connection, source, listing_id)
    if listing is None:
        raise NotFound(f"The source '{source.name}' has no listing {listing_id}: start one.", field="listing")
    return listing


def _require_awaited(listing: Row) -> None:
    """Raise Conflict unless a listing waits for its program."""
    if listing["is_awaited"]:
        return
    state = "ended" if listing["closed_at"] is not None else listing["state"]
    reason = f" ({listing['error']})" if listing["error"] else ""
    raise Conflict(f"The listing is {state}{reason}, and accepts no more entries: start another one.", field="listing")


async def _wait(connection: Connection, listing_id: UUID, expires: timedelta) -> None:
    await connection.execute(SQL.wait, {"id": listing_id, "expires": expires, "waiting": _WAITING})


async def _submit(
    connection: Connection, source: SourceDefinition, part: PushedPart, listing_id: UUID | None, job_number: int
) -> Sequence[Submission]:
    if not part.documents:
        return []
    await build_sync.hold(connection, source.tenant, source.collection)
    live = await build_sync.live_of(connection, source.tenant, source.collection)
    if live is None:
        raise being_erased(f"the collection '{source.collection}'")
    collection = collection_of(live)
    new = [replace(each.document, collection=collection, job_id=listing_id) for each in part.documents]
    return await submit_within(connection, new, job_number)


async def _count(
    connection: Connection,
    source: SourceDefinition,
    listing_id: UUID | None,
    part: PushedPart,
    submissions: Sequence[Submission],
) -> None:
    """Record the entries of a part in its listing, or in the open one, which then does not lack them."""
    noted = listing_id
    if noted is None:
        found = await connection.execute(SQL.open_listing, {"source_id": source.id})
        noted = found.scalar_one_or_none()
    if noted is None:
        return
    pairs = list(zip(part.documents, submissions, strict=True))
    same = {document.key for document, submission in pairs if not submission.accepted} | set(part.unchanged)
    problems = {**dict.fromkeys([d.key for d in part.documents] + list(part.unchanged)), **part.problems}
    entries = {
        "id": noted,
        "keys": list(problems),
        "problems": list(problems.values()),
        "unchanged": [key in same for key in problems],
    }
    counted = (await connection.execute(SQL.note_keys, entries)).one()
    if listing_id is None:
        return
    accepted = [document.is_new for document, submission in pairs if submission.accepted]
    counts = {"seen": counted.seen, "unchanged": counted.unchanged, "deleted": 0}
    counts |= {"created": sum(accepted), "changed": len(accepted) - sum(accepted)}
    described = [each for each in submissions if not each.accepted and each.described is not None]
    counts["readers_changed"] = len(part.readers) + len(described)
    await connection.execute(SQL.count, counts | {"id": listing_id})
