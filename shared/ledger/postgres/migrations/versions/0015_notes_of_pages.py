"""Notes of sources of pages: validators and hashes from the last visit of each address."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
min_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "source_notes",
        sa.Column("source_id", sa.Uuid(), sa.ForeignKey("sources.id", ondelete="CASCADE"), nullable=False),
        sa.Column("address", sa.Text(collation="C"), nullable=False),
        sa.Column("note", sa.LargeBinary(), nullable=False),  # at most 1,024 bytes
        sa.PrimaryKeyConstraint("source_id", "address", name="pk_source_notes"),
    )
