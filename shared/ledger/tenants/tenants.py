"""The tenants for the operator: numbers of rows by state, without any contents."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from sqlalchemy import text

from shared.ledger.postgres.database import Database

# List the tenants in order of name: each has a collection.
_PAGE = text("SELECT DISTINCT tenant FROM collections WHERE tenant > :after ORDER BY tenant LIMIT :limit")

# Count the tenants.
_COUNT = text("SELECT count(DISTINCT tenant) AS tenants FROM collections")

# Count the documents and chunks of some tenants by state; of all tenants together if none is named.
_COUNTS = text("""
    SELECT CASE WHEN CAST(:tenants AS text[]) IS NULL THEN '' ELSE tenant END AS whose, counted, state,
           sum(rows)::bigint AS rows
    FROM (SELECT tenant, counted, state, rows FROM tallies
          UNION ALL SELECT tenant, counted, state, change FROM tally_changes) t
    WHERE CAST(:tenants AS text[]) IS NULL OR tenant = ANY(:tenants)
    GROUP BY whose, counted, state HAVING sum(rows) <> 0
""")


@dataclass(frozen=True, slots=True)
class StateCounts:
    """How many documents and chunks are in each state."""

    documents: dict[str, int] = field(default_factory=dict)
    chunks: dict[str, int] = field(default_factory=dict)


class Tenants:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(self, *, after: str = "", limit: int = 50) -> Sequence[str]:
        """List the names of tenants in their order."""
        return [row["tenant"] for row in await self._database.rows(_PAGE, {"after": after, "limit": limit})]

    async def count(self) -> int:
        (row,) = await self._database.rows(_COUNT)
        return int(row["tenants"])

    async def counts(self, tenants: Sequence[str]) -> Mapping[str, StateCounts]:
        """Return how many documents and chunks of each state these tenants have."""
        return await self._counts(tenants)

    async def counts_of_all(self) -> StateCounts:
        """Return how many documents and chunks of each state all tenants have together."""
        return (await self._counts(None)).get("", StateCounts())

    async def _counts(self, tenants: Sequence[str] | None) -> dict[str, StateCounts]:
        counts = {tenant: StateCounts() for tenant in tenants or ()}
        for row in await self._database.rows(_COUNTS, {"tenants": tenants}):
            of_tenant = counts.setdefault(row["whose"], StateCounts())
            of_kind = of_tenant.documents if row["counted"] == "documents" else of_tenant.chunks
            of_kind[row["state"]] = row["rows"]
        return counts
