"""Tallies: how many documents and chunks are in each state, so that no request counts rows.

Triggers write them in the transaction that changes a state: whichever statement it was, nothing is missed. Each writes
rows of its own, which the scheduler adds up later: transactions that change the same tally do not wait for each other.
"""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.database import Database

RATE_WINDOW = timedelta(minutes=1)  # the rate of the ingest is read from changes that are not added up yet
_SLICE = 10_000  # changes of one transaction: a tenth of a second


def of_tenant(counted: str) -> str:
    """Return the tallies of `:tenant` as a table of `part`, `state` and `rows`, whose sums are the numbers.

    Args:
        counted: `documents`, whose parts are collections, or `chunks`, whose parts are embedding models.
    """
    return f"""(
        SELECT part, state, rows FROM tallies WHERE tenant = :tenant AND counted = '{counted}'
        UNION ALL
        SELECT part, state, change FROM tally_changes WHERE tenant = :tenant AND counted = '{counted}')"""


# Add up changes that are older than an age, the oldest first.
_FOLD = text("""
    WITH gone AS (
        DELETE FROM tally_changes WHERE ctid = ANY(ARRAY(
            SELECT ctid FROM tally_changes WHERE at <= now() - CAST(:age AS interval)
            ORDER BY at LIMIT :limit FOR UPDATE SKIP LOCKED))
        RETURNING tenant, counted, part, state, change
    ), added AS (
        INSERT INTO tallies AS t (tenant, counted, part, state, rows)
        SELECT tenant, counted, part, state, sum(change) FROM gone
        GROUP BY tenant, counted, part, state ORDER BY tenant, counted, part, state
        ON CONFLICT (tenant, counted, part, state) DO UPDATE SET rows = t.rows + excluded.rows
    )
    SELECT count(*) FROM gone
""")


# Delete what is counted of the documents of a build that has none left: the sums are 0.
_FORGET_CHANGES = text("DELETE FROM tally_changes WHERE tenant = :tenant AND counted = 'documents' AND part = :part")
_FORGET = text("DELETE FROM tallies WHERE tenant = :tenant AND counted = 'documents' AND part = :part")


class Tallies:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def fold(self, age: timedelta = RATE_WINDOW) -> bool:
        """Add up some changes that are older; return whether more may wait."""
        async with self._database.begin() as connection:
            folded: int = (await connection.execute(_FOLD, {"age": age, "limit": _SLICE})).scalar_one()
        return folded == _SLICE


async def forget(connection: AsyncConnection, tenant: str, build: UUID) -> None:
    """Delete the tallies of a build whose documents are gone. Changes go first, as where they are added up."""
    parameters = {"tenant": tenant, "part": str(build)}
    await connection.execute(_FORGET_CHANGES, parameters)
    await connection.execute(_FORGET, parameters)
