"""Runs are queued and claimed by workers; before, evaluations were tasks of an API process."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0006"
down_revision = "0003"
min_revision = "0003"


def upgrade() -> None:
    # One narrow row for each open run; the table of its kind has the rest.
    op.create_table(
        "runs",
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("embeddings", postgresql.ARRAY(sa.Text()), nullable=False),  # that its worker must serve
        sa.Column("token", sa.BigInteger()),  # of the newest claim; null while it is queued
        sa.Column("leased_by", sa.Text()),
        sa.Column("leased_until", sa.TIMESTAMP(timezone=True)),
        sa.Column("lost_leases", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
    )
    # Questions, strategies, baseline and notes; null when the run has ended. `json` keeps the order.
    op.add_column("evaluations", sa.Column("request", postgresql.JSON()))
    # Their processes cannot finish them any more: they write only to runs that are running.
    op.execute(
        "UPDATE evaluations SET phase = 'failed', ended_at = now(),"
        " error = 'The server was updated during the run: run it again.'"
        " WHERE phase IN ('running', 'interrupted')"
    )
