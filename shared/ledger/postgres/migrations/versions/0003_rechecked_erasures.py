"""The time at which the points of a finished erasure are deleted again, because a writer may have been very late."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
min_revision = "0002"


def upgrade() -> None:
    # Null for erasures of earlier releases, and when no writer is expected any more.
    op.add_column("erasures", sa.Column("recheck_at", sa.TIMESTAMP(timezone=True)))
