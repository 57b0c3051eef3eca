"""Documents as their owners see them: submitted, listed, retried, reindexed, deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import RowMapping, TextClause, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.chunk_detail import ChunkDetail
from shared.domain.collections import Collection
from shared.domain.documents import DeletableDocument, Document, NewDocument, Progress
from shared.domain.errors import Conflict, NotFound
from shared.domain.filterable import require_fit
from shared.domain.states import ChunkState, DocumentState
from shared.ledger.documents import build_sync, descriptions, listing, shown_chunks, versions
from shared.ledger.documents.dead_letters import document_parameters, revive_chunks, revive_documents
from shared.ledger.documents.listing import ListPosition, Order, Wanted
from shared.ledger.model import counters, states
from shared.ledger.model.collections import being_erased, collection_of, options_of
from shared.ledger.postgres.database import Collided, Database, again_after_collision

_REINDEX_SLICE = 1_000  # documents of one transaction: a twentieth of a second
_STORED_PAGE = 10_000

# A document with the content of its newest version.
_SHOWN = "d.*, v.filename, v.title, v.media_type, v.metadata, v.size_bytes, v.content_hash"

_VISIBLE = f"""
    SELECT {_SHOWN}, l.name AS collection
    FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    JOIN collections l ON l.id = d.collection_id
    WHERE d.tenant = :tenant AND {states.exists("d")} AND {states.is_live("l")}
"""


def _insert(only: str = "") -> TextClause:
    """Return the statement that inserts new documents and keeps their build unchanged until the transaction ends.

    Args:
        only: further condition on the build `l`, starting with AND.
    """
    return text(f"""
        WITH l AS (
            SELECT l.id FROM collections l WHERE l.id = :collection_id {only} FOR KEY SHARE
        ), n AS MATERIALIZED ({versions.SUBMITTED}), d AS (
            INSERT INTO documents (id, public_id, tenant, collection_id, external_id, lane, state)
            SELECT n.id, n.id, :tenant, l.id, n.external_id, n.lane, {states.SUBMIT.target()} FROM l, n
            ON CONFLICT (collection_id, external_id) WHERE {states.exists()} DO NOTHING
            RETURNING *
        ), v AS ({versions.INSERT_CONTENT})
        SELECT {_SHOWN} FROM d JOIN v ON v.document_id = d.id
    """)


# Insert new documents; return no row for a document whose external id exists in its collection.
_INSERT = _insert()

# The same for a live build without followers; otherwise return no row. PostgreSQL reads the build's row again if it had
# to wait for it.
_INSERT_ALONE = _insert(f"AND {states.is_live('l')} AND NOT l.followed")

# Lock the documents that have external ids, and the builds that their collection has.
_LOCK_SAME_NAMES = text(f"""
    SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.collection_id = :collection_id AND d.external_id = ANY(CAST(:external_ids AS text[]))
      AND {states.exists("d")}
    ORDER BY d.external_id FOR UPDATE OF d FOR KEY SHARE OF l
""")

# Read locked documents, whichever build has them.
_GET_LOCKED = text(f"""
    SELECT {_SHOWN} FROM documents d JOIN document_versions v ON v.document_id = d.id AND v.version = d.version
    WHERE d.id = ANY(CAST(:ids AS uuid[]))
""")

# Start the next version of a locked document with other content.
_REPLACE = text(f"""
    WITH n AS MATERIALIZED ({versions.SUBMITTED}), d AS (
        UPDATE documents d SET {states.REPLACE.sets()}, {versions.NEXT}, lane = n.lane, {versions.DUE_AGAIN}
        FROM n WHERE d.id = n.id RETURNING d.*
    ), v AS ({versions.INSERT_CONTENT})
    SELECT {_SHOWN} FROM d JOIN v ON v.document_id = d.id
""")

# Read one document.
_GET = text(f"{_VISIBLE} AND d.public_id = :id")

# Lock one document and read its state.
_LOCK = text(f"""
    SELECT d.state FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.public_id = :id AND d.tenant = :tenant AND {states.exists("d")} AND {states.is_live("l")} FOR UPDATE OF d
