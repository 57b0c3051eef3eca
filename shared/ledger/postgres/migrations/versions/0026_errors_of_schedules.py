"""Why the last scheduled sync of a source was not started, or why its next time is not known.

The previous release runs on this schema: it leaves the column unchanged.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0026"
down_revision = "0025"
min_revision = "0003"


def upgrade() -> None:
    op.add_column("sources", sa.Column("schedule_error", sa.Text()))
