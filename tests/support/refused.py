"""Rows that PostgreSQL refuses to change, as if a bug or a damaged value made each attempt fail."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from uuid import UUID

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement


@asynccontextmanager
async def refusing(database: Database, table: str, event: str, row: UUID, *, column: str = "id") -> AsyncIterator[None]:
    """Refuse an event, such as `DELETE` or `UPDATE OF state`, of the rows with a value within the block."""
    await _run(
        database,
        """CREATE FUNCTION refuse_row() RETURNS trigger LANGUAGE plpgsql AS $$
           BEGIN RAISE EXCEPTION 'this row is refused'; END $$""",
        f"""CREATE TRIGGER refuse_row BEFORE {event} ON {table} FOR EACH ROW WHEN (OLD.{column} = '{row}')
            EXECUTE FUNCTION refuse_row()""",
    )
    try:
        yield
    finally:
        await _run(database, f"DROP TRIGGER refuse_row ON {table}", "DROP FUNCTION refuse_row()")


async def _run(database: Database, *statements: str) -> None:
    async with database.begin() as connection:
        for statement in statements:
            await connection.execute(Statement(statement.replace(":", "\\:")))