""")

# A row contains the start time of its transaction, and becomes visible when the transaction ends: within 20 s, the
# limit of every transaction.
_SEEN_AFTER = "interval '25 seconds'"

# Read PostgreSQL's clock: times in rows are compared with no other one.
_NOW = text("SELECT now()")

# List the documents that may have changed, the latest change first.
_CHANGED = text(f"""
    {_VISIBLE} AND d.updated_at > least(now(), CAST(:since AS timestamptz)) - {_SEEN_AFTER}
    ORDER BY d.updated_at DESC LIMIT :limit
""")

# List documents that are in progress, newest, or possibly just changed, latest change first.
_IN_WORK = text(f"""
    {_VISIBLE} AND d.id IN (
        ({listing.NEWEST})
        UNION ALL
        (SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
         WHERE d.tenant = :tenant AND {states.exists("d")} AND {states.is_live("l")}
           AND d.updated_at > now() - {_SEEN_AFTER}
         ORDER BY d.updated_at DESC LIMIT :limit))
    ORDER BY d.updated_at DESC LIMIT :limit
""")

# Chunks that queries find, at least by their texts.
_SEARCHABLE_CHUNKS = (ChunkState.GENERATING, ChunkState.GENERATED, ChunkState.INDEXED)

# Count the chunks of the newest versions by state, with their costs, by one index lookup per document. For a million
# documents the planner would read all chunks.
_PROGRESS = text(f"""
    SELECT d.id, count(*) AS total,
           count(*) FILTER (WHERE {states.is_in(_SEARCHABLE_CHUNKS, "c")}) AS searchable,
           count(*) FILTER (WHERE c.state IN ('{ChunkState.GENERATED}', '{ChunkState.INDEXED}')) AS generated,
           count(*) FILTER (WHERE c.state = '{ChunkState.INDEXED}') AS indexed,
           count(*) FILTER (WHERE c.state = '{ChunkState.DEAD}') AS dead,
           count(*) FILTER (WHERE c.state = '{ChunkState.DISCARDED}') AS discarded,
           sum(c.questions_passed)::int AS questions,
           sum(c.prompt_tokens)::int AS prompt_tokens,
           sum(c.completion_tokens)::int AS completion_tokens,
           sum(c.calls)::int AS calls
    FROM unnest(CAST(:ids AS uuid[])) AS i(id)
    CROSS JOIN LATERAL (SELECT d.id, d.version FROM documents d WHERE d.id = i.id OFFSET 0) d
    CROSS JOIN LATERAL (SELECT c.* FROM chunks c WHERE c.document_id = d.id AND c.version = d.version OFFSET 0) c
    GROUP BY d.id
""")

# Find the bytes of one version.
_CONTENT = text("""
    SELECT upload, size_bytes, filename, media_type FROM document_versions
    WHERE document_id = :id AND version = :version
""")

# List the chunks of live versions by the external ids of their documents.
_LIVE_CHUNK_IDS = text(f"""
    SELECT d.external_id, c.id
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
    WHERE d.collection_id = :collection AND d.tenant = :tenant AND {states.exists("d")}
      AND d.external_id = ANY(CAST(:external_ids AS text[]))
""")

# Lock a document in the builds of its collection, and these builds, the live one first.
_LOCK_ROWS = text(f"""
    SELECT d.id FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.public_id = :id AND d.tenant = :tenant AND {states.exists("d")}
    ORDER BY {states.is_live("l")} DESC, l.build FOR UPDATE OF d FOR KEY SHARE OF l
""")

# Read the options of the live build that has a document.
_OPTIONS = text(f"""
    SELECT l.options FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.public_id = :id AND d.tenant = :tenant AND {states.exists("d")} AND {states.is_live("l")}
