"""Pictures in documents: the picture of a chunk until it is described, and its paid description.

The previous release runs on this schema, because it neither reads nor writes these columns. It would generate questions
for chunks with pictures from their empty texts, but such chunks exist only after a process of this release has parsed a
document with FOREASK_CAPTIONS=on.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
min_revision = "0003"


def upgrade() -> None:
    op.add_column("chunk_contents", sa.Column("picture", sa.LargeBinary()))  # a JPEG file; null after its description
    op.add_column("completions", sa.Column("text", sa.Text()))  # the description of a picture; null for a text
