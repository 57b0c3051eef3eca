"""The oldest code that may run on the schema, and the number of workers that each stage can use."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
min_revision = "0001"


def upgrade() -> None:
    # One row, written after each migration: see `env.py`.
    op.create_table("schema_compat", sa.Column("min_revision", sa.Text(), nullable=False))
    op.add_column("deployment", sa.Column("wanted", postgresql.JSONB()))  # written by the scheduler
