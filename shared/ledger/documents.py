"""Documents as their owners see them: submitted, listed, retried, reindexed, deleted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.chunks import ChunkContent
from shared.domain.errors import Conflict, NotFound
from shared.domain.records import (
    ChunkDetail,
    ChunkState,
    Collection,
    DeletableDocument,
    Document,
    DocumentState,
    NewDocument,
    Progress,
)
from shared.ledger import states
from shared.ledger.database import Collided, Database, again_after_collision
from shared.ledger.dead_letters import document_parameters, revive_chunks, revive_documents
from shared.ledger.rows import version_rows
from shared.ledger.statements import INSERT_SWEEPS

# `greatest` leaves NULL out: most documents have no discarded version.
_NEXT_VERSION = "version = greatest(d.version, d.discarded_version) + 1"

# A document that waits for its next version, with no trace of the attempts at the last one.
_DUE_ANEW = f"due_at = now(), updated_at = now(), error = NULL, {states.UNCLAIMED}"

_VISIBLE = f"""
    SELECT d.*, l.name AS collection
    FROM documents d JOIN collections l ON l.id = d.collection_id
    WHERE d.tenant = :tenant AND {states.exists("d")}
"""

# Write a new document; return no row where its collection has one of that external id.
_INSERT = text(f"""
    INSERT INTO documents (id, tenant, collection_id, external_id, filename, title, media_type, metadata,
                           ready_questions, upload, size_bytes, content_hash, lane, state)
    VALUES (:id, :tenant, :collection_id, :external_id, :filename, :title, :media_type, CAST(:metadata AS jsonb),
            CAST(:ready_questions AS jsonb), :upload, :size_bytes, :content_hash, :lane, {states.SUBMIT.target()})
    ON CONFLICT (collection_id, external_id) WHERE {states.exists()} DO NOTHING
    RETURNING *
""")

# Lock the document that has an external id.
_LOCK_SAME_NAME = text(f"""
    SELECT * FROM documents
    WHERE collection_id = :collection_id AND external_id = :external_id AND {states.exists()} FOR UPDATE
""")

# Delete the chunks of a version that was never finished.
_DELETE_UNFINISHED_CHUNKS = text("""
    DELETE FROM chunks WHERE document_id = :id AND version > coalesce(CAST(:live_version AS int), 0)
""")

# Begin the next version of a locked document with other content.
_REPLACE = text(f"""
    UPDATE documents d
    SET {states.REPLACE.sets()}, {_NEXT_VERSION}, filename = :filename, title = :title, media_type = :media_type,
        metadata = CAST(:metadata AS jsonb), ready_questions = CAST(:ready_questions AS jsonb), upload = :upload,
        size_bytes = :size_bytes, content_hash = :content_hash, lane = :lane, {_DUE_ANEW}
    WHERE d.id = :id
    RETURNING d.*
""")

# Read one document.
_GET = text(f"{_VISIBLE} AND d.id = :id")

# Read and lock one document.
_GET_LOCKED = text(f"{_VISIBLE} AND d.id = :id FOR UPDATE OF d")

# List documents, the newest first; a filter that is NULL lets everything through.
_PAGE = text(f"""
    {_VISIBLE}
      AND (CAST(:collection AS text) IS NULL OR l.name = :collection)
      AND (CAST(:state AS text) IS NULL OR d.state = :state)
      AND (CAST(:external_id AS text) IS NULL OR d.external_id = :external_id)
      AND (CAST(:at AS timestamptz) IS NULL OR (d.created_at, d.id) < (:at, CAST(:after AS uuid)))
    ORDER BY d.created_at DESC, d.id DESC LIMIT :limit
""")

# A row has the time at which its transaction began, and is seen when that transaction has ended: within 20 s, the bound
# of every transaction.
_SEEN_AFTER = "interval '25 seconds'"

# Read PostgreSQL's clock: times in rows are compared with no other one.
_NOW = text("SELECT now()")

# List the documents that may have changed, the latest change first; no time (NULL) stands for now. Work on a chunk does
# not touch its document's row, so every document with open chunks counts as changed.
_CHANGED = text(f"""
    {_VISIBLE} AND ({states.is_in(states.OPEN_DOCUMENTS, "d")}
                    OR d.updated_at > least(now(), CAST(:since AS timestamptz)) - {_SEEN_AFTER})
    ORDER BY d.updated_at DESC LIMIT :limit
