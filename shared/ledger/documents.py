"""Documents as their owners see them: handed in, looked at, retried, deleted."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID, uuid4

import orjson
from sqlalchemy import RowMapping, Select, func, select, text, tuple_, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.chunks import ChunkContent
from shared.domain.errors import Conflict, NotFound
from shared.domain.records import (
    ChunkDetail,
    ChunkState,
    Collection,
    Document,
    DocumentState,
    FinishableDocument,
    NewDocument,
    Progress,
)
from shared.ledger import tables as t
from shared.ledger.database import Collided, Database, again_after_collision
from shared.ledger.dead_letters import chosen_document, revive_chunks, revive_documents

_d = t.documents.c
_UNCLAIMED: dict[str, Any] = {"attempts": 0, "lost_leases": 0, "lease_token": None, "leased_by": None, "error": None}
_NEXT_VERSION = func.greatest(_d.version, _d.discarded_version) + 1  # PostgreSQL leaves NULL out


# Made once: put together for each document it took a third of the CPU of handing one in.
_INSERT = (
    insert(t.documents)
    .on_conflict_do_nothing(index_elements=["collection_id", "external_id"], index_where=text("state <> 'deleting'"))
    .returning(t.documents)
)


@dataclass(frozen=True, slots=True)
class Submission:
    """What became of a document that was handed in.

    `accepted` is false where the same content is there already; `obsolete_upload` is no longer needed by any document.
    """

    document: Document
    accepted: bool
    obsolete_upload: str | None


class Documents:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def submit(self, new: NewDocument) -> Submission:
        """Write a document's row, or begin its next version where other content stands under its external id.

        Idempotent: handing in the same again changes nothing. The document is durable when this returns; it is not yet
        parsed.
        """
        async with self._database.begin() as connection:
            inserted = await _insert(connection, new)
            if inserted is not None:
                return Submission(_document(inserted, new.collection.name), accepted=True, obsolete_upload=None)
            found = select(t.documents).where(
                _d.collection_id == new.collection.id, _d.external_id == new.external_id, _d.state != "deleting"
            )
            row = (await connection.execute(found.with_for_update())).mappings().one_or_none()
            if row is None:
                raise Collided("the document was deleted meanwhile", component="ledger")
            if row["content_hash"] == new.content_hash:
                document = _document(row, new.collection.name)
                return Submission(document, accepted=False, obsolete_upload=new.upload)
            row_after = await _supersede(connection, row, new)
            document = _document(row_after, new.collection.name)
            return Submission(document, accepted=True, obsolete_upload=row["upload"])

    async def get(self, tenant: str, document_id: UUID) -> Document:
        """Return a document with its progress.

        Raises:
            NotFound: this tenant has none of that id.
        """
        statement = _visible(tenant).where(_d.id == document_id)
        async with self._database.begin() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
            if row is None:
                raise _not_found(document_id)
            return await _with_progress(connection, row)

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
        """Return documents with their progress, newest first, from behind `after` on."""
        statement = _visible(tenant).order_by(_d.created_at.desc(), _d.id.desc()).limit(limit)
        if collection is not None:
            statement = statement.where(t.collections.c.name == collection)
        if state is not None:
            statement = statement.where(_d.state == state)
        if external_id is not None:
            statement = statement.where(_d.external_id == external_id)
        if after is not None:
            statement = statement.where(tuple_(_d.created_at, _d.id) < tuple_(*after))
        async with self._database.begin() as connection:
            rows = (await connection.execute(statement)).mappings().all()
            progress = await _progress(connection, [row["id"] for row in rows])
        return [_document(row, row["collection"], progress.get(row["id"])) for row in rows]

    async def chunk_ids(self, collection: Collection, external_ids: Sequence[str]) -> dict[str, set[str]]:
        """Return the ids of documents' chunks as queries see them, by the external id; those not there are missing."""
        d, c = t.documents.c, t.chunks.c
        statement = (
            select(d.external_id, c.id)
            .join_from(t.documents, t.chunks, c.document_id == d.id)
            .where(d.collection_id == collection.id, d.tenant == collection.tenant)
            .where(d.external_id.in_(external_ids), d.state != DocumentState.DELETING)
            .where(c.version == d.live_version)
        )
        found: dict[str, set[str]] = {}
        async with self._database.begin() as connection:
            for external_id, chunk_id in await connection.execute(statement):
                found.setdefault(external_id, set()).add(str(chunk_id))
        return found

    async def chunks(self, tenant: str, document_id: UUID, *, after: int = -1, limit: int = 50) -> list[ChunkDetail]:
        """Return the chunks of a document's newest version in order, from behind ordinal `after` on."""
        async with self._database.begin() as connection:
            row = (await connection.execute(_visible(tenant).where(_d.id == document_id))).mappings().one_or_none()
            if row is None:
                raise _not_found(document_id)
            parameters = {"id": document_id, "version": row["version"], "after": after, "limit": limit}
            return [_chunk(chunk) for chunk in (await connection.execute(_CHUNKS, parameters)).mappings()]

    @again_after_collision
    async def delete(self, tenant: str, document_id: UUID) -> FinishableDocument:
        """Make a document vanish from the ledger's answers; return what its points are found by, to be removed next.

        The version rises, so that whatever is still being written for it is refused. The reconciler removes the
        points too, and again later: it does not matter whether the caller gets round to it.
        """
        statement = (
            update(t.documents)
            .where(_d.id == document_id, _d.tenant == tenant, _d.state != "deleting")
            .where(t.collections.c.id == _d.collection_id)
            .values(state="deleting", version=_NEXT_VERSION, due_at=func.now(), updated_at=func.now())
            .values(**_UNCLAIMED)
            .returning(_d.id, _d.tenant, t.collections.c.index_name, _d.version, _d.live_version)
        )
        async with self._database.begin() as connection:
            row = (await connection.execute(statement)).mappings().one_or_none()
            if row is None:
                raise _not_found(document_id)
            for table in (t.chunks, t.accepted_questions):
                await connection.execute(table.delete().where(table.c.document_id == document_id))
        return FinishableDocument(**row)

    @again_after_collision
    async def retry(self, tenant: str, document_id: UUID) -> Document:
        """Give a failed document, or the dead chunks of a degraded one, another round of attempts.

        Raises:
            Conflict: there is nothing to retry.
        """
        async with self._database.begin() as connection:
            statement = _visible(tenant).where(_d.id == document_id).with_for_update(of=t.documents)
            row = (await connection.execute(statement)).mappings().one_or_none()
            if row is None:
                raise _not_found(document_id)
            parameters = chosen_document(tenant, document_id)
            if row["state"] == DocumentState.FAILED:
                await revive_documents(connection, parameters)
            elif row["state"] == DocumentState.DEGRADED:
                await revive_chunks(connection, parameters)
            else:
                raise Conflict(f"The document is {row['state']}: only failed and degraded documents can be retried.")
        return await self.get(tenant, document_id)

    async def moved(self, tenant: str, *, since: datetime, limit: int = 200) -> list[Document]:
        """Return documents that changed since then or are in work, with their progress, the latest change first."""
        in_work = _d.state.in_(("generating", "indexing"))  # their chunks change, which their own row does not tell
        statement = _visible(tenant).where(in_work | (_d.updated_at > since))
        statement = statement.order_by(_d.updated_at.desc()).limit(limit)
        async with self._database.begin() as connection:
            rows = (await connection.execute(statement)).mappings().all()
            progress = await _progress(connection, [row["id"] for row in rows])
        return [_document(row, row["collection"], progress.get(row["id"])) for row in rows]

    @again_after_collision
    async def reindex(self, collection: Collection) -> int:
        """Begin the next version of every document that is not in work, and return how many; the old ones serve on.

        Questions that would be generated as before are paid for already. Only what a changed prompt, model or
        chunking makes new is called for.
        """
        statement = (
            update(t.documents)
            .where(_d.collection_id == collection.id, _d.state.in_(["ready", "degraded", "failed"]))
            .values(version=_NEXT_VERSION, state="queued", lane=1, due_at=func.now(), updated_at=func.now())
            .values(**_UNCLAIMED)
            .returning(_d.id)
        )
        async with self._database.begin() as connection:
            return len((await connection.execute(statement)).all())

    async def counts(self, tenant: str) -> dict[DocumentState, int]:
        """Return how many documents are in each state."""
        statement = select(_d.state, func.count()).where(_d.tenant == tenant).group_by(_d.state)
        async with self._database.begin() as connection:
            rows = (await connection.execute(statement)).all()
        return {DocumentState(state): count for state, count in rows}

    async def uploads_in_use(self, uploads: Sequence[str]) -> set[str]:
        """Return those of the given uploads, however many, that a document still needs."""
        statement = text("SELECT upload FROM documents WHERE upload = ANY(:uploads)")
        async with self._database.begin() as connection:
            return set((await connection.execute(statement, {"uploads": list(uploads)})).scalars())


