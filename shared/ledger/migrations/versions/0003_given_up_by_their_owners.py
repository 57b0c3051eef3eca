"""What was given up keeps its number, and every dead chunk has its time."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.add_column("documents", sa.Column("dropped_generation", sa.Integer()))
    # Lists of dead letters go by this time, and rows that died before there was one had none.
    op.execute(
        "UPDATE chunks c SET settled_at = d.updated_at FROM documents d"
        " WHERE d.id = c.document_id AND c.state = 'dead' AND c.settled_at IS NULL"
    )