""")

# Count the chunks of the newest versions by state, and what they cost.
_PROGRESS = text(f"""
    SELECT d.id, count(*) AS total,
           count(*) FILTER (WHERE c.state IN ('{ChunkState.GENERATED}', '{ChunkState.INDEXED}')) AS generated,
           count(*) FILTER (WHERE c.state = '{ChunkState.INDEXED}') AS indexed,
           count(*) FILTER (WHERE c.state = '{ChunkState.DEAD}') AS dead,
           count(*) FILTER (WHERE c.state = '{ChunkState.DISCARDED}') AS discarded,
           sum(c.questions_passed)::int AS questions,
           sum(c.prompt_tokens)::int AS prompt_tokens,
           sum(c.completion_tokens)::int AS completion_tokens,
           sum(c.calls)::int AS calls
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.version
    WHERE d.id = ANY(CAST(:ids AS uuid[]))
    GROUP BY d.id
""")

# List the chunks of one version with their questions; before the filter has run those are the model's, unjudged.
_CHUNKS = text("""
    SELECT c.id, c.ordinal, c.content, c.state, c.error, c.questions,
           coalesce(c.ready_questions, p.questions, '{}') AS raw_questions
    FROM chunks c LEFT JOIN completions p ON p.content_key = c.content_key
    WHERE c.document_id = :id AND c.version = :version AND c.ordinal > :after
    ORDER BY c.ordinal LIMIT :limit
""")

# List the chunks of live versions by the external ids of their documents.
_LIVE_CHUNK_IDS = text(f"""
    SELECT d.external_id, c.id
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
    WHERE d.collection_id = :collection AND d.tenant = :tenant AND {states.exists("d")}
      AND d.external_id = ANY(CAST(:external_ids AS text[]))
""")

# Hide a document from its owner. Its version rises: a late writer of the last one is refused.
_DELETE = text(f"""
    UPDATE documents d SET {states.DELETE.sets()}, {_NEXT_VERSION}, {_DUE_ANEW}
    FROM collections l
    WHERE d.id = :id AND d.tenant = :tenant AND {states.exists("d")} AND l.id = d.collection_id
    RETURNING d.id, d.tenant, l.index_name, d.version, d.live_version
""")

# Delete the chunks of a document that is being deleted.
_DELETE_CHUNKS = text("DELETE FROM chunks WHERE document_id = :id")

# Delete the accepted questions of a document that is being deleted.
_DELETE_ACCEPTED = text("DELETE FROM accepted_questions WHERE document_id = :id")

# Begin the next version of every document that is in no worker's hands, in the bulk lane.
_REINDEX = text(f"""
    UPDATE documents d SET {states.REINDEX.sets()}, {_NEXT_VERSION}, lane = 1, {_DUE_ANEW}
    WHERE d.collection_id = :collection AND {states.REINDEX.applies("d")}
    RETURNING d.id
