"""Sweeps name the version whose points they delete, and the time since which queries do not see it.

The previous release runs on this schema. Its workers make a version live before Qdrant shows it, and delete the points
of the version before at once. So while both releases run, queries may miss texts of a document that such a worker
replaces, for some tenths of a second.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0029"
down_revision = "0028"
min_revision = "0003"


def upgrade() -> None:
    # Null for sweeps of the previous release, which delete the versions below `below_version`.
    op.add_column("sweeps", sa.Column("obsolete_version", sa.Integer()))
    # Like `again`, after whose sweep the previous release shows a document's live version.
    op.add_column("sweeps", sa.Column("repeats", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column(
        "sweeps", sa.Column("obsolete_since", sa.DateTime(timezone=True), nullable=False, server_default=sa.func.now())
    )
