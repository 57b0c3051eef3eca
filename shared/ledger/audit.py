"""What the ledger says must stand in Qdrant, and how what does not is brought back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.database import Database

_SETTLED = ("ready", "degraded", "failed")


@dataclass(frozen=True, slots=True)
class DocumentSnapshot:
    """A document's row as it was at one moment; it has not changed while this is equal."""

    id: UUID
    external_id: str
    state: str
    version: int
    live_version: int | None
    updated_at: datetime

    @property
    def is_settled(self) -> bool:
        return self.state in _SETTLED


@dataclass(frozen=True, slots=True)
class Expected:
    """A chunk of a live version.

    Args:
        kept: how many of its questions have points.
        accepted: the points of users' questions.
        accepted_open: those of them that may be there already, or still.
        required: whether these must be there: of a chunk that was discarded nothing must.
        text_required: whether the point of its text must be there: a dead chunk may have none.
    """

    document_id: UUID
    id: UUID
    ordinal: int
    version: int
    passed: int
    required: bool
    text_required: bool
    accepted: Sequence[UUID] = ()
    accepted_open: Sequence[UUID] = ()


class LockedDocuments:
    """Documents that nobody changes until the transaction ends."""

    def __init__(self, connection: AsyncConnection, ids: frozenset[UUID]) -> None:
        self._connection = connection
        self.ids = ids

    async def index_again(self, chunks: Sequence[UUID]) -> set[UUID]:
        """Have chunks indexed again from questions that are paid for; return those for which there are such."""
        return await index_again(self._connection, list(self.ids), chunks)


async def index_again(connection: AsyncConnection, documents: Sequence[UUID], chunks: Sequence[UUID]) -> set[UUID]:
    """Have chunks of documents that are locked and not in work indexed again; see `Held.index_again`."""
    found = (await connection.execute(_INDEX_AGAIN, {"ids": list(documents), "chunks": list(chunks)})).all()
    await connection.execute(_INDEXING, {"ids": sorted({row.document_id for row in found})})
    return {row.id for row in found}


class Audit:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, collection_id: UUID, *, after: str = "", limit: int = 100) -> list[DocumentSnapshot]:
        """Return documents in the order of their external ids, whatever their state."""
        parameters = {"collection": collection_id, "after": after, "limit": limit}
        async with self._database.begin() as connection:
            return [DocumentSnapshot(**row) for row in (await connection.execute(_PAGE, parameters)).mappings()]

    async def standings(self, document_ids: Sequence[UUID]) -> dict[UUID, DocumentSnapshot]:
        """Return documents by id; those that are gone are missing."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_STANDINGS, {"ids": list(document_ids)})).mappings()
            return {row["id"]: DocumentSnapshot(**row) for row in rows}

    async def expected(
        self, document_ids: Sequence[UUID], *, after: tuple[UUID, int] | None = None, limit: int = 200
    ) -> list[Expected]:
        """Return the chunks of live versions in order, from behind (document, ordinal) on."""
        document, ordinal = after or (None, None)
        parameters = {"ids": list(document_ids), "document": document, "ordinal": ordinal, "limit": limit}
        async with self._database.begin() as connection:
            return [Expected(**row) for row in (await connection.execute(_EXPECTED, parameters)).mappings()]

    async def expected_of(self, chunk_ids: Sequence[UUID]) -> dict[UUID, Expected]:
        """Return those of the given chunks that belong to a live version."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_EXPECTED_OF, {"chunks": list(chunk_ids)})).mappings()
            return {row["id"]: Expected(**row) for row in rows}

    async def swept_below(self, document_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the version below which a document's points are to be removed soon, where they are."""
        async with self._database.begin() as connection:
            rows = await connection.execute(_SWEPT, {"ids": list(document_ids)})
            return {row.document_id: row.below for row in rows}

    @asynccontextmanager
    async def holding(self, standings: Sequence[DocumentSnapshot]) -> AsyncIterator[LockedDocuments]:
        """Keep documents as they are until the block ends; those that have changed since are not among them."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_HOLD, {"ids": [s.id for s in standings]})).mappings()
            now = {row["id"]: DocumentSnapshot(**row) for row in rows}
            yield LockedDocuments(connection, frozenset(s.id for s in standings if now.get(s.id) == s))


_STANDING = "id, external_id, state, version, live_version, updated_at"

_PAGE = text(f"""
    SELECT {_STANDING} FROM documents
    WHERE collection_id = :collection AND state <> 'deleting' AND external_id > :after
    ORDER BY external_id LIMIT :limit
""")

_STANDINGS = text(f"SELECT {_STANDING} FROM documents WHERE id = ANY(CAST(:ids AS uuid[]))")
_HOLD = text(f"SELECT {_STANDING} FROM documents WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE")

_CHUNKS = """
    SELECT c.document_id, c.id, c.ordinal, c.version, c.questions_passed AS passed,
           c.state IN ('indexed', 'dead') AS required, c.state = 'indexed' AS text_required,
           ARRAY(SELECT a.id FROM accepted_questions a WHERE a.chunk_id = c.id AND a.state = 'indexed') AS accepted,
           ARRAY(SELECT a.id FROM accepted_questions a
                 WHERE a.chunk_id = c.id AND a.state IN ('waiting', 'removing')) AS accepted_open
    FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
"""

_EXPECTED = text(f"""
    {_CHUNKS}
    WHERE c.document_id = ANY(CAST(:ids AS uuid[]))
      AND (CAST(:document AS uuid) IS NULL OR (c.document_id, c.ordinal) > (:document, CAST(:ordinal AS int)))
    ORDER BY c.document_id, c.ordinal LIMIT :limit
""")

_EXPECTED_OF = text(f"{_CHUNKS} WHERE c.id = ANY(CAST(:chunks AS uuid[]))")

_SWEPT = text("""
    SELECT document_id, max(below_version) AS below FROM sweeps
    WHERE document_id = ANY(CAST(:ids AS uuid[])) GROUP BY document_id
""")

_UNCLAIMED = "attempts = 0, lost_leases = 0, lease_token = NULL, leased_by = NULL"

# Its version is live: its points are to be seen as soon as they are written.
_INDEX_AGAIN = text(f"""
    UPDATE chunks c
    SET state = 'generated', hidden = false, error = NULL, due_at = now(), settled_at = NULL, {_UNCLAIMED}
    WHERE (c.id, c.version) IN (
        SELECT c.id, c.version FROM chunks c
        JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
        WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND d.id = ANY(CAST(:ids AS uuid[]))
          AND d.state IN ('ready', 'degraded') AND c.state IN ('indexed', 'dead')
          AND (c.ready_questions IS NOT NULL
               OR EXISTS (SELECT 1 FROM completions p WHERE p.content_key = c.content_key)))
    RETURNING c.id, c.document_id
""")

_INDEXING = text(f"""
    UPDATE documents SET state = 'indexing', due_at = now(), updated_at = now(), {_UNCLAIMED}
    WHERE id = ANY(CAST(:ids AS uuid[]))
""")