""")

# Hide a document in all builds, because a build that was just filled may contain it, too. Its version number rises, so
# that late writers are rejected.
_DELETE = text(f"""
    UPDATE documents d SET {states.DELETE.sets()}, {versions.NEXT}, {versions.DUE_AGAIN}
    FROM collections l
    WHERE d.public_id = :id AND d.tenant = :tenant AND {states.exists("d")} AND l.id = d.collection_id
    RETURNING d.id, d.tenant, d.collection_id, l.index_name, d.version, d.live_version, {states.is_live("l")} AS is_live
""")

# Restart the reindex of a live build, and return the number of its documents that are not being processed.
_BEGIN_REINDEX = text(f"""
    UPDATE collections l SET reindexed_until = ''
    WHERE l.tenant = :tenant AND l.name = :name AND {states.is_live("l")}
    RETURNING l.id, (SELECT coalesce(sum(t.rows), 0)::bigint FROM {counters.of_tenant("documents")} t
                     WHERE t.part = l.id::text AND {states.REINDEX.applies("t")}) AS documents
""")

# Lock a collection that is being reindexed.
_LOCK_REINDEXING = text("""
    SELECT id, reindexed_until FROM collections
    WHERE reindexed_until IS NOT NULL AND (CAST(:collection AS uuid) IS NULL OR id = :collection)
    ORDER BY random() LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
""")

# Record the progress of a reindex; null when complete.
_REINDEXED_UNTIL = text("UPDATE collections SET reindexed_until = :until WHERE id = :collection")

# Lock documents that are in no worker's hands, in the order of their external ids.
_LOCK_FINAL = text(f"""
    SELECT id, external_id FROM documents
    WHERE collection_id = :collection AND {states.exists()} AND external_id > :after AND {states.REINDEX.applies()}
    ORDER BY external_id LIMIT :limit FOR UPDATE
""")

# Start the next version of these documents in the bulk lane.
_REINDEX = versions.next_of_same_content(f"{states.REINDEX.sets()}, lane = 1, {versions.DUE_AGAIN},")

# Find the rows that documents have in one build.
_ROW_IDS = text(f"""
    SELECT public_id, id FROM documents
    WHERE public_id = ANY(CAST(:ids AS uuid[])) AND collection_id = :collection AND {states.exists()}
""")

# Count the documents of a collection that have these external ids.
_COUNT_OF_NAMES = text(f"""
    SELECT count(*) FROM documents d
    WHERE d.collection_id = :collection AND {states.exists("d")} AND d.external_id = ANY(CAST(:names AS text[]))
""")

# Count the documents of a tenant's live builds by state.
_COUNTS = text(f"""
    SELECT state, sum(rows)::bigint FROM {counters.of_tenant("documents")} t
    WHERE part IN (SELECT l.id::text FROM collections l WHERE l.tenant = :tenant AND {states.is_live("l")})
    GROUP BY state HAVING sum(rows) <> 0
""")


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of a submission.

    `accepted` is False if the newest version already has this content: its bytes are not needed again.
    """

    document: Document
    accepted: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """A snapshot of a tenant's documents.

    Args:
        at: time of the snapshot by PostgreSQL's clock.
        documents: recently changed documents with their progress, latest change first.
        more: whether more documents changed.
    """

    at: datetime
    documents: list[Document]
    more: bool


