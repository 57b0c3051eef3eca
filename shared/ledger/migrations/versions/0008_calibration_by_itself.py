"""When a collection is next looked at for a calibration by itself, and which one is being calibrated."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    at = sa.DateTime(timezone=True)
    op.add_column("collections", sa.Column("calibration_due_at", at, nullable=False, server_default=sa.func.now()))
    op.add_column("collections", sa.Column("calibrating_until", at))
