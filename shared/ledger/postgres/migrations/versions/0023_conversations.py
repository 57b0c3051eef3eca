"""Conversations of the page, stored for each key if the operator allows it.

The previous release neither writes them nor deletes them with an erased document, collection or tenant. The cleanup of
this release deletes conversations that cite erased data.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0023"
down_revision = "0022"
min_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "conversations",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),  # names the key; no key can be computed from it
        sa.Column("id", sa.Text(), nullable=False),  # chosen by the page
        sa.Column("key_id", sa.Uuid()),  # the ledger's key; null for a key of the settings, or without keys
        sa.Column("name", sa.Text(), nullable=False),
        sa.Column("turns", sa.Text(), nullable=False),  # JSON, which is returned as it was stored
        sa.Column("collections", postgresql.ARRAY(sa.Text()), nullable=False),  # names
        sa.Column("document_ids", postgresql.ARRAY(postgresql.UUID()), nullable=False),  # public ids
        sa.Column("changed_at", sa.TIMESTAMP(timezone=True), nullable=False),  # by the browser's clock, never later
        sa.Column("stored_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("checked_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("tenant", "owner", "id", name="pk_conversations"),
    )
    op.create_index("ix_conversations_checked_at", "conversations", ["checked_at"])
