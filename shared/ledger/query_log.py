"""Queries: what users asked and which chunks they were shown, kept for a while so that feedback can name them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from sqlalchemy import text

from shared.ledger.database import Database

_AT_ONCE = 1000  # rows of one transaction


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

    async def keep(self, queries: Sequence[QueryLogEntry]) -> None:
        """Write queries down; a crash of PostgreSQL within the next second may still lose them."""
        parameters = {
            "ids": [q.id for q in queries],
            "tenants": [q.tenant for q in queries],
            "collections": [q.collection_id for q in queries],
            "questions": [q.question for q in queries],
            "chunks": ["{" + ",".join(q.chunk_ids) + "}" for q in queries],
        }
        async with self._database.begin() as connection:
            await connection.execute(_INSERT, parameters)

    async def purge(self, age: timedelta) -> int:
        """Remove queries that are older; return how many."""
        removed = 0
        while True:
            async with self._database.begin() as connection:
                found = (await connection.execute(_PURGE, {"age": age, "limit": _AT_ONCE})).all()
            removed += len(found)
            if len(found) < _AT_ONCE:
                return removed


# Somebody waits for this commit, and to lose the last queries in a crash costs no more than their feedback: the disk is
# not waited for.
_INSERT = text("""
    WITH soon AS (SELECT set_config('synchronous_commit', 'off', true))
    INSERT INTO queries (id, tenant, collection_id, question, chunk_ids)
    SELECT v.id, v.tenant, v.collection_id, v.question, CAST(v.chunks AS uuid[])
    FROM soon, unnest(CAST(:ids AS uuid[]), CAST(:tenants AS text[]), CAST(:collections AS uuid[]),
                      CAST(:questions AS text[]), CAST(:chunks AS text[]))
               AS v(id, tenant, collection_id, question, chunks)
    ON CONFLICT DO NOTHING
""")

_PURGE = text("""
    DELETE FROM queries WHERE id = ANY(ARRAY(
        SELECT id FROM queries WHERE created_at <= now() - CAST(:age AS interval) ORDER BY created_at LIMIT :limit))
    RETURNING id
""")
