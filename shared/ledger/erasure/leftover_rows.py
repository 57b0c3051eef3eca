"""Leftover rows: rows that still refer to erased data, found through PostgreSQL's catalogue.

Each table is scanned with all its columns, so that later tables and columns are included. The scan runs in slices of
pages, because transactions are shorter than a scan of a large table. Erased rows do not change, so no row moves between
slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from sqlalchemy import TextClause, text

from shared.ledger.documents.completions import UNUSED
from shared.ledger.documents.versions import STORED_IN
from shared.ledger.postgres.database import Database

_RECORD = (
    "erasures",
    "alembic_version",
    "schema_compat",
)  # the record of erasures is retained: names and numbers, no texts
_COSTS = ("spent", "spent_changes", "spent_by_day")  # a tenant's sums under the id of a deleted collection

_SLICE_PAGES = 4_000  # 32 MB: less than a second
_NO_PAGE = 2**32 - 1  # more than any table has

# List the tables with the columns that may contain a tenant's name, and their numbers of pages.
_TABLES = text("""
    SELECT t.table_name AS name,
           coalesce(array_agg(quote_ident(c.column_name)) FILTER (WHERE c.data_type = 'text'), '{}') AS texts,
           pg_relation_size(quote_ident(t.table_name)::regclass) / current_setting('block_size')::int AS pages
    FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
    WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
    GROUP BY t.table_name ORDER BY t.table_name
""")

# Find the ids that a tenant, or one of its collections, still has.
_COLLECTIONS = text("""
    SELECT id FROM collections WHERE tenant = :tenant AND (CAST(:collection AS text) IS NULL OR name = :collection)
""")

# Find the ids of a document's rows in all builds.
_DOCUMENTS = text("SELECT id FROM documents WHERE public_id = :id")

# Count a tenant's paid results that no chunk uses.
_UNUSED_COMPLETIONS = text(f"SELECT count(*) AS rows FROM completions p WHERE p.tenant = :tenant AND {UNUSED}")
_UNUSED_REPLIES = text(f"SELECT count(*) AS rows FROM paid_replies p WHERE p.tenant = :tenant AND {UNUSED}")

# Count rows under the name of a collection that does not exist.
_UNDER_NAME = {
    name: text(f"""
        SELECT count(*) AS rows FROM {name} t WHERE t.tenant = :tenant AND t.collection = :collection
        AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = t.tenant AND c.name = t.collection)
    """)
    for name in ("labelled_sets", "evaluations")
}

# The rows of some pages.
_SLICE = "t.ctid >= CAST(CAST(:first AS text) AS tid) AND t.ctid < CAST(CAST(:end AS text) AS tid)"

# Count contents and questions of deleted chunks in some pages.
_LOST = {
    name: text(f"""
        SELECT count(*) AS rows FROM {name} t
        WHERE {_SLICE} AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = t.chunk_id AND c.version = t.version)
    """)
    for name in ("chunk_contents", "chunk_questions")
}

# List the parts of packs that versions name.
_PACKS = text(f"""
    SELECT array_agg(DISTINCT upload) AS parts FROM document_versions
    WHERE strpos(upload, '#') > 0 GROUP BY {STORED_IN} ORDER BY {STORED_IN}
""")


class Remains:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def collection_ids(self, tenant: str, collection: str | None) -> list[UUID]:
        """Return the ids of builds that a tenant still has, or a collection of it."""
        async with self._database.begin() as connection:
            found = await connection.execute(_COLLECTIONS, {"tenant": tenant, "collection": collection})
            return list(found.scalars())

    async def document_ids(self, document_id: UUID) -> list[UUID]:
        """Return the ids of a document's rows in all builds."""
        async with self._database.begin() as connection:
            return list((await connection.execute(_DOCUMENTS, {"id": document_id})).scalars())

    async def rows(self, tenant: str | None, ids: Sequence[UUID], *, whole_tenant: bool) -> dict[str, int]:
        """Count rows that refer to erased data, by table.

        Args:
            tenant: the tenant.
            ids: ids of collections and documents.
            whole_tenant: whether no row may name the tenant; otherwise its costs may remain.
        """
        counts: dict[str, int] = {}
        for table in await self._database.rows(_TABLES):
            name, pages = table["name"], table["pages"]
            if name not in _RECORD and (whole_tenant or name not in _COSTS):
                statement, parameters = _named(name, table["texts"] if whole_tenant else [], tenant, ids)
                counts[name] = await self._count(statement, parameters, pages)
            if name in _LOST:
                counts[name] += await self._count(_LOST[name], {}, pages)
        if tenant is not None:
            for name, statement in (("completions", _UNUSED_COMPLETIONS), ("paid_replies", _UNUSED_REPLIES)):
                (unused,) = await self._database.rows(statement, {"tenant": tenant})
                counts[name] = max(counts[name], unused["rows"])
        return counts

    async def under_name(self, tenant: str, collection: str) -> dict[str, int]:
        """Count rows under the name of a collection that does not exist any more, by table."""
        parameters = {"tenant": tenant, "collection": collection}
        found = {name: await self._database.rows(statement, parameters) for name, statement in _UNDER_NAME.items()}
        return {name: rows[0]["rows"] for name, rows in found.items()}

    async def _count(self, statement: TextClause, parameters: Mapping[str, object], pages: int) -> int:
        """Count rows in all slices of a table."""
        count = 0
        for first in range(0, pages, _SLICE_PAGES):
            # Pages that came since belong to the last slice.
            end = first + _SLICE_PAGES if first + _SLICE_PAGES < pages else _NO_PAGE
            of_slice = {"first": f"({first},0)", "end": f"({end},0)"}
            (found,) = await self._database.rows(statement, {**parameters, **of_slice})
            count += found["rows"]
        return count

    async def packs(self) -> list[Sequence[str]]:
        """Return the parts of each pack that versions name."""
        async with self._database.begin() as connection:
            return list((await connection.execute(_PACKS)).scalars())


def _named(
    table: str, texts: Sequence[str], tenant: str | None, ids: Sequence[UUID]
) -> tuple[TextClause, dict[str, object]]:
    """The count of rows of a slice that have one of the ids anywhere, or the tenant's name in one of these columns."""
    named = "".join(f" OR t.{column} = :tenant" for column in texts)
    statement = text(f"""
        SELECT count(*) AS rows FROM {table} t
        WHERE {_SLICE} AND (CAST(t.* AS text) LIKE ANY(CAST(:ids AS text[])){named})
    """)
    parameters: dict[str, object] = {"ids": [f"%{each}%" for each in ids]}
    return statement, parameters | ({"tenant": tenant} if texts else {})
