"""The query log: users' questions and the chunks that were returned, stored for as long as feedback may come."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text

from shared.ledger.database import Database

_BATCH_SIZE = 1000  # rows of one transaction

# Write queries without a wait for the disk: somebody waits for this commit, and a crash costs no more than the feedback
# on the last queries.
_INSERT = text("""
    WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO queries (id, tenant, collection_id, question, chunk_ids)
    SELECT v.id, v.tenant, v.collection_id, v.question, CAST(v.chunks AS uuid[])
    FROM soon, unnest(CAST(:ids AS uuid[]), CAST(:tenants AS text[]), CAST(:collections AS uuid[]),
                      CAST(:questions AS text[]), CAST(:chunks AS text[]))
               AS v(id, tenant, collection_id, question, chunks)
    ON CONFLICT DO NOTHING
""")

# Delete the oldest queries that are older than an age.
_PURGE = text("""
    DELETE FROM queries WHERE id = ANY(ARRAY(
        SELECT id FROM queries WHERE created_at <= now() - CAST(:age AS interval) ORDER BY created_at LIMIT :limit))
    RETURNING id
""")


@dataclass(frozen=True, slots=True)
class QueryLogEntry:
    """A question as a user put it, and the chunks that were returned."""

    id: UUID
    tenant: str
    collection_id: UUID
    question: str
    chunk_ids: Sequence[str]


class QueryLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, entries: Sequence[QueryLogEntry]) -> None:
        """Write queries down; a crash of PostgreSQL within the next second may still lose them."""
        parameters = {
            "ids": [entry.id for entry in entries],
            "tenants": [entry.tenant for entry in entries],
            "collections": [entry.collection_id for entry in entries],
            "questions": [entry.question for entry in entries],
            "chunks": ["{" + ",".join(entry.chunk_ids) + "}" for entry in entries],
        }
        async with self._database.begin() as connection:
            await connection.execute(_INSERT, parameters)

    async def purge(self, age: timedelta) -> bool:
        """Delete some queries that are older; return whether more may wait."""
        async with self._database.begin() as connection:
            deleted = (await connection.execute(_PURGE, {"age": age, "limit": _BATCH_SIZE})).all()
        return len(deleted) == _BATCH_SIZE
