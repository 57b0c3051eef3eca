"""The audit: the points that Qdrant must hold by the ledger, and how a chunk is indexed again."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.states import AcceptedState, ChunkState, DocumentState
from shared.ledger.model import states
from shared.ledger.postgres.database import Database

# A document whose live version is being rewritten, and one whose rewrite has ended.
_REOPENED = tuple(state for state in (*states.INDEX_AGAIN.sources, *states.INDEX_AGAIN.targets) if state)

_SNAPSHOT = "id, public_id, external_id, state, version, live_version, updated_at"

# The chunks of live versions, and how many points each must have.
_CHUNKS = f"""
    SELECT c.document_id, d.public_id, c.id, c.ordinal, c.version, c.questions_passed AS passed,
           c.state IN ('{ChunkState.INDEXED}', '{ChunkState.DEAD}') AS required,
           c.state = '{ChunkState.INDEXED}' AS text_required,
           {states.is_in(states.OPEN_CHUNKS, "c")} AS in_work,
           ARRAY(SELECT a.id FROM accepted_questions a
                 WHERE a.chunk_id = c.id AND a.state = '{AcceptedState.INDEXED}') AS accepted,
           ARRAY(SELECT a.id FROM accepted_questions a
                 WHERE a.chunk_id = c.id
                   AND a.state IN ('{AcceptedState.WAITING}', '{AcceptedState.REMOVING}')) AS accepted_open
    FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
"""

# List the documents of a collection in the order of their external ids.
_PAGE = text(f"""
    SELECT {_SNAPSHOT} FROM documents
    WHERE collection_id = :collection AND {states.exists()} AND external_id > :after
    ORDER BY external_id LIMIT :limit
""")

# Read documents as they are now.
_SNAPSHOTS = text(f"SELECT {_SNAPSHOT} FROM documents WHERE id = ANY(CAST(:ids AS uuid[]))")

# Read and lock documents, in one order, so that two audits cannot deadlock.
_LOCK = text(f"SELECT {_SNAPSHOT} FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE")

# List the chunks of documents' live versions in order.
_EXPECTED = text(f"""
    {_CHUNKS}
    WHERE c.document_id = ANY(CAST(:ids AS uuid[]))
      AND (CAST(:document AS uuid) IS NULL OR (c.document_id, c.ordinal) > (:document, CAST(:ordinal AS int)))
    ORDER BY c.document_id, c.ordinal LIMIT :limit
""")

# Read chunks of live versions by their ids.
_EXPECTED_BY_ID = text(f"{_CHUNKS} WHERE c.id = ANY(CAST(:chunks AS uuid[]))")

# Find the versions below which sweeps will delete points of documents; for a chunk, including this version.
_SWEPT = text("""
    SELECT document_id, max(below_version + (chunk_id IS NOT NULL)::int) AS below FROM sweeps
    WHERE document_id = ANY(CAST(:ids AS uuid[])) GROUP BY document_id
""")

# Open chunks of live versions to the indexer again, if their questions are paid for or ready-made. Their points are
# visible as soon as they are written, for the version is live.
_INDEX_CHUNKS_AGAIN = text(f"""
    UPDATE chunks c
    SET {states.INDEX_CHUNK_AGAIN.sets()}, error = NULL, due_at = now(), settled_at = NULL, {states.UNCLAIMED}
    WHERE (c.id, c.version) IN (
        SELECT c.id, c.version FROM chunks c
        JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
        WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND d.id = ANY(CAST(:ids AS uuid[]))
          AND ({states.INDEX_AGAIN.applies("d")} OR d.state = '{DocumentState.FAILED}'
               OR d.id = ANY(CAST(:reopened AS uuid[])))
          AND {states.INDEX_CHUNK_AGAIN.applies("c")}
          AND (c.ready_made
               OR EXISTS (SELECT 1 FROM completions p WHERE p.content_key = c.content_key)))
    RETURNING c.id, c.document_id
""")

# Return the documents of such chunks to processing; a document whose edit failed stays failed.
_INDEX_DOCUMENTS_AGAIN = text(f"""
    UPDATE documents SET {states.INDEX_AGAIN.sets()}, due_at = now(), updated_at = now(), {states.UNCLAIMED}
    WHERE id = ANY(CAST(:ids AS uuid[])) AND {states.is_in(_REOPENED)}
""")


@dataclass(frozen=True, slots=True)
class DocumentSnapshot:
    """A document's row at one moment; an equal snapshot later means that the row has not changed."""

    id: UUID
    public_id: UUID
    external_id: str
    state: str
    version: int
    live_version: int | None
    updated_at: datetime

    @property
    def is_final(self) -> bool:
        """Whether no worker will change it."""
        return self.state in states.FINAL_DOCUMENTS

    def is_unchanged(self, now: DocumentSnapshot | None, *, reopened: bool = False) -> bool:
        """Return whether the row is unchanged; a document that the audit `reopened` may be in progress or finished.

        Parts that the audit has not read yet are unchanged in that case, because it opens chunks of the live version
        only.
        """
        if not reopened or now is None:
            return self == now
        same_version = (now.version, now.live_version) == (self.version, self.live_version)
        return same_version and now.state in _REOPENED


