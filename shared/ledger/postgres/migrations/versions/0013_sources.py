"""Sources, their items, and the syncs that bring their documents up to date."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0013"
down_revision = "0012"
# Older code would end the job of a sync before its listing: add sources once every process runs the new code.
min_revision = "0003"


def _text(name: str, *, null: bool = False, default: str | None = None, collation: str | None = None) -> sa.Column[str]:
    return sa.Column(name, sa.Text(collation=collation), nullable=null, server_default=default)


def _time(name: str, *, now: bool = False) -> sa.Column[object]:
    default = sa.func.now() if now else None
    return sa.Column(name, sa.TIMESTAMP(timezone=True), nullable=not now, server_default=default)


def _count(name: str) -> sa.Column[int]:
    return sa.Column(name, sa.BigInteger(), nullable=False, server_default="0")


def upgrade() -> None:
    op.create_table(
        "sources",
        sa.Column("id", sa.Uuid(), nullable=False),
        _text("tenant"),
        _text("collection"),  # its name
        _text("name"),
        _text("kind"),
        _text("uri"),
        sa.Column("options", postgresql.JSONB(), nullable=False, server_default="{}"),
        _text("secret_name", null=True),
        _text("schedule", null=True),
        _text("time_zone"),
        sa.Column("max_delete_share", sa.Float(), nullable=False),
        _time("created_at", now=True),
        _time("next_at"),  # of the next scheduled sync
        _time("removed_at"),  # since when it is being removed
        sa.Column("removed_with_documents", sa.Boolean(), nullable=False, server_default=sa.false()),
        sa.PrimaryKeyConstraint("id", name="pk_sources"),
        sa.UniqueConstraint("tenant", "name", name="uq_sources_name"),
    )
    # One narrow row for each entry with a document, because a corpus may have millions. Keys are compared by their
    # bytes, as the listings of sources are sorted.
    op.create_table(
        "source_items",
        sa.Column("source_id", sa.Uuid(), nullable=False),
        _text("key", collation="C"),
        _text("version"),  # of the document's content
        _time("made_at", now=True),
        sa.Column("missing_in", sa.Integer()),  # newest sync that lacked it, even if its listing failed later
        _time("missing_from"),  # end of the first complete listing that lacked it, if none had it since
        sa.PrimaryKeyConstraint("source_id", "key", name="pk_source_items"),
    )
    op.create_index(
        "ix_source_items_missing",
        "source_items",
        ["source_id", "missing_in"],
        postgresql_where=sa.text("missing_in IS NOT NULL"),
    )
    op.create_table(
        "syncs",
        sa.Column("id", sa.Uuid(), nullable=False),  # of its job and of its run
        sa.Column("source_id", sa.Uuid(), nullable=False),
        _text("tenant"),
        _text("collection"),
        sa.Column("number", sa.Integer(), nullable=False),  # of its listing within its source
        _text("phase"),
        _text("error", null=True),
        _text("waiting", null=True),  # why it reads no more entries now
        sa.Column("approved", sa.Integer()),  # upper bound of its deletions; null without approval
        sa.Column("after", sa.Text(), nullable=False, server_default=""),  # key up to which it is saved
        *map(_count, ("seen", "created", "changed", "unchanged", "missing", "deleted", "withheld", "refused")),
        sa.Column("refused_entries", postgresql.JSONB(), nullable=False, server_default="[]"),  # the first ones
        _time("created_at", now=True),
        _time("started_at"),  # start of its listing
        _time("listed_at"),  # end of its listing
        sa.Column(
            "deletes", sa.Boolean(), nullable=False, server_default=sa.false()
        ),  # its deletions may be carried out
        _time("ended_at"),
        sa.PrimaryKeyConstraint("id", name="pk_syncs"),
        sa.UniqueConstraint("source_id", "number", name="uq_syncs_number"),
    )
