"""Requests and replies of budgets."""

from __future__ import annotations

from datetime import datetime
from typing import Literal, Self
from uuid import UUID

from pydantic import Field, model_validator

from shared.http.schemas.common import BodyModel, CollectionName, ReplyModel, example, example_of

_MOST_TOKENS = 10**15
_MOST_MONEY = 1_000_000  # of the currency of the prices

PeriodName = Literal["day", "month", "total"]
UnitName = Literal["tokens", "money"]


class BudgetBody(BodyModel):
    """A budget to set. Without a collection and a job it covers the whole tenant."""

    model_config = example(collection="handbook", job_id=None, period="month", unit="money", limit=300.0)

    collection: CollectionName | None = Field(None, description="Name of a collection, which need not exist yet")
    job_id: UUID | None = Field(None, strict=False, description="Id of a job")
    period: PeriodName = Field(
        description="Time after which the budget starts again, in UTC: at midnight, on the first of a month, or never"
    )
    unit: UnitName = Field(
        description="`tokens` of the language model, or `money`: the cost of its calls and of the embeddings, in the"
        " currency of the prices"
    )
    limit: float = Field(gt=0, le=_MOST_TOKENS, description="Maximum in a period; a whole number of tokens")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.collection is not None and self.job_id is not None:
            raise ValueError("a budget has a collection or a job, not both")
        if self.unit == "tokens" and self.limit != int(self.limit):
            raise ValueError("a limit of tokens is a whole number")
        if self.unit == "money" and self.limit > _MOST_MONEY:
            raise ValueError(f"a limit of money is at most {_MOST_MONEY:,}")
        return self


class BudgetView(ReplyModel):
    """A budget and its use in the current period."""

    model_config = example(
        id="8a5d0c3e-51c8-4f6e-9a3b-2b7b8f0c9d11",
        collection="handbook",
        job_id=None,
        period="month",
        unit="money",
        set_by="tenant",
        limit=300.0,
        spent=118.42,
        reserved=0.31,
        exhausted=False,
        ends_at="2026-11-01T00:00:00Z",
        notice=None,
    )

    id: UUID
    collection: str | None = Field(description="Name of its collection; null if it is not limited to one")
    job_id: UUID | None = Field(description="Id of its job; null if it is not limited to one")
    period: PeriodName
    unit: UnitName
    set_by: Literal["settings", "operator", "tenant"] = Field(
        description="Its source: FOREASK_TENANT_LIMITS, an operator, or a key of the tenant. All of them apply"
    )
    limit: float = Field(description="Tokens, or money in the currency of the prices, like the next two")
    spent: float = Field(description="Amount billed in the current period")
    reserved: float = Field(description="Highest possible amount of the calls in flight")
    exhausted: bool = Field(validation_alias="is_exhausted", description="Whether no further call fits")
    ends_at: datetime | None = Field(description="End of the current period; null if it never ends")
    notice: str | None = Field(description="Effect of an exhausted budget; null while the budget is not exhausted")


class BudgetList(ReplyModel):
    model_config = example(items=[example_of(BudgetView)])

    items: list[BudgetView] = Field(description="Budgets of the whole tenant first")
