"""Budgets: set, listed and deleted by people; repaired and kept by the scheduler."""

from __future__ import annotations

from datetime import timedelta
from typing import Self
from uuid import UUID

from shared.domain.errors import Conflict, NotFound
from shared.domain.spending.budgets import NO_TERMS, Budget, BudgetTerms, BudgetUnit, NewBudget, Period, SetBy
from shared.ledger.budgets import fragments, holds
from shared.ledger.ledger import StoreTerms
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.postgres.records import record

_SLICE = 500  # reservations of one transaction
_FORGET_AFTER = timedelta(hours=1)  # a bill is late by seconds, or by the time that a machine was suspended

SQL = statements.load(__file__, fragments.FRAGMENTS)


class Budgets:
    """The budgets of all tenants.

    Args:
        database: the ledger.
        terms: the part of the settings.
    """

    def __init__(self, database: Database, terms: BudgetTerms = NO_TERMS) -> None:
        self._database = database
        self._terms = terms

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, terms.budgets)

    async def for_tenant(self, tenant: str) -> list[Budget]:
        """Return the budgets of a tenant, of the whole tenant first.

        A budget of the settings is included once the tenant has generated questions.
        """
        return [record(Budget, row) for row in await self._database.rows(SQL.list, {"tenant": tenant})]

    async def set(self, new: NewBudget) -> Budget:
        """Set a budget, or the limit of the budget with the same scope, period, unit and source.

        A new daily or monthly budget counts the costs of its current period. A new total budget starts with 0, and so
        does the budget of a job.

        Raises:
            Conflict: the limit is below the spent and reserved amounts.
            NotFound: the tenant has no such job.
        """
        async with self._database.begin() as connection:
            parameters = holds.row_of(new)
            if new.job_id is not None and not (await connection.execute(SQL.has_job, parameters)).scalar_one():
                raise NotFound(f"There is no job {new.job_id}. GET /v1/jobs lists the jobs.")
            found = (await connection.execute(SQL.find, parameters)).one_or_none()
            spent = await holds.spent_before(connection, self._terms, new) if found is None else 0
            row = None
            if spent <= new.most:
                row = (await connection.execute(SQL.set, parameters | {"spent": spent})).one_or_none()
            if row is None:
                found = (await connection.execute(SQL.find, parameters)).one_or_none()
                raise _below(new, spent if found is None else found["spent"], 0 if found is None else found["held"])
        return record(Budget, row)

    @again_after_collision
    async def delete(self, tenant: str, budget_id: UUID, set_by: SetBy) -> None:
        """Delete a budget with its reservations.

        Raises:
            NotFound: the tenant has no budget of that id and source.
        """
        parameters = {"tenant": tenant, "id": budget_id, "set_by": set_by}
        if not await self._database.rows(SQL.delete, parameters):
            raise NotFound(f"There is no budget {budget_id} that you may delete. GET /v1/budgets lists the budgets.")

    async def count(self) -> dict[Period, tuple[int, int]]:
        """Return the number of budgets and of exhausted ones, by period."""
        found = {
            row["period"]: (row["budgets"], row["exhausted"]) for row in await self._database.rows(SQL.count_exhausted)
        }
        return {period: found.get(period, (0, 0)) for period in Period}

    async def follow_settings(self) -> None:
        """Give the budgets of the settings their current limits, and let exhausted budgets try one claim again.

        A claim inserts missing ones.
        """
        found = await self._database.rows(SQL.of_settings)
        limits = {row["id"]: self._terms.limits_of(row["tenant"]).get(BudgetUnit(row["unit"])) for row in found}
        changed = {row["id"]: limit for row in found if (limit := limits[row["id"]]) not in (None, row["most"])}
        removed = [budget_id for budget_id, limit in limits.items() if limit is None]
        async with self._database.begin() as connection:
            if changed:
                await connection.execute(SQL.change_limits, {"ids": list(changed), "limits": list(changed.values())})
            if removed:
                await connection.execute(SQL.delete_of_settings, {"ids": removed})
            await connection.execute(SQL.try_again)

    async def book_lost(self) -> bool:
        """Book some reservations whose leases have expired; return whether more may be left."""
        async with self._database.begin() as connection:
            lost: int = (await connection.execute(SQL.book_lost, {"limit": _SLICE})).scalar_one()
        return lost == _SLICE

    async def forget(self) -> None:
        """Delete reservations that were booked so long ago that no bill arrives any more."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.forget, {"age": _FORGET_AFTER})


def _below(new: NewBudget, spent: int, held: int) -> Conflict:
    shown = [f"{amount:,} tokens" for amount in (spent, held)]
    if new.unit is BudgetUnit.MONEY:
        shown = [f"{amount / 1e9:,.8g}" for amount in (spent, held)]
    return Conflict(
        f"This budget has spent {shown[0]} and reserved {shown[1]} for calls in flight: the limit cannot be below their"
        " sum.",
        field="limit",
    )
