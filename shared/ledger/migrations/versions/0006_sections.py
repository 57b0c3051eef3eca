"""The section that a chunk is a part of, as a span of the document's text."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"


def upgrade() -> None:
    op.add_column("chunks", sa.Column("section_start", sa.Integer()))
    op.add_column("chunks", sa.Column("section_end", sa.Integer()))