async def _insert(connection: AsyncConnection, new: NewDocument) -> RowMapping | None:
    values = _content(new) | {
        "id": uuid4(),
        "tenant": new.collection.tenant,
        "collection_id": new.collection.id,
        "external_id": new.external_id,
    }
    row: RowMapping | None = (await connection.execute(_INSERT, values)).mappings().one_or_none()
    return row


async def _supersede(connection: AsyncConnection, row: RowMapping, new: NewDocument) -> RowMapping:
    unfinished = t.chunks.delete().where(
        t.chunks.c.document_id == row["id"], t.chunks.c.version > (row["live_version"] or 0)
    )
    await connection.execute(unfinished)
    values = (
        _content(new)
        | _UNCLAIMED
        | {
            "version": _NEXT_VERSION,
            "state": "queued",
            "due_at": func.now(),
            "updated_at": func.now(),
        }
    )
    statement = update(t.documents).where(_d.id == row["id"]).values(values).returning(t.documents)
    after: RowMapping = (await connection.execute(statement)).mappings().one()
    return after


def _content(new: NewDocument) -> dict[str, Any]:
    given = None
    if new.ready_questions is not None:
        given = [{k: v for k, v in dataclasses.asdict(q).items() if v is not None} for q in new.ready_questions]
    return {
        "filename": new.filename,
        "title": new.title,
        "media_type": new.media_type,
        "metadata": dict(new.metadata),
        "ready_questions": given,
        "upload": new.upload,
        "size_bytes": new.size_bytes,
        "content_hash": new.content_hash,
        "lane": new.lane,
    }


