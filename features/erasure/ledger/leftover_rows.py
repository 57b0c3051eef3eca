"""Leftover rows: rows that still refer to erased data, found through PostgreSQL's catalogue.

Each table is scanned with all its columns, so that later tables and columns are included. The scan runs in slices of
pages, because transactions are shorter than a scan of a large table. Erased rows do not change, so no row moves between
slices.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from uuid import UUID

from features.erasure.ledger import searches
from shared.ledger.documents.versions import IS_REFERENCE, STORED_IN
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

_RECORD = (
    "erasures",
    "alembic_version",
    "schema_compat",
)  # the record of erasures is retained: names and numbers, no texts
_WITH_TEXTS = ("page_pictures",)  # PostgreSQL deletes these large rows with their texts; they have no ids or names
_COSTS = ("spent", "spent_changes", "spent_by_day")  # a tenant's sums under the id of a deleted collection

_SLICE_PAGES = 4_000  # 32 MB: less than a second
_NO_PAGE = 2**32 - 1  # more than any table has

_SLICE = "t.ctid >= CAST(CAST(:first AS text) AS tid) AND t.ctid < CAST(CAST(:end AS text) AS tid)"  # some pages
_HAS_ID = "CAST(t.* AS text) LIKE ANY(CAST(:ids AS text[]))"


def _under_name(table: str) -> str:
    return f"""SELECT count(*) AS rows FROM {table} t WHERE t.tenant = :tenant AND t.collection = :collection
        AND NOT EXISTS (SELECT 1 FROM collections c WHERE c.tenant = t.tenant AND c.name = t.collection)"""


SQL = statements.load(
    __file__,
    slice=_SLICE,
    under_name=_under_name,
    stored_in=STORED_IN,
    is_reference=IS_REFERENCE,
)

_UNDER_NAME = {
    "job_claims": SQL.job_claims_under_name,
    "jobs": SQL.jobs_under_name,
    "disabled_questions": SQL.disabled_questions_under_name,
}
_WITHOUT_CHUNK = {"chunk_contents": SQL.contents_without_chunk, "chunk_questions": SQL.questions_without_chunk}


class LeftoverRows:
    """Finds leftover rows.

    Args:
        database: the database.
        features: tables of features.
    """

    def __init__(self, database: Database, features: Iterable[ErasedTable]) -> None:
        self._database = database
        of_features = {table.name: table.under_name for table in features if table.under_name is not None}
        self._under_name = _UNDER_NAME | of_features

    async def collection_ids(self, tenant: str, collection: str | None) -> list[UUID]:
        """Return the ids of builds that a tenant still has, or a collection of it."""
        async with self._database.begin() as connection:
            found = await connection.execute(SQL.collections, {"tenant": tenant, "collection": collection})
            return list(found.scalars())

    async def document_ids(self, document_id: UUID) -> list[UUID]:
        """Return the ids of a document's rows in all builds."""
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.documents, {"id": document_id})).scalars())

    async def rows(self, tenant: str | None, ids: Sequence[UUID], *, whole_tenant: bool) -> dict[str, int]:
        """Count rows that refer to erased data, by table.

        Args:
            tenant: the tenant.
            ids: ids of collections and documents.
            whole_tenant: whether no row may name the tenant; otherwise its costs may remain.
        """
        counts: dict[str, int] = {}
        for table in await self._database.rows(SQL.tables):
            name, pages = table["name"], table["pages"]
            if name not in (*_RECORD, *_WITH_TEXTS) and (whole_tenant or name not in _COSTS):
                statement, parameters = _named(name, table["texts"] if whole_tenant else [], tenant, ids)
                counts[name] = await self._count(statement, parameters, pages)
            if name in _WITHOUT_CHUNK:
                counts[name] += await self._count(_WITHOUT_CHUNK[name], {}, pages)
        if tenant is not None:
            for name in searches.PAID:
                counts[name] = max(counts[name], await self._unused(name, tenant))
        return counts

    async def under_name(self, tenant: str, collection: str) -> dict[str, int]:
        """Count rows under the name of a collection that does not exist any more, by table."""
        parameters = {"tenant": tenant, "collection": collection}
        found = {name: await self._database.rows(statement, parameters) for name, statement in self._under_name.items()}
        return {name: rows[0]["rows"] for name, rows in found.items()}

    async def _count(self, statement: Statement, parameters: Mapping[str, object], pages: int) -> int:
        """Count rows in all slices of a table."""
        count = 0
        for first in range(0, pages, _SLICE_PAGES):
            # Pages that were added since belong to the last slice.
            end = first + _SLICE_PAGES if first + _SLICE_PAGES < pages else _NO_PAGE
            of_slice = {"first": f"({first},0)", "end": f"({end},0)"}
            (found,) = await self._database.rows(statement, {**parameters, **of_slice})
            count += found["rows"]
        return count

    async def _unused(self, table: str, tenant: str) -> int:
        """Count a tenant's paid rows that nothing uses, in slices."""
        count, after = 0, b""
        while True:
            async with self._database.begin() as connection:
                unused, last = await searches.count_unused(connection, table, tenant, after)
            if last is None:
                return count
            count, after = count + unused, last

    async def packs(self) -> list[Sequence[str]]:
        """Return the parts of each pack that versions name."""
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.packs)).scalars())


def _named(
    table: str, texts: Sequence[str], tenant: str | None, ids: Sequence[UUID]
) -> tuple[Statement, dict[str, object]]:
    """Return the count of a slice's rows that contain one of the ids, or the tenant's name in one of these columns."""
    named = "".join(f" OR t.{column} = :tenant" for column in texts)
    statement = Statement(f"SELECT count(*) AS rows FROM {table} t WHERE {_SLICE} AND ({_HAS_ID}{named})")
    parameters: dict[str, object] = {"ids": [f"%{each}%" for each in ids]}
    return statement, parameters | ({"tenant": tenant} if texts else {})
