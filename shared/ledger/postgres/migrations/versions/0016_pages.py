"""Pages to be read by OCR, their texts, and the number of pages that each tenant had read on a day.

The previous release runs on this schema, because it uses none of these tables. It does not know documents in the state
`reading`, which exist only after a process of this release has found a page without a text layer.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0016"
down_revision = "0015"
min_revision = "0003"

_WAITING = "state = 'waiting'"
_LEASED = f"{_WAITING} AND leased_by IS NOT NULL"

# Count the rows of a statement by state, like documents and chunks in `schema.sql`.
_COUNT = """
    CREATE FUNCTION count_pages_{event}() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        INSERT INTO tally_changes (tenant, counted, part, state, change)
        SELECT tenant, TG_TABLE_NAME, '', state, sum(sign)
        FROM ({rows}) r
        GROUP BY tenant, state HAVING sum(sign) <> 0;
        RETURN NULL;
    END $$
"""
_TRIGGER = """
    CREATE TRIGGER count_{event} AFTER {event} ON pages REFERENCING {tables}
    FOR EACH STATEMENT EXECUTE FUNCTION count_pages_{event}()
"""
_NEW, _OLD = "SELECT *, 1 AS sign FROM new_rows", "SELECT *, -1 AS sign FROM old_rows"
_NEW_TABLE, _OLD_TABLE = "NEW TABLE AS new_rows", "OLD TABLE AS old_rows"
_EVENTS = {
    "insert": (_NEW, _NEW_TABLE),
    "update": (f"{_NEW} UNION ALL {_OLD}", f"{_NEW_TABLE} {_OLD_TABLE}"),
    "delete": (_OLD, _OLD_TABLE),
}


def _time(name: str, *, now: bool = False) -> sa.Column[object]:
    default = sa.func.now() if now else None
    return sa.Column(name, sa.TIMESTAMP(timezone=True), nullable=not now, server_default=default)


def _index(name: str, columns: list[str], where: str, *, unique: bool = False) -> None:
    op.create_index(name, "pages", columns, unique=unique, postgresql_where=sa.text(where))


def upgrade() -> None:
    _create_pages()
    _create_texts()
    # Pages that were read on a day in UTC, while a tenant's limit may apply.
    op.create_table(
        "pages_by_day",
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("day", sa.Date(), nullable=False),
        sa.Column("pages", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day", name="pk_pages_by_day"),
    )
    for event, (rows, tables) in _EVENTS.items():
        op.execute(_COUNT.format(event=event, rows=rows))
        op.execute(_TRIGGER.format(event=event, tables=tables))


def _create_pages() -> None:
    # The pages of a version without a text layer, claimed like all work: see `schema.sql`. A row is deleted with its
    # version, and refers to the text under its key until then.
    op.create_table(
        "pages",
        sa.Column("id", postgresql.UUID(), nullable=False),
        sa.Column("document_id", postgresql.UUID(), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),  # from 1
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("lane", sa.SmallInteger(), nullable=False),
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("languages", sa.Text(), nullable=False),  # joined by +
        sa.Column("state", sa.Text(), nullable=False),
        _time("due_at", now=True),
        sa.Column("attempts", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("lost_leases", sa.Integer(), nullable=False, server_default="0"),
        sa.Column("lease_token", sa.BigInteger()),
        sa.Column("leased_by", sa.Text()),
        sa.Column("error", sa.Text()),
        sa.Column("history", postgresql.JSONB(), nullable=False, server_default=sa.text("'[]'::jsonb")),
        _time("settled_at"),
        sa.PrimaryKeyConstraint("id", name="pk_pages"),
        sa.UniqueConstraint("document_id", "version", "number", name="uq_pages_number"),
        sa.ForeignKeyConstraint(
            ["document_id", "version"],
            ["document_versions.document_id", "document_versions.version"],
            name="fk_pages_version",
            ondelete="CASCADE",
        ),
    )
    _index("ix_pages_to_read", ["tenant", "lane", "due_at"], _WAITING)
    _index("ix_pages_leased", ["tenant"], _LEASED)
    _index("ix_pages_suspects", ["due_at"], f"{_WAITING} AND lost_leases > 0")
    _index("ix_pages_dead", ["tenant", "settled_at", "id"], "state = 'dead'")
    # Two workers never read the same page concurrently.
    _index("uq_pages_leased_key", ["key"], _LEASED, unique=True)
    op.create_index("ix_pages_key", "pages", ["key"])


def _create_texts() -> None:
    op.create_table(
        "page_texts",
        sa.Column("key", sa.LargeBinary(), nullable=False),
        sa.Column("tenant", sa.Text(), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("words", sa.Integer(), nullable=False),
        sa.Column("confidence", sa.Float(), nullable=False),  # 0 to 100
        _time("unused_since"),  # when the key was first found without a page; null if in use
        _time("written_at", now=True),
        sa.PrimaryKeyConstraint("key", name="pk_page_texts"),
    )
    op.create_index("ix_page_texts_tenant", "page_texts", ["tenant", "key"])
