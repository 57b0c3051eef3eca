"""The index of the sums by day that distinguishes tiers and jobs."""

from __future__ import annotations

from alembic import op

revision = "0005"
down_revision = "0004"
min_revision = "0003"

_KEY = ["tenant", "collection_id", "kind", "model", "day", "tier", "job_id"]


def upgrade() -> None:
    with op.get_context().autocommit_block():
        op.drop_index("uq_spent_by_day_key", if_exists=True, postgresql_concurrently=True)
        op.create_index("uq_spent_by_day_key", "spent_by_day", _KEY, unique=True, postgresql_concurrently=True)
