"""Batches of chunks that a provider processes within a day, and their lines."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0010"
down_revision = "0009"
min_revision = "0003"

_OPEN = "state IN ('planning', 'planned', 'creating', 'running', 'collecting')"


def _time(name: str, *, now: bool = False) -> sa.Column[object]:
    default = sa.func.now() if now else None
    return sa.Column(name, sa.TIMESTAMP(timezone=True), nullable=not now, server_default=default)


def _count(name: str, kind: type[sa.Integer] = sa.Integer) -> sa.Column[int]:
    return sa.Column(name, kind(), nullable=False, server_default="0")


def upgrade() -> None:
    # One row for each batch, claimed like all work: see `schema.sql`. Rows are retained for a while after their end.
    op.create_table(
        "batches",
        sa.Column("id", postgresql.UUID(), nullable=False),
        sa.Column("tenant", sa.Text()),  # null for a probe
        sa.Column("provider", sa.Text(), nullable=False),  # its address
        sa.Column("model", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        _count("lines"),
        _count("settled"),  # lines with an outcome
        _count("bytes", sa.BigInteger),  # size of the planned file
        sa.Column("file_id", sa.Text()),
        sa.Column("provider_id", sa.Text()),
        sa.Column("output_file_id", sa.Text()),
        sa.Column("error_file_id", sa.Text()),
        _count("output_bytes", sa.BigInteger),  # collected part
        _count("error_bytes", sa.BigInteger),
        _count("done"),  # requests with a result at the last poll
        sa.Column("unanswered", sa.Text(), nullable=False, server_default="again"),  # next step of unanswered lines
        sa.Column("error", sa.Text()),
        sa.Column("token_limit", sa.BigInteger()),  # the provider's limit of enqueued tokens, if it has named it
        _time("created_at", now=True),
        _time("added_at", now=True),  # when the last line was planned
        _time("tried_at"),  # last create whose result is unknown
        _time("submitted_at"),
        _time("progressed_at", now=True),
        _time("cancelled_at"),  # when its cancellation was requested
        _time("ended_at"),
        _time("due_at", now=True),
        sa.Column("lease_token", sa.BigInteger()),
        sa.Column("leased_by", sa.Text()),
        sa.PrimaryKeyConstraint("id", name="pk_batches"),
    )
    op.create_index("ix_batches_open", "batches", ["due_at"], postgresql_where=sa.text(_OPEN))
    op.create_index("ix_batches_tenant", "batches", ["tenant", "created_at"])
    op.create_index(
        "uq_batches_planning", "batches", ["tenant"], unique=True, postgresql_where=sa.text("state = 'planning'")
    )
    op.create_index(
        "uq_batches_probe",
        "batches",
        ["provider", "model"],
        unique=True,
        postgresql_where=sa.text(f"tenant IS NULL AND {_OPEN}"),
    )
    # The lines that are not settled. The fencing token of a line's lease is its `custom_id`.
    op.create_table(
        "batch_lines",
        sa.Column("token", sa.BigInteger(), nullable=False),
        sa.Column("batch_id", postgresql.UUID(), nullable=False),
        sa.Column("chunk_id", postgresql.UUID(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("document_id", postgresql.UUID(), nullable=False),
        sa.Column("collection_id", postgresql.UUID(), nullable=False),
        sa.Column("job_id", postgresql.UUID()),  # null without a job
        sa.Column("content_key", sa.LargeBinary(), nullable=False),
        sa.Column("questions", sa.SmallInteger(), nullable=False),  # number of requested questions
        sa.PrimaryKeyConstraint("token", name="pk_batch_lines"),
        sa.ForeignKeyConstraint(["batch_id"], ["batches.id"], name="fk_batch_lines_batch_id", ondelete="CASCADE"),
    )
    op.create_index("ix_batch_lines_batch", "batch_lines", ["batch_id", "token"])
