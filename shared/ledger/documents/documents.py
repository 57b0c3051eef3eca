"""Operations on documents for their owners: submit, list, retry, reindex, delete."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from shared.domain.access.persons import may_read
from shared.domain.corpus import readers
from shared.domain.corpus.chunk_detail import ChunkDetail
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.documents import DeletableDocument, Document, NewDocument, ShownVersion, Version
from shared.domain.corpus.filterable import require_fit
from shared.domain.corpus.metadata_fields import fields_of
from shared.domain.corpus.readers import is_outdated
from shared.domain.errors import Conflict, NotFound
from shared.domain.jobs import JobKind
from shared.domain.lanes import Lane
from shared.domain.states import ChunkState, DocumentState, PageState
from shared.ledger.documents import (
    build_sync,
    descriptions,
    listing,
    shown_chunks,
    shown_documents,
    submission,
    versions,
)
from shared.ledger.documents.dead_letters import document_parameters, revive_chunks, revive_documents, revive_pages
from shared.ledger.documents.listing import DocumentFilter, ListPosition, Order
from shared.ledger.documents.open_jobs import open_job
from shared.ledger.documents.shown_documents import Changes, with_progress
from shared.ledger.documents.submission import Submission
from shared.ledger.model import collection_fields, counters, states
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.collections import being_erased, collection_of
from shared.ledger.model.lanes import lane_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision

_REINDEX_SLICE = 1_000  # documents of one transaction: a twentieth of a second
_BULK = 1  # priority of reindexed documents
_STORED_PAGE = 10_000
_UPLOADS_PAGE = 100  # an object store is asked for each
_ONLY_LOSSES = (
    "The document has no dead chunk or page to retry. Some words or parts of its file cannot be read, which `losses`"
    " and `unread` name: another attempt would read the same. Upload the file in another format."
)

SQL = statements.load(
    __file__,
    {**states.FRAGMENTS, **collection_fields.FRAGMENTS},
    next_version=versions.NEXT,
    due_again=versions.DUE_AGAIN,
    document_counts=counters.of_tenant("documents"),
    reader_counts=counters.of_tenant("readers"),
)


@dataclass(frozen=True, slots=True)
class DescribedDocument:
    """A document with its new description, and the rows that it has in all builds."""

    document: Document
    rows: Sequence[UUID]


@dataclass(frozen=True, slots=True)
class ChunkInContext:
    """A chunk, its document, and the chunks around it in their order."""

    document: Document
    before: list[ChunkDetail]
    chunk: ChunkDetail
    after: list[ChunkDetail]


@dataclass(frozen=True, slots=True)
class StartedReindex:
    """The job of a reindex, and the number of documents that are not in progress."""

    job_id: UUID
    documents: int


@dataclass(frozen=True, slots=True)
class StoredContent:
    """The bytes of one version, by the name that the store of uploads has for them."""

    upload: str
    size_bytes: int
    filename: str | None
    media_type: str | None


@dataclass(frozen=True, slots=True)
class PagePicture:
    """A page as a WebP; `tag` is equal for the same page of the same file, read in the same way."""

    content: bytes
    tag: str


@dataclass(frozen=True, slots=True)
class VersionReaders:
    """The readers of a version of a document, as they are stored; `is_live`: queries see it."""

    version: int
    is_live: bool
    readable_by: Sequence[str]


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a document, and the name of its bytes."""

    upload: str
    tenant: str
    collection: str
    external_id: str


