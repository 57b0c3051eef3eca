"""Whether the words of a version's file arrived.

The previous release runs on this schema. It reads every file as before, and records no missing words. A document that
it finishes is `ready` although words are missing that a worker of this release has recorded.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0024"
down_revision = "0023"
min_revision = "0003"


def upgrade() -> None:
    # Share of the words of the file that are in the chunks; null if they were not counted.
    op.add_column("document_versions", sa.Column("text_coverage", sa.REAL()))
    # {"losses": [{"place", "missing", "sample"}], "unread": [sentence]}; null if nothing is known to be missing.
    op.add_column("document_versions", sa.Column("missing", postgresql.JSONB()))
