"""Runs are queued and claimed by workers; before, evaluations, gates and verifications belonged to an API process."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0009"
down_revision = "0008"
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
    op.create_table(
        "verifications",
        *_run_columns(),
        sa.Column("repair", sa.Boolean(), nullable=False),
        sa.Column("part", sa.Text(), nullable=False),  # of its position
        sa.Column("after", sa.Text()),
        sa.Column("counts", postgresql.JSONB(), nullable=False, server_default="{}"),
        sa.Column("findings", postgresql.JSONB(), nullable=False, server_default="[]"),  # the first ones
        # Differences that its worker may have repaired after `findings` was written, and documents of the current page
        # that it may have returned to processing.
        sa.Column("intended", postgresql.JSONB(), nullable=False, server_default="[]"),
        sa.Column("reopened", postgresql.JSONB(), nullable=False, server_default="[]"),
    )
    op.create_index("ix_verifications_collection", "verifications", ["tenant", "collection", "created_at"])
    op.create_table(
        "gates",
        *_run_columns(),
        sa.Column("build_id", sa.Uuid(), nullable=False),
        sa.Column("build", sa.Integer(), nullable=False),
        sa.Column("request", postgresql.JSON(), nullable=False),  # labelled questions; empty when it has ended
        sa.Column("counts", postgresql.JSONB(), nullable=False, server_default="{}"),
        sa.Column("report", postgresql.JSONB()),
    )
    op.create_index("ix_gates_build", "gates", ["build_id", "created_at"])
    # Questions, strategies, baseline and notes; null when the run has ended. `json` keeps the order.
    op.add_column("evaluations", sa.Column("request", postgresql.JSON()))
    # Their processes cannot finish them any more: they write only to runs that are running.
    op.execute(
        "UPDATE evaluations SET phase = 'failed', ended_at = now(),"
        " error = 'The server was updated during the run: run it again.'"
        " WHERE phase IN ('running', 'interrupted')"
    )


def _run_columns() -> list[sa.Column[Any]]:
    """Return the columns that every table of a kind has, as `evaluations`."""
    return [
        sa.Column("id", sa.Uuid(), primary_key=True),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),
        sa.Column("phase", sa.Text(), nullable=False),
        sa.Column("error", sa.Text()),
        sa.Column("ended_at", sa.TIMESTAMP(timezone=True)),
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
    ]