class Documents:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def submit(self, new: NewDocument) -> Submission:
        """Write a document's row; see `submit_many`."""
        (submission,) = await self.submit_many([new])
        return submission

    async def submit_many(self, documents: Sequence[NewDocument]) -> list[Submission]:
        """Insert documents, or start their next versions if their newest versions have other content.

        The collection's other builds change in the same transaction. The live build's row is returned.

        Idempotent: repeating a submission changes nothing. Submitting the live version's content after a failed edit
        starts a version, too: it replaces the edit. All documents are durable when this returns, in one transaction;
        they are not parsed yet.

        Args:
            documents: documents of one collection, up to some hundred. Duplicate external ids: last wins.

        Returns:
            The result of each document, in order.
        """
        return await submission.submit(self._database, documents)

    async def get(self, tenant: str, document_id: UUID, *, principals: Sequence[str] | None = None) -> Document:
        """Return a document with its progress.

        Args:
            tenant: tenant of the document.
            document_id: its public id.
            principals: the readers that a person matches. A version that names none of them is not found, here and in
                the other methods. None: a key, which reads every document.

        Raises:
            NotFound: the tenant has no document of that id.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            await _require_readable(connection, row, row["version"], principals)
            (document,) = await with_progress(connection, [row])
        return document

    async def page(
        self,
        tenant: str,
        wanted: DocumentFilter | None = None,
        *,
        order: Order = "newest",
        after: ListPosition | None = None,
        limit: int = 50,
        metadata: bool = True,
    ) -> list[Document]:
        """Return documents with their progress in an order, after `after`.

        Args:
            tenant: tenant of the documents.
            wanted: filter; by default all documents.
            order: sort order; `state` lists failures first, then work, then finished documents.
            after: last document of the previous page.
            limit: maximum number of documents.
            metadata: whether to read the metadata.
        """
        async with self._database.begin() as connection:
            rows = await listing.page(
                connection, tenant, wanted or DocumentFilter(), order=order, after=after, limit=limit, metadata=metadata
            )
            return await with_progress(connection, rows)

    async def hits(self, tenant: str, wanted: DocumentFilter, *, most: int) -> int:
        """Count the documents that a search for words finds, at most `most`."""
        async with self._database.begin() as connection:
            return await listing.hits(connection, tenant, wanted, most=most)

    async def changes(self, tenant: str, since: datetime | None, *, limit: int = 200) -> Changes:
        """Return documents that may have changed since the last call; a later call may repeat unchanged documents.

        Args:
            tenant: tenant of the documents.
            since: `at` of the last call; None for the first call, which returns all documents in progress.
            limit: maximum number of documents.
        """
        async with self._database.begin() as connection:
            return await shown_documents.changes(connection, tenant, since, limit)

    async def chunks(
        self,
        tenant: str,
        document_id: UUID,
        *,
        live: bool = False,
        after: int = -1,
        before: int | None = None,
        wanted: Sequence[ChunkState] | None = None,
        limit: int = 50,
        principals: Sequence[str] | None = None,
    ) -> list[ChunkDetail]:
        """Return chunks of a document's newest or live version in order; see `shown_chunks.read`.

        Raises:
            NotFound: the tenant has no document of that id, or queries see no version of it.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            version = await _readable_version(connection, row, principals, live=live)
            return await shown_chunks.read(
                connection, row["id"], version, after=after, before=before, wanted=wanted, limit=limit
            )

    async def ordinal_of(
        self,
        tenant: str,
        document_id: UUID,
        chunk_id: UUID,
        *,
        live: bool = False,
        principals: Sequence[str] | None = None,
    ) -> int:
        """Return the position of a chunk in a document's newest or live version.

        Raises:
            NotFound: the tenant has no document of that id, or that version has no such chunk.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            version = await _readable_version(connection, row, principals, live=live)
            ordinal = await shown_chunks.ordinal_of(connection, row["id"], version, chunk_id)
        if ordinal is None:
            raise NotFound(f"Version {version} of the document has no chunk {chunk_id}.", field="around")
        return ordinal

    async def chunk(
        self, tenant: str, chunk_id: UUID, *, before: int, after: int, principals: Sequence[str] | None = None
    ) -> ChunkInContext:
        """Return a chunk with its neighbours, from the version that queries see or else from the newest.

        Raises:
            NotFound: no document of the tenant contains a chunk of that id now.
        """
        async with self._database.begin() as connection:
            found = await shown_chunks.find(connection, tenant, chunk_id, principals)
            if found is None:
                raise shown_chunks.no_chunk(chunk_id)
            (document,) = await with_progress(connection, [await _get(connection, tenant, found.document_id)])
            version, ordinal = (found.row, found.version), found.ordinal
            first = await shown_chunks.read(connection, *version, before=ordinal, limit=before)
            chunk, *last = await shown_chunks.read(connection, *version, after=ordinal - 1, limit=1 + after)
        return ChunkInContext(document, first, chunk, last)

    async def upload(
        self, tenant: str, document_id: UUID, *, live: bool = False, principals: Sequence[str] | None = None
    ) -> StoredContent:
        """Return the location of the bytes of a document's newest or live version.

        Raises:
            NotFound: the tenant has no document of that id, or queries see no version of it.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            version = await _readable_version(connection, row, principals, live=live)
            parameters = {"id": row["id"], "version": version}
            content = (await connection.execute(SQL.stored_content, parameters)).one()
        return StoredContent(**content)

    async def page_picture(
        self,
        tenant: str,
        document_id: UUID,
        number: int,
        *,
        live: bool = False,
        principals: Sequence[str] | None = None,
    ) -> PagePicture:
        """Return the picture of a page that was read by OCR, of a document's newest or live version.

        Raises:
            NotFound: the tenant has no document of that id, queries see no version of it, or the page has no picture.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            version = await _readable_version(connection, row, principals, live=live)
            parameters = {"id": row["id"], "version": version, "number": number}
            page = (await connection.execute(SQL.page, parameters)).one_or_none()
        if page is None or page["picture"] is None:
            raise NotFound(_no_picture(number, page), field="number")
        return PagePicture(page["picture"], page["key"].hex())

    async def readers(self, tenant: str, document_id: UUID) -> Sequence[VersionReaders]:
        """Return the readers of a document's live and newest version, the newest first.

        Raises:
            NotFound: the tenant has no document of that id.
        """
        rows = await self._database.rows(SQL.readers_of_versions, {"id": document_id, "tenant": tenant})
        if not rows:
            raise _not_found(document_id)
        return [VersionReaders(**row) for row in rows]

    async def newest_uploads(self, document_ids: Sequence[UUID]) -> dict[UUID, str]:
        """Return the names of the bytes of documents' newest versions; deleted documents are missing."""
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.newest_uploads, {"ids": list(document_ids)})
            return {row.public_id: row.upload for row in rows}

    async def replace_uploads(self, document_ids: Sequence[UUID], renamed: Mapping[str, str]) -> bool:
        """Point documents, in all builds, to the new location of the same bytes; return whether any version changed."""
        async with self._database.begin() as connection:
            ids = (await connection.execute(SQL.lock_in_builds, {"ids": list(document_ids)})).scalars()
            parameters = {"ids": ids, "before": list(renamed), "now": list(renamed.values())}
            await connection.execute(SQL.replace_uploads_of_disabled, parameters | {"public": list(document_ids)})
            return bool((await connection.execute(SQL.replace_uploads, parameters)).all())

    async def pages_of_uploads(self) -> AsyncIterator[list[StoredVersion]]:
        """Yield the live and the newest versions of all documents, in pages."""
        after = (UUID(int=0), 0)
        while True:
            parameters = {"document": after[0], "version": after[1], "limit": _UPLOADS_PAGE}
            async with self._database.begin() as connection:
                rows = (await connection.execute(SQL.uploads_after, parameters)).all()
            if not rows:
                return
            yield [StoredVersion(row.upload, row.tenant, row.collection, row.external_id) for row in rows]
            after = (UUID(str(rows[-1].document_id)), rows[-1].version)

    async def row_ids(self, collection: Collection, document_ids: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the ids of a build's documents by their public ids; unknown ones are missing."""
        parameters = {"collection": collection.id, "ids": list(document_ids)}
        async with self._database.begin() as connection:
            return {row.public_id: row.id for row in await connection.execute(SQL.row_ids, parameters)}

    async def shown_versions(
        self, found: AbstractSet[Version], principals: Sequence[str] | None = None
    ) -> dict[UUID, ShownVersion]:
        """Return the versions that queries see, among documents with points in Qdrant.

        Documents are missing of which only the shown version was found, unless it has replaced another one lately. A
        document that these principals do not read has none; None: of a caller who reads every document.
        """
        parameters = {
            "ids": [row_id for row_id, _ in found],
            "versions": [version for _, version in found],
            "principals": None if principals is None else list(principals),
        }
        rows = await self._database.rows(SQL.shown_versions, parameters)
        return {row["id"]: ShownVersion(row["shown"], row["age_seconds"]) for row in rows}

    async def changed_unreadable(self, collection_id: UUID, principals: Sequence[str], *, most: int) -> list[UUID]:
        """Return documents of a build, at most `most`, that these principals do not read, whatever Qdrant says.

        Qdrant may still have the readers that the documents had before they were changed.
        """
        parameters = {"collection": collection_id, "principals": list(principals), "limit": most}
        return [row["id"] for row in await self._database.rows(SQL.changed_unreadable, parameters)]

    async def readable_chunks(
        self, tenant: str, chunk_ids: Sequence[UUID], principals: Sequence[str] | None
    ) -> set[UUID]:
        """Return the chunks among these that principals read, in the versions that queries see; None: all of them."""
        if principals is None:
            return set(chunk_ids)
        parameters = {"chunks": list(chunk_ids), "tenant": tenant, "principals": list(principals)}
        return {UUID(str(row["id"])) for row in await self._database.rows(SQL.readable_chunks, parameters)}

    async def live_chunk_ids(self, collection: Collection, external_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of documents' chunks as queries see them, by external id; unknown documents are missing."""
        parameters = {"collection": collection.id, "tenant": collection.tenant, "external_ids": list(external_ids)}
        chunk_ids: dict[str, set[str]] = {}
        async with self._database.begin() as connection:
            for external_id, chunk_id in await connection.execute(SQL.live_chunk_ids, parameters):
                chunk_ids.setdefault(external_id, set()).add(str(chunk_id))
        return chunk_ids

    @again_after_collision
    async def delete(self, tenant: str, document_id: UUID) -> DeletableDocument:
        """Hide a document; return the key for the deletion of its points.

        Every late write for it is rejected from now on. The scheduler deletes the points, too, so nothing remains if
        the caller does not.

        Raises:
            NotFound: the tenant has no document of that id.
        """
        async with self._database.begin() as connection:
            rows = await delete_rows(connection, tenant, document_id)
        live = next(row for row in rows if row["is_live"])
        return DeletableDocument(**{name: value for name, value in live.items() if name != "is_live"})

    @again_after_collision
    async def describe(
        self,
        tenant: str,
        document_id: UUID,
        *,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        readable_by: Sequence[str] | None = None,
    ) -> DescribedDocument:
        """Change a document's title, metadata or readers in every build, without its content; None keeps the old value.

        Its points have the old values until the recorded change is processed; see `descriptions`.

        Raises:
            NotFound: the tenant has no document of that id.
            InvalidInput: the metadata does not fit the declared fields.
        """
        parameters = {"tenant": tenant, "id": document_id}
        if metadata is not None:  # earlier, in a transaction of its own, because a switch locks builds before documents
            async with self._database.begin() as connection:
                await connection.execute(SQL.add_fields, parameters | collection_fields.added(fields_of(metadata)))
        async with self._database.begin() as connection:
            ids = await lock_rows(connection, tenant, document_id)
            options = (await connection.execute(SQL.options, parameters)).scalar_one_or_none()
            if options is None:
                raise _not_found(document_id)
            if metadata is not None:
                require_fit(options_of(options).filterable, metadata)
            await descriptions.change(connection, ids, title=title, metadata=metadata, readable_by=readable_by)
        return DescribedDocument(await self.get(tenant, document_id), ids)

    @again_after_collision
    async def retry(self, tenant: str, document_id: UUID) -> Document:
        """Give a failed document, or the dead pages and chunks of a degraded one, another round of attempts.

        A degraded document without any is read again if an older reader has read it.

        Raises:
            NotFound: the tenant has no document of that id.
            Conflict: there is nothing to retry.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "id": document_id}
            row = (await connection.execute(SQL.lock, parameters)).one_or_none()
            if row is None:
                raise _not_found(document_id)
            if row.state == DocumentState.FAILED:
                await revive_documents(connection, document_parameters(tenant, document_id))
            elif row.state == DocumentState.DEGRADED:
                parameters = document_parameters(tenant, document_id)
                pages, _ = await revive_pages(connection, parameters)
                chunks, _ = await revive_chunks(connection, parameters)
                if not pages and not chunks:
                    await _read_again(connection, row)
            else:
                raise Conflict(f"The document is {row.state}: only failed and degraded documents can be retried.")
        return await self.get(tenant, document_id)

    @again_after_collision
    async def reindex(self, collection: Collection, *, outdated: bool = False) -> StartedReindex:
        """Open a job that starts the next version of every document of the live build that is not in progress.

        The old versions stay visible. Some documents start at once, the others through `continue_reindex`. The content
        is the newest that was not discarded, even if it failed. Only new content is generated, after a change of
        prompt, model or chunking: all other questions are paid already.

        Args:
            collection: the collection.
            outdated: whether only documents start a version that an older reader has read.

        Raises:
            JobIsOpen: the live build is being reindexed.
            Conflict: the collection is being erased, or the tenant has the maximum number of open jobs.
        """
        scope = {"tenant": collection.tenant, "name": collection.name}
        async with self._database.begin() as connection:
            await build_sync.hold(connection, **scope)  # a switch may have replaced the build that the caller knows
            live = await build_sync.live_of(connection, **scope)
            if live is None:
                raise being_erased(f"the collection '{collection.name}'")
            build, key = collection_of(live), str(live["id"])
            if outdated:
                documents = sum([row.documents for row in await _outdated(connection, build.tenant, build.id)])
            else:
                counted = await connection.execute(SQL.count_final, {"tenant": build.tenant, "part": key})
                documents = counted.scalar_one()
            job = await open_job(connection, build, JobKind.REINDEX, key=key, expected=documents)
            await connection.execute(SQL.start_reindex, {"id": build.id, "outdated": outdated})
            await _reindex_slice(connection, build.id)
        return StartedReindex(job.id, documents)

    async def outdated(self, tenant: str) -> dict[str, int]:
        """Count the documents that an older reader has read, by collection; collections without any are missing."""
        async with self._database.begin() as connection:
            return {row.name: row.documents for row in await _outdated(connection, tenant)}

    @again_after_collision
    async def continue_reindex(self) -> bool:
        """Start the next version of some documents of a collection with a reindex; return whether there was any."""
        async with self._database.begin() as connection:
            return await _reindex_slice(connection, None)

    async def count_of_names(self, collection: Collection, names: Iterable[str]) -> int:
        """Return how many of these external ids documents of a collection have."""
        async with self._database.begin() as connection:
            parameters = {"collection": collection.id, "names": list(names)}
            count: int = (await connection.execute(SQL.count_of_names, parameters)).scalar_one()
        return count

    async def existing_names(self, collection: Collection, names: Iterable[str]) -> set[str]:
        """Return the external ids among these that documents of a collection have."""
        parameters = {"collection": collection.id, "names": list(names)}
        async with self._database.begin() as connection:
            return set((await connection.execute(SQL.existing_names, parameters)).scalars())

    async def counts(self, tenant: str) -> dict[DocumentState, int]:
        """Return how many documents are in each state."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.counts, {"tenant": tenant})).all()
        return {DocumentState(state): count for state, count in rows}

    async def stored_in_use(self, stored: Sequence[str]) -> set[str]:
        """Return the objects among these, of any number, that a document needs, including packs."""
        used: set[str] = set()
        for start in range(0, len(stored), _STORED_PAGE):
            async with self._database.begin() as connection:
                used |= await versions.stored_in_use(connection, stored[start : start + _STORED_PAGE])
        return used


async def lock_rows(connection: Connection, tenant: str, document_id: UUID) -> Sequence[UUID]:
    """Lock a document in the builds of its collection, and these builds; return the ids of its rows."""
    parameters = {"id": document_id, "tenant": tenant}
    return (await connection.execute(SQL.lock_rows, parameters)).scalars()


async def delete_rows(connection: Connection, tenant: str, document_id: UUID) -> Sequence[Row]:
    """Delete a document in every build; return its rows.

    Raises:
        NotFound: the tenant has no document of that id.
    """
    await lock_rows(connection, tenant, document_id)
    parameters = {"id": document_id, "tenant": tenant}
    rows = (await connection.execute(SQL.delete, parameters)).all()
    if not any(row["is_live"] for row in rows):
        raise _not_found(document_id)
    ids = [row["id"] for row in rows]
    await versions.supersede(connection, ids)
    await build_sync.delete_questions(connection, ids)
    return rows


async def delete_named(connection: Connection, tenant: str, collection: str, names: Sequence[str]) -> int:
    """Delete the documents of a collection that have these external ids, at most some hundred; return their number."""
    parameters = {"tenant": tenant, "name": collection, "names": list(names)}
    ids = (await connection.execute(SQL.ids_of_names, parameters)).scalars()
    for document_id in ids:
        await delete_rows(connection, tenant, document_id)
    return len(ids)


async def _reindex_slice(connection: Connection, collection_id: UUID | None) -> bool:
    """Start the next version of documents of this collection, or of any; return whether one is being reindexed."""
    found = (await connection.execute(SQL.lock_reindexing, {"collection": collection_id})).one_or_none()
    if found is None:
        return False
    parameters = {"collection": found.id, "after": found.reindexed_until, "limit": _REINDEX_SLICE}
    locked = (await connection.execute(SQL.lock_final, parameters)).all()
    wanted = [row.id for row in locked if not found.reindexes_outdated or is_outdated(row.state, row.reader)]
    if wanted:
        lane = lane_of(_BULK, found.job_number)
        await versions.reindex(connection, wanted, lane=lane, job_id=found.job_id)
    until = locked[-1].external_id if len(locked) == _REINDEX_SLICE else None
    await connection.execute(SQL.save_reindex_progress, {"collection": found.id, "until": until})
    return True


async def _outdated(connection: Connection, tenant: str, collection_id: UUID | None = None) -> Sequence[Row]:
    """Return the collections with outdated documents, or one of them, each with its number."""
    parameters = {"tenant": tenant, "collection": collection_id, "readers": list(readers.CURRENT)}
    return (await connection.execute(SQL.count_outdated, parameters)).all()


async def _read_again(connection: Connection, document: Row) -> None:
    """Start the next version, with the same content, of a locked degraded document that an older reader has read.

    Raises:
        Conflict: the current reader has read it.
    """
    if not is_outdated(document.state, document.reader):
        raise Conflict(_ONLY_LOSSES)
    await versions.reindex(connection, [document.id], lane=Lane.INTERACTIVE, job_id=None)


async def _get(connection: Connection, tenant: str, document_id: UUID) -> Row:
    row = await shown_documents.find(connection, tenant, document_id)
    if row is None:
        raise _not_found(document_id)
    return row


async def _is_readable(connection: Connection, row: Row, version: int, principals: Sequence[str] | None) -> bool:
    """Return whether a version of a document names one of these readers."""
    if principals is None:
        return True
    stored = row["readable_by"]
    if version != row["version"]:
        parameters = {"id": row["id"], "version": version}
        stored = (await connection.execute(SQL.readers, parameters)).scalar_one_or_none() or ()
    return may_read(principals, stored)


async def _require_readable(connection: Connection, row: Row, version: int, principals: Sequence[str] | None) -> None:
    """Raise the same error as for a document that does not exist unless a version names one of these readers."""
    if not await _is_readable(connection, row, version, principals):
        raise _not_found(row["public_id"])


async def _readable_version(connection: Connection, row: Row, principals: Sequence[str] | None, *, live: bool) -> int:
    """Return the number of the newest or the live version of a document, if it names one of these readers.

    Raises:
        NotFound: queries see no version yet, or the readers may read none.
    """
    await _require_readable(connection, row, row["version"], principals)
    version = _version(row, live=live)
    await _require_readable(connection, row, version, principals)
    return version


def _no_picture(number: int, page: Row | None) -> str:
    """Return why a page has no picture."""
    if page is None:
        return f"Page {number:,} was not read by OCR: only pages without text have pictures."
    if page["state"] == PageState.WAITING:
        return f"Page {number:,} has not been read yet: its picture is stored with its text."
    if page["state"] == PageState.READ:
        return f"No picture of page {number:,} is stored: it has too many details."
    return f"Page {number:,} could not be read, and has no picture. {page['error'] or ''}".rstrip()


def _version(row: Row, *, live: bool) -> int:
    """Return the number of the newest or the live version of a document.

    Raises:
        NotFound: queries see no version yet.
    """
    version: int | None = row["live_version"] if live else row["version"]
    if version is None:
        raise NotFound("Queries see no version of the document yet: ask for `version=latest`.", field="version")
    return version


def _not_found(document_id: UUID) -> NotFound:
    return NotFound(f"There is no document {document_id}. GET /v1/documents lists the documents.")
