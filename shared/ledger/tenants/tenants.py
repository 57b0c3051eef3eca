"""The tenants for the operator: numbers of rows by state, without any contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

SQL = statements.load(__file__)


@dataclass(frozen=True, slots=True)
class StateCounts:
    """The numbers of documents, pages and chunks in each state."""

    documents: dict[str, int] = field(default_factory=dict)
    pages: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)


class Tenants:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, *, after: str = "", limit: int = 50) -> Sequence[str]:
        """List the names of tenants in their order."""
        return [row["tenant"] for row in await self._database.rows(SQL.page, {"after": after, "limit": limit})]

    async def count(self) -> int:
        (row,) = await self._database.rows(SQL.count)
        return int(row["tenants"])

    async def counts(self, tenants: Sequence[str]) -> Mapping[str, StateCounts]:
        """Return the numbers of documents, pages and chunks in each state, by tenant."""
        return await self._counts(tenants)

    async def counts_of_all(self) -> StateCounts:
        """Return the numbers of documents, pages and chunks in each state, of all tenants together."""
        return (await self._counts(None)).get("", StateCounts())

    async def _counts(self, tenants: Sequence[str] | None) -> dict[str, StateCounts]:
        counts = {tenant: StateCounts() for tenant in tenants or ()}
        for row in await self._database.rows(SQL.counts, {"tenants": tenants}):
            of_tenant = counts.setdefault(row["of_tenant"], StateCounts())
            of_kind: dict[str, int] = getattr(of_tenant, row["counted"])
            of_kind[row["state"]] = row["rows"]
        return counts