@dataclass(frozen=True, slots=True)
class Described:
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
class StoredContent:
    """The bytes of one version, by the name that the store of uploads has for them."""

    upload: str
    size_bytes: int
    filename: str | None
    media_type: str | None


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
        # A single new document needs one statement; a batch needs a transaction (see `Uploads.store_pack`).
        if len(documents) == 1 and (alone := await self._insert_alone(documents[0])):
            return [alone]
        while True:
            try:
                return await self._submit(documents)
            except _OtherIsLive as error:
                documents = [dataclasses.replace(new, collection=error.live) for new in documents]

    @again_after_collision
    async def _submit(self, documents: Sequence[NewDocument]) -> list[Submission]:
        collection = documents[0].collection
        async with self._database.begin() as connection:
            written = await _write(connection, documents)
            builds = await build_sync.builds_of(connection, collection.tenant, collection.name)
            if not builds:
                raise being_erased(f"the collection '{collection.name}'")
            live, *others = builds
            if live["id"] != collection.id:
                raise _OtherIsLive(collection_of(live))
            accepted = sorted({row["id"] for row, is_new in written if is_new})
            for build in others if accepted else ():
                await build_sync.follow(connection, build["id"], accepted)
            progress = await _progress(connection, [row["id"] for row, is_new in written if not is_new])
            return [
                Submission(_document(row, collection.name, progress.get(row["id"])), accepted=is_new)
                for row, is_new in written
            ]

    async def _insert_alone(self, new: NewDocument) -> Submission | None:
        """Insert a new document by one statement; return None if it is not new, or if other builds follow its build."""
        inserted = await self._database.rows(_INSERT_ALONE, _new_rows([uuid4()], [new]))
        return Submission(_document(inserted[0], new.collection.name), accepted=True) if inserted else None

    async def get(self, tenant: str, document_id: UUID) -> Document:
        """Return a document with its progress.

        Raises:
            NotFound: the tenant has no document of that id.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            (document,) = await _with_progress(connection, [row])
        return document

    async def page(
        self,
        tenant: str,
        wanted: Wanted | None = None,
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
                connection, tenant, wanted or Wanted(), order=order, after=after, limit=limit, metadata=metadata
            )
            return await _with_progress(connection, rows)

    async def changes(self, tenant: str, since: datetime | None, *, limit: int = 200) -> Changes:
        """Return documents that may have changed since the last call; a later call may repeat unchanged documents.

        Args:
            tenant: tenant of the documents.
            since: `at` of the last call; None for the first call, which returns all documents in progress.
            limit: maximum number of documents.
        """
        parameters: dict[str, Any] = {"tenant": tenant, "limit": limit + 1}
        async with self._database.begin() as connection:
            at = (await connection.execute(_NOW)).scalar_one()
            if since is None:
                in_work = listing.parameters_of(tenant, Wanted(in_states=states.OPEN_DOCUMENTS), most=limit + 1)
                found = await connection.execute(_IN_WORK, parameters | in_work)
            else:
                found = await connection.execute(_CHANGED, parameters | {"since": since})
            rows = found.mappings().all()
            return Changes(at, await _with_progress(connection, rows[:limit]), more=len(rows) > limit)

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
    ) -> list[ChunkDetail]:
        """Return chunks of a document's newest or live version in order; see `shown_chunks.read`.

        Raises:
            NotFound: the tenant has no document of that id, or queries see no version of it.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            version = _version(row, live=live)
            return await shown_chunks.read(
                connection, row["id"], version, after=after, before=before, wanted=wanted, limit=limit
            )

    async def ordinal_of(self, tenant: str, document_id: UUID, chunk_id: UUID, *, live: bool = False) -> int:
        """Return the position of a chunk in a document's newest or live version.

        Raises:
            NotFound: the tenant has no document of that id, or that version has no such chunk.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            version = _version(row, live=live)
            ordinal = await shown_chunks.ordinal_of(connection, row["id"], version, chunk_id)
        if ordinal is None:
            raise NotFound(f"Version {version} of the document has no chunk {chunk_id}.", field="around")
        return ordinal

    async def chunk(self, tenant: str, chunk_id: UUID, *, before: int, after: int) -> ChunkInContext:
        """Return a chunk with its neighbours, from the version that queries see or else from the newest.

        Raises:
            NotFound: no document of the tenant contains a chunk of that id now.
        """
        async with self._database.begin() as connection:
            found = await shown_chunks.find(connection, tenant, chunk_id)
            if found is None:
                raise NotFound(f"There is no chunk {chunk_id}: GET /v1/documents/{{id}}/chunks lists a document's.")
            (document,) = await _with_progress(connection, [await _get(connection, tenant, found.document_id)])
            version, ordinal = (found.row, found.version), found.ordinal
            first = await shown_chunks.read(connection, *version, before=ordinal, limit=before)
            chunk, *last = await shown_chunks.read(connection, *version, after=ordinal - 1, limit=1 + after)
        return ChunkInContext(document, first, chunk, last)

    async def upload(self, tenant: str, document_id: UUID, *, live: bool = False) -> StoredContent:
        """Return the location of the bytes of a document's newest or live version.

        Raises:
            NotFound: the tenant has no document of that id, or queries see no version of it.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            parameters = {"id": row["id"], "version": _version(row, live=live)}
            content = (await connection.execute(_CONTENT, parameters)).mappings().one()
        return StoredContent(**content)

    async def row_ids(self, collection: Collection, document_ids: Sequence[UUID]) -> dict[UUID, UUID]:
        """Return the ids of a build's documents by their public ids; unknown ones are missing."""
        parameters = {"collection": collection.id, "ids": list(document_ids)}
        async with self._database.begin() as connection:
            return {row.public_id: row.id for row in await connection.execute(_ROW_IDS, parameters)}

    async def live_chunk_ids(self, collection: Collection, external_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of documents' chunks as queries see them, by external id; unknown documents are missing."""
        parameters = {"collection": collection.id, "tenant": collection.tenant, "external_ids": list(external_ids)}
        chunk_ids: dict[str, set[str]] = {}
        async with self._database.begin() as connection:
            for external_id, chunk_id in await connection.execute(_LIVE_CHUNK_IDS, parameters):
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
        self, tenant: str, document_id: UUID, *, title: str | None, metadata: Mapping[str, Any] | None
    ) -> Described:
        """Change a document's title or metadata in every build, without its content; None leaves a field unchanged.

        Its points have the old values until the marks left by this are processed; see `descriptions`.

        Raises:
            NotFound: the tenant has no document of that id.
            InvalidInput: the metadata does not fit the declared fields.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "id": document_id}
            ids = (await connection.execute(_LOCK_ROWS, parameters)).scalars().all()
            options = (await connection.execute(_OPTIONS, parameters)).scalar_one_or_none()
            if options is None:
                raise _not_found(document_id)
            if metadata is not None:
                require_fit(options_of(options).filterable, metadata)
            await descriptions.change(connection, ids, title=title, metadata=metadata)
        return Described(await self.get(tenant, document_id), ids)

    @again_after_collision
    async def retry(self, tenant: str, document_id: UUID) -> Document:
        """Give a failed document, or the dead chunks of a degraded one, another round of attempts.

        Raises:
            NotFound: the tenant has no document of that id.
            Conflict: there is nothing to retry.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "id": document_id}
            state = (await connection.execute(_LOCK, parameters)).scalar_one_or_none()
            if state is None:
                raise _not_found(document_id)
            if state == DocumentState.FAILED:
                await revive_documents(connection, document_parameters(tenant, document_id))
            elif state == DocumentState.DEGRADED:
                await revive_chunks(connection, document_parameters(tenant, document_id))
            else:
                raise Conflict(f"The document is {state}: only failed and degraded documents can be retried.")
        return await self.get(tenant, document_id)

    @again_after_collision
    async def reindex(self, collection: Collection) -> int:
        """Start the next version of every document of the live build that is not in progress.

        The old versions stay visible. Some documents start at once, the others through `continue_reindex`. The content
        is the newest that was not discarded, even if it failed. Only new content is generated, after a change of
        prompt, model or chunking: all other questions are paid already.

        Returns:
            Number of documents that are not in progress.

        Raises:
            Conflict: the collection is being erased.
        """
        scope = {"tenant": collection.tenant, "name": collection.name}
        async with self._database.begin() as connection:
            await build_sync.hold(connection, **scope)  # a switch may have replaced the build that the caller knows
            begun = (await connection.execute(_BEGIN_REINDEX, scope)).one_or_none()
            if begun is None:
                raise being_erased(f"the collection '{collection.name}'")
            await _reindex_slice(connection, begun.id)
        return int(begun.documents)

    @again_after_collision
    async def continue_reindex(self) -> bool:
        """Start the next version of some documents of a collection with a reindex; return whether any was left."""
        async with self._database.begin() as connection:
            return await _reindex_slice(connection, None)

    async def count_of_names(self, collection: Collection, names: Iterable[str]) -> int:
        """Return how many of these external ids documents of a collection have."""
        async with self._database.begin() as connection:
            parameters = {"collection": collection.id, "names": list(names)}
            count: int = (await connection.execute(_COUNT_OF_NAMES, parameters)).scalar_one()
        return count

    async def counts(self, tenant: str) -> dict[DocumentState, int]:
        """Return how many documents are in each state."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_COUNTS, {"tenant": tenant})).all()
        return {DocumentState(state): count for state, count in rows}

    async def stored_in_use(self, stored: Sequence[str]) -> set[str]:
        """Return the objects of the store, of any number of them, that a document needs: a pack for any part of it."""
        used: set[str] = set()
        for start in range(0, len(stored), _STORED_PAGE):
            async with self._database.begin() as connection:
                used |= await versions.stored_in_use(connection, stored[start : start + _STORED_PAGE])
        return used


async def delete_rows(connection: AsyncConnection, tenant: str, document_id: UUID) -> Sequence[RowMapping]:
    """Delete a document in every build; return its rows.

    Raises:
        NotFound: the tenant has no document of that id.
    """
    parameters = {"id": document_id, "tenant": tenant}
    await connection.execute(_LOCK_ROWS, parameters)
    rows = (await connection.execute(_DELETE, parameters)).mappings().all()
    if not any(row["is_live"] for row in rows):
        raise _not_found(document_id)
    ids = [row["id"] for row in rows]
    await versions.supersede(connection, ids)
    await connection.execute(build_sync.DELETE_ACCEPTED, {"ids": ids})
    return rows


class _OtherIsLive(Exception):
    """Another build has replaced the build that was written to."""

    def __init__(self, live: Collection) -> None:
        super().__init__()
        self.live = live


async def _write(connection: AsyncConnection, documents: Sequence[NewDocument]) -> list[tuple[RowMapping, bool]]:
    """Write documents of one collection; return each row and whether its content is new.

    Every submission except a single new document inserts its rows here. A writer first inserts and then locks, both in
    the order of external ids, so that two writers of the same documents cannot deadlock.
    """
    collection, ids = documents[0].collection, [uuid4() for _ in documents]
    found = await connection.execute(_INSERT, _new_rows(ids, documents))
    inserted = {row["id"]: row for row in found.mappings()}
    names = {new.external_id for document_id, new in zip(ids, documents, strict=True) if document_id not in inserted}
    rows = await _lock(connection, collection, names) if names else {}
    written, replaced = list[tuple[RowMapping, bool]](), list[UUID]()
    for document_id, new in zip(ids, documents, strict=True):
        row = inserted.get(document_id)
        accepted = row is not None
        if row is None:
            row = rows[new.external_id]
            accepted = row["content_hash"] != new.content_hash
            if accepted:
                parameters = {"rows": _rows([row["id"]], [new])}
                row = rows[new.external_id] = (await connection.execute(_REPLACE, parameters)).mappings().one()
                replaced.append(row["id"])
        written.append((row, accepted))
    if replaced:
        await versions.supersede(connection, replaced)
    return written


async def _lock(connection: AsyncConnection, collection: Collection, external_ids: set[str]) -> dict[str, RowMapping]:
    """Lock documents, and return the row of each by its external id.

    Raises:
        Collided: one of them was deleted meanwhile.
    """
    parameters = {"collection_id": collection.id, "external_ids": list(external_ids)}
    ids = (await connection.execute(_LOCK_SAME_NAMES, parameters)).scalars().all()
    if len(ids) < len(external_ids):
        raise Collided("a document was deleted meanwhile", component="ledger")
    found = await connection.execute(_GET_LOCKED, {"ids": ids})
    return {row["external_id"]: row for row in found.mappings()}


def _new_rows(ids: Sequence[UUID], documents: Sequence[NewDocument]) -> dict[str, Any]:
    collection = documents[0].collection
    return {"tenant": collection.tenant, "collection_id": collection.id, "rows": _rows(ids, documents)}


def _rows(ids: Sequence[UUID], documents: Sequence[NewDocument]) -> str:
    rows = [
        {
            "id": str(document_id),  # the driver has its own UUID class, which orjson cannot encode
            "position": index,  # of two with one external id the first one is inserted
            "external_id": new.external_id,
            "lane": new.lane,
            "filename": new.filename,
            "title": new.title,
            "media_type": new.media_type,
            "metadata": dict(new.metadata),
            "ready_questions": new.ready_questions,
            "upload": new.upload,
            "size_bytes": new.size_bytes,
            "content_hash": f"\\x{new.content_hash.hex()}",
            "traceparent": new.traceparent,
        }
        for index, (document_id, new) in enumerate(zip(ids, documents, strict=True))
    ]
    return orjson.dumps(rows).decode()  # 20,000 questions take 10 ms


async def _reindex_slice(connection: AsyncConnection, collection_id: UUID | None) -> bool:
    """Start the next version of documents of this collection, or of any; return whether one is being reindexed."""
    found = (await connection.execute(_LOCK_REINDEXING, {"collection": collection_id})).one_or_none()
    if found is None:
        return False
    parameters = {"collection": found.id, "after": found.reindexed_until, "limit": _REINDEX_SLICE}
    locked = (await connection.execute(_LOCK_FINAL, parameters)).all()
    if locked:
        ids = [row.id for row in locked]
        await connection.execute(_REINDEX, {"ids": ids})
        await versions.supersede(connection, ids)
    until = locked[-1].external_id if len(locked) == _REINDEX_SLICE else None
    await connection.execute(_REINDEXED_UNTIL, {"collection": found.id, "until": until})
    return True


async def _get(connection: AsyncConnection, tenant: str, document_id: UUID) -> RowMapping:
    parameters = {"tenant": tenant, "id": document_id}
    row: RowMapping | None = (await connection.execute(_GET, parameters)).mappings().one_or_none()
    if row is None:
        raise _not_found(document_id)
    return row


def _version(row: RowMapping, *, live: bool) -> int:
    """The newest version of a document, or the live one.

    Raises:
        NotFound: queries see no version yet.
    """
    version: int | None = row["live_version"] if live else row["version"]
    if version is None:
        raise NotFound("Queries see no version of the document yet: ask for `version=latest`.", field="version")
    return version


def _not_found(document_id: UUID) -> NotFound:
    return NotFound(f"There is no document {document_id}. GET /v1/documents lists those that exist.")


async def _with_progress(connection: AsyncConnection, rows: Sequence[RowMapping]) -> list[Document]:
    progress = await _progress(connection, [row["id"] for row in rows])
    return [_document(row, row["collection"], progress.get(row["id"])) for row in rows]


async def _progress(connection: AsyncConnection, ids: Sequence[UUID]) -> dict[UUID, Progress]:
    """Count the chunks of the newest versions of documents by row id; documents without chunks are missing."""
    if not ids:
        return {}
    counts = (await connection.execute(_PROGRESS, {"ids": list(ids)})).mappings()
    return {count["id"]: Progress(**{k: v for k, v in count.items() if k != "id"}) for count in counts}


def _document(row: RowMapping, collection: str, progress: Progress | None = None) -> Document:
    return Document(
        id=row["public_id"],
        external_id=row["external_id"],
        collection=collection,
        state=DocumentState(row["state"]),
        version=row["version"],
        live_version=row["live_version"],
        filename=row["filename"],
        title=row["title"],
        media_type=row["media_type"],
        metadata=row["metadata"],
        size_bytes=row["size_bytes"],
        error=row["error"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        progress=progress or Progress(),
    )
