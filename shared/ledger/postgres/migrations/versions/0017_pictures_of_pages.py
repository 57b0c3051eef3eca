"""Pictures of pages that were read by OCR, so that a reader can compare them with their texts.

The previous release runs on this schema: it stores texts of pages without pictures.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
min_revision = "0003"


def upgrade() -> None:
    # A row is deleted with its text. It is a table of its own, because statements on texts need no pictures.
    op.create_table(
        "page_pictures",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("picture", sa.LargeBinary(), nullable=False),  # WebP
        sa.PrimaryKeyConstraint("key", name="pk_page_pictures"),
        sa.ForeignKeyConstraint(["key"], ["page_texts.key"], name="fk_page_pictures_text", ondelete="CASCADE"),
    )
    op.execute("ALTER TABLE page_pictures ALTER picture SET STORAGE EXTERNAL")  # WebP cannot be compressed further
