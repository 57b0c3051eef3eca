"""Budgets of the ingest: a limit on the tokens or the cost of a tenant, a collection or a job, in a period."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final
from uuid import UUID

from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import CostKind, Usage

BILLIONTHS: Final = 1_000_000_000  # of the currency of the prices, in which the ledger counts money
NO_PRICE: Final = 2**53  # the cost of a call with an unknown price: more than any budget has


class Period(StrEnum):
    """The time after which a budget starts again, in UTC."""

    DAY = "day"
    MONTH = "month"
    TOTAL = "total"  # never


class BudgetUnit(StrEnum):
    """The limited quantity: tokens of the language model, or the cost of its calls and of the embeddings."""

    TOKENS = "tokens"
    MONEY = "money"


class SetBy(StrEnum):
    """The source of a budget. All budgets of a call apply, so a tenant cannot raise a budget of the other two."""

    SETTINGS = "settings"
    OPERATOR = "operator"
    TENANT = "tenant"


@dataclass(frozen=True, slots=True)
class NewBudget:
    """A budget to set.

    Args:
        tenant: tenant of the budget.
        collection: name of its collection, which need not exist yet; None if it is not limited to one.
        job_id: id of its job; None if it is not limited to one.
        period: time after which it starts again.
        unit: unit of `most`.
        set_by: source of the budget.
        most: the limit, in tokens or in billionths of the currency.
    """

    tenant: str
    collection: str | None
    job_id: UUID | None
    period: Period
    unit: BudgetUnit
    set_by: SetBy
    most: int


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget and its use; amounts are tokens or billionths of the currency.

    Args:
        id: its id.
        tenant: tenant of the budget.
        collection: name of its collection; None if it is not limited to one.
        job_id: id of its job; None if it is not limited to one.
        period: time after which it starts again.
        unit: unit of the amounts.
        set_by: source of the budget.
        most: the limit.
        spent: amount billed in the current period.
        held: amount reserved for calls in flight.
        needs: amount that the next call reserves, as far as known.
        ends_at: end of the current period; None if it never ends.
    """

    id: UUID
    tenant: str
    collection: str | None
    job_id: UUID | None
    period: Period
    unit: BudgetUnit
    set_by: SetBy
    most: int
    spent: int
    held: int
    needs: int
    ends_at: datetime | None

    @property
    def is_exhausted(self) -> bool:
        """Whether no call fits any more, even if the calls in flight cost nothing."""
        return self.spent + self.needs > self.most

    def covers(self, collection: str | None, job_id: UUID | None) -> bool:
        """Return whether it limits the calls for documents of a collection and a job."""
        return self.collection in (None, collection) and self.job_id in (None, job_id)

    def shown(self, amount: int) -> float:
        """Return an amount in tokens, or in the currency of the prices."""
        return amount / BILLIONTHS if self.unit is BudgetUnit.MONEY else amount

    @property
    def name(self) -> str:
        """Return the budget as a noun, such as `the monthly budget of 300 for the collection 'handbook'`."""
        amount = f"{self.shown(self.most):,.8g}" if self.unit is BudgetUnit.MONEY else f"{self.most:,} tokens"
        period = {Period.DAY: "daily", Period.MONTH: "monthly", Period.TOTAL: "total"}[self.period]
        scope = "" if self.collection is None else f" for the collection '{self.collection}'"
        scope += "" if self.job_id is None else f" for the job {self.job_id}"
        return f"the {period} budget of {amount}{scope}"

    @property
    def notice(self) -> str | None:
        """Return the effect of an exhausted budget as a sentence; None while it is not exhausted."""
        if not self.is_exhausted:
            return None
        raised = "until it is raised" if self.set_by is not SetBy.SETTINGS else "until the setting is raised"
        until = raised if self.ends_at is None else f"until {self.ends_at:%Y-%m-%d} in UTC, or {raised}"
        cause = f"{self.name[0].upper()}{self.name[1:]} is used up"
        if self.needs >= NO_PRICE:
            cause = f"The price of the language model is unknown, and {self.name} needs it"
        return f"{cause}: no questions are generated {until}. Until then, documents are found by their texts."


@dataclass(frozen=True, slots=True)
class Reserve:
    """The highest possible use of the next call.

    Args:
        model: the language model.
        usage: its tokens.
    """

    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class BudgetTerms:
    """The part of the settings in budgets.

    Args:
        limits_of: returns the daily budgets of a tenant in the settings.
        price_of: returns the price of calls of a kind with a model in a tier, in billionths of the currency; None if
            unknown.
    """

    limits_of: Callable[[str], Mapping[BudgetUnit, int]]
    price_of: Callable[[CostKind, Usage, str, Tier], int | None]


NO_TERMS = BudgetTerms(lambda _: {}, lambda *_: None)
