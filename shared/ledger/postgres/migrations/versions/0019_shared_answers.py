"""Answers that users share by a link, and the digests that identify them.

The previous release does not write the digests, so that its answers cannot be shared. It does not
delete shared answers with an erased document or tenant. The cleanup of this release deletes them, because they cite
deleted passages.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0019"
down_revision = "0018"
min_revision = "0003"

_IDS = postgresql.ARRAY(postgresql.UUID())


def upgrade() -> None:
    op.create_table(
        "shared_answers",
        sa.Column("id", sa.Uuid(), nullable=False),  # random: it is the secret part of the link
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection", sa.Text(), nullable=False),  # its name
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("answer", sa.Text(), nullable=False),
        sa.Column("form", sa.Text(), nullable=False),
        sa.Column("numbers", postgresql.ARRAY(sa.Integer()), nullable=False),  # of the cited passages
        sa.Column("chunk_ids", _IDS, nullable=False),  # the chunk of each number
        sa.Column("document_ids", _IDS, nullable=False),  # public ids of the documents of all passages
        sa.Column("shared_by", sa.Uuid()),  # the ledger's key; null for a key of the settings, or without keys
        sa.Column("shared_by_name", sa.Text()),  # name of the key; null without keys
        sa.Column("created_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.Column("expires_at", sa.TIMESTAMP(timezone=True), nullable=False),
        sa.Column("checked_at", sa.TIMESTAMP(timezone=True), nullable=False, server_default=sa.func.now()),
        sa.PrimaryKeyConstraint("id", name="pk_shared_answers"),
    )
    op.create_index("ix_shared_answers_tenant", "shared_answers", ["tenant"])
    op.create_index("ix_shared_answers_checked_at", "shared_answers", ["checked_at"])
    # SHA-256 of the ids of chunks and the answer; null if it cannot be shared, or a document was erased since.
    op.add_column("queries", sa.Column("answer_sha256", sa.LargeBinary()))
