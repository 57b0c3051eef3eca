"""The key of the sums by day distinguishes tiers and jobs.

A scheduler of the previous release names the former key when it adds up costs, so this step of it fails with a warning
until it is replaced. Nothing is lost: the costs remain in `spent_changes`, where every sum of both releases includes
them, and the next scheduler adds them up.
"""

from __future__ import annotations

from alembic import op

revision = "0006"
down_revision = "0005"
min_revision = "0003"


def upgrade() -> None:
    op.drop_constraint("pk_spent_by_day", "spent_by_day")
    op.execute("ALTER TABLE spent_by_day ADD CONSTRAINT pk_spent_by_day PRIMARY KEY USING INDEX uq_spent_by_day_key")
