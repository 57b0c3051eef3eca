"""Remains: rows that still name something which was erased, found by the catalogue of PostgreSQL.

Each table is looked at whole, whatever columns it has, so that one of later times is not forgotten.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.ledger.completions import UNUSED
from shared.ledger.database import Database
from shared.ledger.versions import STORED_IN

_RECORD = ("erasures", "alembic_version")  # the record of what was erased stays: names and numbers, no texts
_COSTS = ("spent", "spent_changes", "spent_by_day")  # a tenant's sums, under the id of a collection that is gone

# List the tables, each with those columns that may have a tenant's name.
_TABLES = text("""
    SELECT t.table_name AS name,
           coalesce(array_agg(quote_ident(c.column_name)) FILTER (WHERE c.data_type = 'text'), '{}') AS texts
    FROM information_schema.tables t JOIN information_schema.columns c USING (table_schema, table_name)
    WHERE t.table_schema = current_schema() AND t.table_type = 'BASE TABLE'
    GROUP BY t.table_name ORDER BY t.table_name
""")

# Find the ids of what a tenant still has, or a collection of it.
_COLLECTIONS = text("""
    SELECT id FROM collections WHERE tenant = :tenant AND (CAST(:collection AS text) IS NULL OR name = :collection)
""")

# Find the ids under which builds still have a document.
_DOCUMENTS = text("SELECT id FROM documents WHERE public_id = :id")

# Count what is paid for a tenant and used by no chunk.
_UNUSED_COMPLETIONS = text(f"SELECT count(*) FROM completions p WHERE p.tenant = :tenant AND {UNUSED}")
_UNUSED_REPLIES = text(f"SELECT count(*) FROM paid_replies p WHERE p.tenant = :tenant AND {UNUSED}")

# Count what chunks said or were asked that are not there any more.
_LOST_CONTENTS = text("""
    SELECT count(*) FROM (SELECT chunk_id, version FROM chunk_contents UNION ALL
                          SELECT chunk_id, version FROM chunk_questions) t
    WHERE NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = t.chunk_id AND c.version = t.version)
""")

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
        """Return the ids under which builds still have a document."""
        async with self._database.begin() as connection:
            return list((await connection.execute(_DOCUMENTS, {"id": document_id})).scalars())

    async def rows(self, tenant: str | None, ids: Sequence[UUID], *, whole_tenant: bool) -> dict[str, int]:
        """Count rows that name what was erased, by table.

        Args:
            tenant: whose it was.
            ids: of collections and of documents.
            whole_tenant: whether no row may name the tenant; else what it has cost may stay.
        """
        counts: dict[str, int] = {}
        async with self._database.begin() as connection:
            for name, texts in (await connection.execute(_TABLES)).all():
                if name not in _RECORD and (whole_tenant or name not in _COSTS):
                    counts[name] = await _count(connection, name, texts if whole_tenant else [], tenant, ids)
            if tenant is not None:
                for name, statement in (("completions", _UNUSED_COMPLETIONS), ("paid_replies", _UNUSED_REPLIES)):
                    unused: int = (await connection.execute(statement, {"tenant": tenant})).scalar_one()
                    counts[name] = max(counts[name], unused)
            lost: int = (await connection.execute(_LOST_CONTENTS)).scalar_one()
            counts["chunk_contents"] += lost
        return counts

    async def packs(self) -> list[Sequence[str]]:
        """Return the parts of each pack that versions name."""
        async with self._database.begin() as connection:
            return list((await connection.execute(_PACKS)).scalars())


async def _count(
    connection: AsyncConnection, table: str, texts: Sequence[str], tenant: str | None, ids: Sequence[UUID]
) -> int:
    """Count the rows of a table that have one of the ids anywhere, or the tenant's name in one of these columns."""
    named = "".join(f" OR t.{column} = :tenant" for column in texts)
    statement = text(f"SELECT count(*) FROM {table} t WHERE CAST(t.* AS text) LIKE ANY(CAST(:ids AS text[])){named}")
    parameters: dict[str, object] = {"ids": [f"%{each}%" for each in ids]}
    if texts:
        parameters["tenant"] = tenant
    count: int = (await connection.execute(statement, parameters)).scalar_one()
    return count
