"""Tallies: how many documents and chunks are in each state, so that no request counts rows.

Triggers write them in the transaction that changes a state: whichever statement it was, nothing is missed. Each writes
rows of its own, which the scheduler adds up later: transactions that change the same tally do not wait for each other.

What ended in each minute falls out of the same addition: no settlement pays for it, and no index of the largest table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.states import ChunkState, DocumentState
from shared.ledger.model import states
from shared.ledger.postgres.database import Database

RATE_WINDOW = timedelta(minutes=1)  # the rate of the ingest is read from changes that are not added up yet
_SLICE = 10_000  # changes of one transaction: a tenth of a second
_REMEMBERED = timedelta(days=1)  # 1,440 rows of a tenant that always works
_SERVED = (DocumentState.READY, DocumentState.DEGRADED)


def of_tenant(counted: str) -> str:
    """Return the tallies of `:tenant` as a table of `part`, `state` and `rows`, whose sums are the numbers.

    Args:
        counted: `documents`, whose parts are collections, or `chunks`, whose parts are embedding models.
    """
    return f"""(
        SELECT part, state, rows FROM tallies WHERE tenant = :tenant AND counted = '{counted}'
        UNION ALL
        SELECT part, state, change FROM tally_changes WHERE tenant = :tenant AND counted = '{counted}')"""


def _ended(changes: str) -> str:
    """Return the query for what ended in each minute, of some changes."""
    sums = ", ".join(
        f"coalesce(sum(change) FILTER (WHERE counted = '{counted}' AND {states.is_in(ended)}), 0)::int AS {name}"
        for name, counted, ended in (
            ("chunks", "chunks", (ChunkState.INDEXED,)),
            ("dead_chunks", "chunks", (ChunkState.DEAD,)),
            ("documents", "documents", _SERVED),
            ("failed_documents", "documents", (DocumentState.FAILED,)),
        )
    )
    ends = states.is_in((ChunkState.INDEXED, ChunkState.DEAD, *_SERVED, DocumentState.FAILED))
    return f"""
        SELECT tenant, date_trunc('minute', at, 'UTC') AS minute, {sums} FROM {changes}
        WHERE change > 0 AND {ends} GROUP BY tenant, minute"""


# Add up changes that are older than an age, the oldest first.
_FOLD = text(f"""
    WITH gone AS (
        DELETE FROM tally_changes WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM tally_changes WHERE at <= now() - CAST(:age AS interval)
            ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED))
        RETURNING tenant, counted, part, state, change, at
    ), ended AS (
        INSERT INTO ended_by_minute AS e (tenant, minute, chunks, dead_chunks, documents, failed_documents)
        {_ended("gone")} ORDER BY tenant, minute
        ON CONFLICT (tenant, minute) DO UPDATE
        SET chunks = e.chunks + excluded.chunks, dead_chunks = e.dead_chunks + excluded.dead_chunks,
            documents = e.documents + excluded.documents,
            failed_documents = e.failed_documents + excluded.failed_documents
    ), added AS (
        INSERT INTO tallies AS t (tenant, counted, part, state, rows)
        SELECT tenant, counted, part, state, sum(change) FROM gone
        GROUP BY tenant, counted, part, state ORDER BY tenant, counted, part, state
        ON CONFLICT (tenant, counted, part, state) DO UPDATE SET rows = t.rows + excluded.rows
    )
    SELECT count(*) FROM gone
""")

# Sum up what ended of a tenant in each of the last minutes, this one too. Minutes in which nothing ended are 0.
_HISTORY = text(f"""
    WITH known AS (
        SELECT tenant, minute, chunks, dead_chunks, documents, failed_documents FROM ended_by_minute
        WHERE tenant = :tenant
        UNION ALL
        {_ended("(SELECT * FROM tally_changes WHERE tenant = :tenant) c")}
    ), minutes AS (
        SELECT generate_series(date_trunc('minute', now(), 'UTC') - make_interval(mins => CAST(:minutes AS int) - 1),
                               now(), interval '1 minute') AS minute
    )
    SELECT m.minute, coalesce(sum(k.chunks), 0)::int AS chunks, coalesce(sum(k.dead_chunks), 0)::int AS dead_chunks,
           coalesce(sum(k.documents), 0)::int AS documents,
           coalesce(sum(k.failed_documents), 0)::int AS failed_documents
    FROM minutes m LEFT JOIN known k ON k.minute = m.minute GROUP BY m.minute ORDER BY m.minute
""")

# Delete minutes that are older than an age.
_FORGET_MINUTES = text("DELETE FROM ended_by_minute WHERE minute <= now() - CAST(:age AS interval)")

# Delete what is counted of the documents of a build that has none left: the sums are 0.
_FORGET_CHANGES = text("DELETE FROM tally_changes WHERE tenant = :tenant AND counted = 'documents' AND part = :part")
_FORGET = text("DELETE FROM tallies WHERE tenant = :tenant AND counted = 'documents' AND part = :part")


@dataclass(frozen=True, slots=True)
class Minute:
    """What ended of a tenant within a minute.

    Args:
        minute: when it began, in UTC.
        chunks: that were indexed.
        dead_chunks: that were given up.
        documents: that became ready, with or without dead chunks.
        failed_documents: that could not be read.
    """

    minute: datetime
    chunks: int
    dead_chunks: int
    documents: int
    failed_documents: int


class Counters:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def fold(self, age: timedelta = RATE_WINDOW) -> bool:
        """Add up some changes that are older; return whether more may wait."""
        async with self._database.begin() as connection:
            folded: int = (await connection.execute(_FOLD, {"age": age, "limit": _SLICE})).scalar_one()
        return folded == _SLICE

    async def history(self, tenant: str, minutes: int) -> list[Minute]:
        """Return what ended of a tenant in each of the last minutes, the oldest first; the last one is not over."""
        rows = await self._database.rows(_HISTORY, {"tenant": tenant, "minutes": minutes})
        return [Minute(**row) for row in rows]

    async def forget_minutes(self, age: timedelta = _REMEMBERED) -> None:
        """Forget what ended in minutes that are older."""
        async with self._database.begin() as connection:
            await connection.execute(_FORGET_MINUTES, {"age": age})


async def forget(connection: AsyncConnection, tenant: str, build: UUID) -> None:
    """Delete the tallies of a build whose documents are gone. Changes go first, as where they are added up."""
    parameters = {"tenant": tenant, "part": str(build)}
    await connection.execute(_FORGET_CHANGES, parameters)
    await connection.execute(_FORGET, parameters)