def _visible(tenant: str) -> Select[Any]:
    return (
        select(t.documents, t.collections.c.name.label("collection"))
        .join(t.collections, t.collections.c.id == _d.collection_id)
        .where(_d.tenant == tenant, _d.state != "deleting")
    )


def _not_found(document_id: UUID) -> NotFound:
    return NotFound(f"There is no document {document_id}. GET /v1/documents lists those that exist.")


_PROGRESS = text("""
    SELECT d.id, count(*) AS total,
           count(*) FILTER (WHERE c.state IN ('generated', 'indexed')) AS generated,
           count(*) FILTER (WHERE c.state = 'indexed') AS indexed,
           count(*) FILTER (WHERE c.state = 'dead') AS dead,
           count(*) FILTER (WHERE c.state = 'discarded') AS discarded,
           sum(c.questions_passed)::int AS questions,
           sum(c.prompt_tokens)::int AS prompt_tokens,
           sum(c.completion_tokens)::int AS completion_tokens,
           sum(c.calls)::int AS calls
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.version
    WHERE d.id = ANY(CAST(:ids AS uuid[]))
    GROUP BY d.id
""")

_CHUNKS = text("""
    SELECT c.id, c.ordinal, c.content, c.state, c.error, c.questions,
           coalesce(c.ready_questions, p.questions, '{}') AS raw_questions
    FROM chunks c LEFT JOIN completions p ON p.content_key = c.content_key
    WHERE c.document_id = :id AND c.version = :version AND c.ordinal > :after
    ORDER BY c.ordinal LIMIT :limit
""")


async def _progress(connection: AsyncConnection, document_ids: Sequence[UUID]) -> dict[UUID, Progress]:
    rows = (await connection.execute(_PROGRESS, {"ids": list(document_ids)})).mappings()
    return {row["id"]: Progress(**{k: v for k, v in row.items() if k != "id"}) for row in rows}


async def _with_progress(connection: AsyncConnection, row: RowMapping) -> Document:
    progress = await _progress(connection, [row["id"]])
    return _document(row, row["collection"], progress.get(row["id"]))


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
    elif isinstance(questions, str):
        questions = orjson.loads(questions)
    return ChunkDetail(
        id=row["id"],
        ordinal=row["ordinal"],
        content=ChunkContent.from_json(row["content"]),
        state=ChunkState(row["state"]),
        error=row["error"],
        questions=tuple(questions),
    )
