"""The ledger: documents, their versions, chunks, completions, costs, keys, queries, questions, sweeps, webhooks."""

from __future__ import annotations

from pathlib import Path

from alembic import op

revision = "0001"
down_revision = None
min_revision = "0001"

SCHEMA = Path(__file__).parents[1] / "schema.sql"


def upgrade() -> None:
    connection = op.get_bind()
    for statement in SCHEMA.read_text(encoding="utf-8").split(";\n\n"):
        connection.exec_driver_sql(statement)