""")

# Count a tenant's documents by state.
_COUNTS = text("SELECT state, count(*) FROM documents WHERE tenant = :tenant GROUP BY state")

# Of some uploads, list those that a document needs.
_UPLOADS_IN_USE = text("SELECT upload FROM documents WHERE upload = ANY(CAST(:uploads AS text[]))")


@dataclass(frozen=True, slots=True)
class Submission:
    """The result of a submission.

    `accepted` is false where the document has this content already; `obsolete_upload` is needed by no document.
    """

    document: Document
    accepted: bool
    obsolete_upload: str | None


@dataclass(frozen=True, slots=True)
class Changes:
    """A look at a tenant's documents.

    Args:
        at: when, by PostgreSQL's clock.
        counts: how many documents are in each state.
        documents: those that changed lately or are in work, with their progress, the latest change first.
    """

    at: datetime
    counts: dict[DocumentState, int]
    documents: list[Document]


class Documents:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def submit(self, new: NewDocument) -> Submission:
        """Write a document's row, or begin its next version where its external id has other content.

        Idempotent: the same submission again changes nothing. The document is durable when this returns; it is not yet
        parsed.
        """
        async with self._database.begin() as connection:
            inserted = await _insert(connection, new)
            if inserted is not None:
                return Submission(_document(inserted, new.collection.name), accepted=True, obsolete_upload=None)
            name = {"collection_id": new.collection.id, "external_id": new.external_id}
            row = (await connection.execute(_LOCK_SAME_NAME, name)).mappings().one_or_none()
            if row is None:
                raise Collided("the document was deleted meanwhile", component="ledger")
            if row["content_hash"] == new.content_hash:
                document = _document(row, new.collection.name)
                return Submission(document, accepted=False, obsolete_upload=new.upload)
            document = _document(await _replace(connection, row, new), new.collection.name)
            return Submission(document, accepted=True, obsolete_upload=row["upload"])

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
        *,
        collection: str | None = None,
        state: DocumentState | None = None,
        external_id: str | None = None,
        after: tuple[datetime, UUID] | None = None,
        limit: int = 50,
    ) -> list[Document]:
        """Return documents with their progress, the newest first, from behind `after` on."""
        at, document_id = after or (None, None)
        filters = {"tenant": tenant, "collection": collection, "state": state, "external_id": external_id}
        parameters = filters | {"at": at, "after": document_id, "limit": limit}
        async with self._database.begin() as connection:
            rows = (await connection.execute(_PAGE, parameters)).mappings().all()
            return await _with_progress(connection, rows)

    async def changes(self, tenant: str, since: datetime | None, *, limit: int = 200) -> Changes:
        """Return what may have changed since the last look; who looks again meets some documents unchanged.

        Args:
            tenant: whose documents.
            since: `at` of the last look; None: there was none.
            limit: the most documents.
        """
        parameters = {"tenant": tenant, "since": since, "limit": limit}
        async with self._database.begin() as connection:
            at = (await connection.execute(_NOW)).scalar_one()
            counts = await _counts(connection, tenant)
            rows = (await connection.execute(_CHANGED, parameters)).mappings().all()
            return Changes(at, counts, await _with_progress(connection, rows))

    async def chunks(self, tenant: str, document_id: UUID, *, after: int = -1, limit: int = 50) -> list[ChunkDetail]:
        """Return the chunks of a document's newest version in order, from behind ordinal `after` on.

        Raises:
            NotFound: the tenant has no document of that id.
        """
        async with self._database.begin() as connection:
            row = await _get(connection, tenant, document_id)
            parameters = {"id": document_id, "version": row["version"], "after": after, "limit": limit}
            return [_chunk(chunk) for chunk in (await connection.execute(_CHUNKS, parameters)).mappings()]

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
        """Make a document vanish from the ledger's answers; return the key by which its points are deleted next.

        Every late write for it is refused from now on. The reconciler deletes the points too, and again later, so
        that nothing is lost where the caller does not.

        Raises:
            NotFound: the tenant has no document of that id.
        """
        async with self._database.begin() as connection:
            parameters = {"id": document_id, "tenant": tenant}
            row = (await connection.execute(_DELETE, parameters)).mappings().one_or_none()
            if row is None:
                raise _not_found(document_id)
            for statement in (_DELETE_CHUNKS, _DELETE_ACCEPTED):
                await connection.execute(statement, {"id": document_id})
        return DeletableDocument(**row)

    @again_after_collision
    async def retry(self, tenant: str, document_id: UUID) -> Document:
        """Give a failed document, or the dead chunks of a degraded one, another round of attempts.

        Raises:
            NotFound: the tenant has no document of that id.
            Conflict: there is nothing to retry.
        """
        async with self._database.begin() as connection:
            parameters = {"tenant": tenant, "id": document_id}
            row = (await connection.execute(_GET_LOCKED, parameters)).mappings().one_or_none()
            if row is None:
                raise _not_found(document_id)
            if row["state"] == DocumentState.FAILED:
                await revive_documents(connection, document_parameters(tenant, document_id))
            elif row["state"] == DocumentState.DEGRADED:
                await revive_chunks(connection, document_parameters(tenant, document_id))
            else:
                raise Conflict(f"The document is {row['state']}: only failed and degraded documents can be retried.")
        return await self.get(tenant, document_id)

    @again_after_collision
    async def reindex(self, collection: Collection) -> int:
        """Begin the next version of every document that is not in work, and return how many; the old ones serve on.

        The model is called for new content alone, of a changed prompt, model or chunking: all other questions are
        paid for already.
        """
        async with self._database.begin() as connection:
            return len((await connection.execute(_REINDEX, {"collection": collection.id})).all())

    async def counts(self, tenant: str) -> dict[DocumentState, int]:
        """Return how many documents are in each state."""
        async with self._database.begin() as connection:
            return await _counts(connection, tenant)

    async def uploads_in_use(self, uploads: Sequence[str]) -> set[str]:
        """Return the uploads, of any number of them, that a document needs."""
        async with self._database.begin() as connection:
            return set((await connection.execute(_UPLOADS_IN_USE, {"uploads": list(uploads)})).scalars())


async def _counts(connection: AsyncConnection, tenant: str) -> dict[DocumentState, int]:
    rows = (await connection.execute(_COUNTS, {"tenant": tenant})).all()
    return {DocumentState(state): count for state, count in rows}


async def _insert(connection: AsyncConnection, new: NewDocument) -> RowMapping | None:
    parameters = _content(new) | {
        "id": uuid4(),
        "tenant": new.collection.tenant,
        "collection_id": new.collection.id,
        "external_id": new.external_id,
    }
    row: RowMapping | None = (await connection.execute(_INSERT, parameters)).mappings().one_or_none()
    return row


async def _replace(connection: AsyncConnection, row: RowMapping, new: NewDocument) -> RowMapping:
    parameters = {"id": row["id"], "live_version": row["live_version"]}
    unfinished = await connection.execute(_DELETE_UNFINISHED_CHUNKS, parameters)
    replaced: RowMapping = (await connection.execute(_REPLACE, _content(new) | {"id": row["id"]})).mappings().one()
    if unfinished.rowcount:
        await connection.execute(INSERT_SWEEPS, version_rows([(row["id"], replaced["version"])]))
    return replaced


def _content(new: NewDocument) -> dict[str, Any]:
    ready = new.ready_questions
    return {
        "filename": new.filename,
        "title": new.title,
        "media_type": new.media_type,
        "metadata": json.dumps(dict(new.metadata)),
        "ready_questions": None if ready is None else orjson.dumps(ready).decode(),  # 20,000 take 10 ms
        "upload": new.upload,
        "size_bytes": new.size_bytes,
        "content_hash": new.content_hash,
        "lane": new.lane,
    }


async def _get(connection: AsyncConnection, tenant: str, document_id: UUID) -> RowMapping:
    parameters = {"tenant": tenant, "id": document_id}
    row: RowMapping | None = (await connection.execute(_GET, parameters)).mappings().one_or_none()
    if row is None:
        raise _not_found(document_id)
    return row


def _not_found(document_id: UUID) -> NotFound:
    return NotFound(f"There is no document {document_id}. GET /v1/documents lists those that exist.")


async def _with_progress(connection: AsyncConnection, rows: Sequence[RowMapping]) -> list[Document]:
    counts = (await connection.execute(_PROGRESS, {"ids": [row["id"] for row in rows]})).mappings()
    progress = {count["id"]: Progress(**{k: v for k, v in count.items() if k != "id"}) for count in counts}
    return [_document(row, row["collection"], progress.get(row["id"])) for row in rows]


def _document(row: RowMapping, collection: str, progress: Progress | None = None) -> Document:
    return Document(
        id=row["id"],
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


def _chunk(row: RowMapping) -> ChunkDetail:
    questions = row["questions"]
    if questions is None:
        questions = [{"text": question, "passed": None, "reason": None} for question in row["raw_questions"]]
    return ChunkDetail(
        id=row["id"],
        ordinal=row["ordinal"],
        content=ChunkContent.from_json(row["content"]),
        state=ChunkState(row["state"]),
        error=row["error"],
        questions=tuple(questions),
    )
