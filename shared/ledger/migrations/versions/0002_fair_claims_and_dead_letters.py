"""Claims go by tenant, and what has ended says when."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    op.add_column("chunks", sa.Column("settled_at", sa.DateTime(timezone=True)))
    op.drop_index("ix_documents_open", "documents")
    op.create_index(
        "ix_documents_due",
        "documents",
        ["tenant", "lane", "due_at"],
        postgresql_where=sa.text("state IN ('queued', 'parsing')"),
    )
    op.create_index(
        "ix_documents_open",
        "documents",
        ["state", "due_at"],
        postgresql_where=sa.text("state IN ('asking', 'indexing', 'deleting')"),
    )
    op.drop_index("ix_chunks_open", "chunks")
    for name, state in (("ix_chunks_to_ask", "pending"), ("ix_chunks_to_index", "asked")):
        op.create_index(name, "chunks", ["tenant", "lane", "due_at"], postgresql_where=sa.text(f"state = '{state}'"))
    op.create_index("ix_documents_leased", "documents", ["tenant"], postgresql_where=sa.text("leased_by IS NOT NULL"))
    op.create_index(
        "ix_chunks_in_indexing",
        "chunks",
        ["tenant"],
        postgresql_where=sa.text("state = 'asked' AND leased_by IS NOT NULL"),
    )
    op.create_index(
        "ix_documents_suspects",
        "documents",
        ["state", "due_at"],
        postgresql_where=sa.text("kills > 0 AND state IN ('queued', 'parsing')"),
    )
    op.create_index(
        "ix_chunks_suspects",
        "chunks",
        ["state", "due_at"],
        postgresql_where=sa.text("kills > 0 AND state IN ('pending', 'asked')"),
    )
    op.create_index("ix_chunks_settled", "chunks", ["tenant", "settled_at"])
    op.create_index(
        "ix_chunks_dead",
        "chunks",
        ["tenant", "settled_at", "id", "generation"],
        postgresql_where=sa.text("state = 'dead'"),
    )
    op.create_index(
        "ix_documents_failed", "documents", ["tenant", "updated_at", "id"], postgresql_where=sa.text("state = 'failed'")
    )
