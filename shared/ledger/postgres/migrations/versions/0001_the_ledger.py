"""The ledger: all tables, indexes, functions, triggers and comments of `schema.sql`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import asyncpg
from alembic import op

from shared.ledger.postgres.migrations import comments

revision = "0001"
down_revision = None
min_revision = "0001"

SCHEMA = Path(__file__).parents[1] / "schema.sql"


def upgrade() -> None:
    sql = SCHEMA.read_text(encoding="utf-8")
    sql = "\n".join([sql, "-- ---- Comments ----\n", *comments.statements_of(sql)])
    context = op.get_context()
    if context.as_sql:
        context.impl.static_output(sql)
        return
    connection: Any = op.get_bind().connection.dbapi_connection
    try:
        # PostgreSQL separates the statements, because functions contain semicolons and empty lines.
        connection.run_async(lambda opened: opened.execute(sql))
    except asyncpg.PostgresError as error:
        if error.position is not None:
            line = sql.count("\n", 0, int(error.position)) + 1
            error.add_note(f"{SCHEMA.name}, line {line}")
        raise
