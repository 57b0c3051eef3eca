"""Users' questions that became questions of a chunk."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "accepted_questions",
        sa.Column("id", sa.Uuid(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("collection_id", sa.Uuid(), nullable=False),
        sa.Column("document_id", sa.Uuid(), nullable=False),
        sa.Column("chunk_id", sa.Uuid(), nullable=False),
        sa.Column("question", sa.Text(), nullable=False),
        sa.Column("query_id", sa.Uuid(), nullable=True),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["document_id"], ["documents.id"], name=op.f("fk_accepted_questions_document_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_accepted_questions")),
    )
    op.create_index("ix_accepted_questions_document_id", "accepted_questions", ["document_id"])
    op.create_index("ix_accepted_questions_chunk_id", "accepted_questions", ["chunk_id"])
    op.create_index("ix_accepted_questions_list", "accepted_questions", ["collection_id", "created_at", "id"])
    op.create_index(
        "ix_accepted_questions_going",
        "accepted_questions",
        ["id"],
        postgresql_where=sa.text("state = 'going'"),
    )
