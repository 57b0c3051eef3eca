"""The index of the queries of each gap."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0022"
down_revision = "0021"
min_revision = "0003"


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index("ix_queries_gap_id", if_exists=True, postgresql_concurrently=True)
        op.create_index(
            "ix_queries_gap_id",
            "queries",
            ["tenant", "gap_id"],
            postgresql_where=sa.text("gap_id IS NOT NULL"),
            postgresql_concurrently=True,
        )