@dataclass(frozen=True, slots=True)
class ExpectedChunk:
    """A chunk of a live version.

    Args:
        passed: number of its questions with points.
        required: whether the points of its questions must exist; a discarded chunk needs none.
        text_required: whether the point of its text must exist; a dead chunk may have none.
        in_work: whether a worker may be writing its points.
        accepted: accepted questions whose points must exist.
        accepted_open: accepted questions whose points may exist.
    """

    document_id: UUID
    public_id: UUID
    id: UUID
    ordinal: int
    version: int
    passed: int
    required: bool
    text_required: bool
    in_work: bool
    accepted: Sequence[UUID] = ()
    accepted_open: Sequence[UUID] = ()


class LockedDocuments:
    """Documents that no other process changes until the transaction ends; `reopened` ones may be in progress."""

    def __init__(self, connection: AsyncConnection, ids: frozenset[UUID], reopened: frozenset[UUID]) -> None:
        self._connection = connection
        self._reopened = reopened
        self.ids = ids

    async def index_again(self, chunks: Sequence[UUID]) -> set[UUID]:
        """Index chunks again; return the chunks with paid questions, which are due now."""
        return await index_again(self._connection, list(self.ids), chunks, reopened=list(self._reopened))


async def index_again(
    connection: AsyncConnection, documents: Sequence[UUID], chunks: Sequence[UUID], *, reopened: Sequence[UUID] = ()
) -> set[UUID]:
    """Index chunks of locked documents again; return the chunks that are due now.

    Documents in progress are skipped unless they are `reopened`. Chunks without paid questions are skipped, because
    they would need a call.
    """
    parameters = {"ids": list(documents), "chunks": list(chunks), "reopened": list(reopened)}
    due = (await connection.execute(_INDEX_CHUNKS_AGAIN, parameters)).all()
    await connection.execute(_INDEX_DOCUMENTS_AGAIN, {"ids": sorted({row.document_id for row in due})})
    return {row.id for row in due}


class Audit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, collection_id: UUID, *, after: str = "", limit: int = 100) -> list[DocumentSnapshot]:
        """Return documents in the order of their external ids, whatever their state."""
        parameters = {"collection": collection_id, "after": after, "limit": limit}
        async with self._database.begin() as connection:
            return [DocumentSnapshot(**row) for row in (await connection.execute(_PAGE, parameters)).mappings()]

    async def snapshots(self, document_ids: Sequence[UUID]) -> dict[UUID, DocumentSnapshot]:
        """Return documents by id; documents that do not exist any more are missing."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_SNAPSHOTS, {"ids": list(document_ids)})).mappings()
            return {row["id"]: DocumentSnapshot(**row) for row in rows}

    async def expected(
        self, document_ids: Sequence[UUID], *, after: tuple[UUID, int] | None = None, limit: int = 200
    ) -> list[ExpectedChunk]:
        """Return the chunks of live versions in order, after (document, ordinal)."""
        document, ordinal = after or (None, None)
        parameters = {"ids": list(document_ids), "document": document, "ordinal": ordinal, "limit": limit}
        async with self._database.begin() as connection:
            return [ExpectedChunk(**row) for row in (await connection.execute(_EXPECTED, parameters)).mappings()]

    async def expected_by_id(self, chunk_ids: Sequence[UUID]) -> dict[UUID, ExpectedChunk]:
        """Return chunks of live versions by id; other chunks are missing."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_EXPECTED_BY_ID, {"chunks": list(chunk_ids)})).mappings()
            return {row["id"]: ExpectedChunk(**row) for row in rows}

    async def swept_below(self, document_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the versions below which sweeps will delete points, by document.

        Documents without a sweep are missing.
        """
        async with self._database.begin() as connection:
            rows = await connection.execute(_SWEPT, {"ids": list(document_ids)})
            return {row.document_id: row.below for row in rows}

    @asynccontextmanager
    async def locked(
        self, snapshots: Sequence[DocumentSnapshot], *, reopened: AbstractSet[UUID] = frozenset()
    ) -> AsyncIterator[LockedDocuments]:
        """Lock documents until the block ends; documents that changed since their snapshot are left out."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_LOCK, {"ids": [s.id for s in snapshots]})).mappings()
            now = {row["id"]: DocumentSnapshot(**row) for row in rows}
            held = frozenset(s.id for s in snapshots if s.is_unchanged(now.get(s.id), reopened=s.id in reopened))
            yield LockedDocuments(connection, held, held.intersection(reopened))
