"""Costs of attempts, independent of the outcome of the attempt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Self
from uuid import UUID

from shared.domain.spending.budgets import NO_TERMS, BudgetTerms
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import CostKind, Usage
from shared.ledger.budgets import holds
from shared.ledger.ledger import StoreTerms
from shared.ledger.model.estimated import unmarked
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

_BATCH_SIZE = 5_000  # rows of one transaction

SQL = statements.load(__file__)


@dataclass(frozen=True, slots=True)
class CostSum:
    """Costs of all calls of a kind to a model in a tier, for a collection with all its builds.

    Args:
        collection: name of the collection; None for deleted collections.
        is_estimated: whether the attempts have calls whose tokens are estimated.
    """

    collection: str | None
    kind: CostKind
    model: str
    tier: Tier
    usage: Usage
    calls: int
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class CostOfDay:
    """Costs of all calls of a kind to a model in a tier, for a collection on a day in UTC.

    Args:
        collection: name of the collection; None for deleted collections.
        is_estimated: whether the attempts have calls whose tokens are estimated.
    """

    day: date
    collection: str | None
    kind: CostKind
    model: str
    tier: Tier
    usage: Usage
    calls: int
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class JobCost:
    """Costs of a job's calls of a kind to a model, in a tier; `is_estimated` as in `CostSum`."""

    job_id: UUID
    kind: CostKind
    model: str
    tier: Tier
    usage: Usage
    calls: int
    is_estimated: bool = False


@dataclass(frozen=True, slots=True)
class BuildCost:
    """Costs of a build's calls of a kind to a model, in a tier; `is_estimated` as in `CostSum`."""

    build_id: UUID
    kind: CostKind
    model: str
    tier: Tier
    usage: Usage
    calls: int
    is_estimated: bool = False


class Costs:
    """The costs of all tenants.

    Args:
        database: the ledger.
        terms: prices, with which the costs of embeddings are booked in budgets.
    """

    def __init__(self, database: Database, terms: BudgetTerms = NO_TERMS) -> None:
        self._database = database
        self._terms = terms

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, terms.budgets)

    async def sums(self, tenant: str) -> list[CostSum]:
        """Return a tenant's costs by collection, kind and model."""
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.sums, {"tenant": tenant})).all()
        return [CostSum(s.collection, s.kind, **_sums(s)) for s in found]

    async def of_jobs(self, tenant: str, job_ids: Sequence[UUID]) -> list[JobCost]:
        """Return the costs of some of a tenant's jobs, by kind, model and tier."""
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.of_jobs, {"tenant": tenant, "jobs": list(job_ids)})).all()
        return [JobCost(s.job_id, s.kind, **_sums(s)) for s in found]

    async def of_builds(self, tenant: str, build_ids: Sequence[UUID]) -> list[BuildCost]:
        """Return the costs of some builds of a tenant, by kind, model and tier."""
        found = await self._database.rows(SQL.of_builds, {"tenant": tenant, "builds": list(build_ids)})
        return [BuildCost(s["collection_id"], s["kind"], **_sums(s)) for s in found]

    async def by_day(self, tenant: str, days: int) -> list[CostOfDay]:
        """Return a tenant's costs of the last `days` days including today, oldest first."""
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.days, {"tenant": tenant, "days": days})).all()
        return [CostOfDay(s.day, s.collection, s.kind, **_sums(s)) for s in found]

    async def fold(self) -> bool:
        """Add up some costs of attempts by day, and book embeddings in budgets; return whether more may be left."""
        async with self._database.begin() as connection:
            found = (await connection.execute(SQL.add_up, {"limit": _BATCH_SIZE})).all()
            if found and found[0].has_budgets:
                await holds.book(connection, [self._booked(row) for row in found if row.kind == "embed"])
        changes: int = sum(row.changes for row in found)
        return changes == _BATCH_SIZE

    def _booked(self, row: Row) -> dict[str, object]:
        model, _ = unmarked(row.model)
        money = self._terms.price_of("embed", Usage(row.prompt_tokens, row.completion_tokens), model, Tier.STANDARD)
        key = {name: getattr(row, name) for name in ("tenant", "collection_id")}
        return key | {"day": row.day.isoformat(), "money": money or 0}

    async def forget(self, age: timedelta) -> bool:
        """Delete some older attempts, but not their costs; return whether more may be left."""
        async with self._database.begin() as connection:
            forgotten: int = (
                await connection.execute(SQL.delete_old_attempts, {"age": age, "limit": _BATCH_SIZE})
            ).scalar_one()
        return forgotten > 0


def _sums(row: Row) -> dict[str, Any]:
    """Return the model, tier, tokens and calls of a row."""
    model, is_estimated = unmarked(row.model)
    usage = Usage(row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.cache_write_tokens)
    return {"model": model, "tier": Tier(row.tier), "usage": usage, "calls": row.calls, "is_estimated": is_estimated}
