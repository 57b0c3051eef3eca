"""Batches with their jobs, their costs, and the batch from which they were divided."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0011"
down_revision = "0010"
min_revision = "0003"

_COSTS = ("billed_prompt_tokens", "billed_completion_tokens", "billed_cached_tokens", "billed_written_tokens")


def upgrade() -> None:
    # The first batch of lines that were divided, because the provider rejected it; null for a batch that was planned.
    op.add_column("batches", sa.Column("root_id", postgresql.UUID()))
    op.add_column(
        "batches", sa.Column("job_ids", postgresql.ARRAY(postgresql.UUID()), nullable=False, server_default="{}")
    )
    for name in _COSTS:  # of the settled lines
        op.add_column("batches", sa.Column(name, sa.BigInteger(), nullable=False, server_default="0"))
