"""Counters: numbers of documents and chunks by state, so that no request counts rows.

Triggers record changes in the transaction that changes a state, so no statement can forget to. Each trigger inserts its
own rows, which the scheduler adds up later, so that transactions that change the same counter do not wait for each
other.

The addition also yields the documents and chunks that finished in each minute, without cost for settlements and without
an index on the largest table.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from shared.domain.time_left import RECENT
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database

RATE_WINDOW = RECENT  # the rate of the ingest is read from changes that are not added up yet
_SLICE = 10_000  # changes of one transaction: a tenth of a second
_REMEMBERED = timedelta(days=1)  # 1,440 rows of a tenant that always works
SQL = statements.load(__file__, states.FRAGMENTS)


def of_tenant(counted: str) -> str:
    """Return the counters of `:tenant` as a table of `part`, `state` and `rows`, which must be summed.

    Args:
        counted: `documents`, whose parts are collections, `chunks`, whose parts are embedding models, or `readers`: the
            documents of a collection that are not in progress, with their readers as states.
    """
    return f"""(
        SELECT part, state, rows FROM tallies WHERE tenant = :tenant AND counted = '{counted}'
        UNION ALL
        SELECT part, state, change FROM tally_changes WHERE tenant = :tenant AND counted = '{counted}')"""


@dataclass(frozen=True, slots=True)
class Minute:
    """Documents and chunks of a tenant that finished within a minute.

    Args:
        minute: start of the minute in UTC.
        chunks: number of indexed chunks.
        dead_chunks: number of dead chunks.
        documents: number of documents that became ready, with or without dead chunks.
        failed_documents: number of unreadable documents.
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
            folded: int = (await connection.execute(SQL.add_up, {"age": age, "limit": _SLICE})).scalar_one()
        return folded == _SLICE

    async def history(self, tenant: str, minutes: int) -> list[Minute]:
        """Return a tenant's finished work in each of the last minutes, oldest first; the last minute is incomplete."""
        rows = await self._database.rows(SQL.history, {"tenant": tenant, "minutes": minutes})
        return [Minute(**row) for row in rows]

    async def forget_minutes(self, age: timedelta = _REMEMBERED) -> None:
        """Delete the counts of older minutes."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.delete_minutes, {"age": age})


async def forget(connection: Connection, tenant: str, build: UUID) -> None:
    """Delete the counters of a build without documents: changes first, as in the addition."""
    parameters = {"tenant": tenant, "part": str(build)}
    await connection.execute(SQL.delete_changes, parameters)
    await connection.execute(SQL.delete_counters, parameters)
