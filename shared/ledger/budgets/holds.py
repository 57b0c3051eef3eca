"""Reservations: a claim reserves the highest cost of its calls, and the settlement replaces it by the bill.

A budget's row has the sums of its reservations (`held`) and of its bills (`spent`), and no claim lets them exceed the
limit together. A reservation is a row with the fencing token of its lease, so that each bill is booked once, whatever
the settlement and however often it is written:

- A settled or released lease: the reservation is deleted, and the bill is booked.
- A call whose bill never arrived, because it timed out or its reply broke off: the provider may have charged it, so its
  bill is estimated, as high as the reservation. If it was cancelled, the whole reservation is booked.
- A lease that has expired: the same, by the scheduler. The reservation is kept for an hour, because a late bill
  corrects it.

All functions run in the transaction of a claim or settlement, as its last statement, because they lock the rows of the
budgets, in the order of their ids. Reservations are locked first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import uuid4

from shared.domain.spending.budgets import NO_PRICE, BudgetTerms, BudgetUnit, NewBudget, Period, Reserve, SetBy
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.domain.stages.generation import ChunkToGenerate
from shared.ledger.budgets import fragments
from shared.ledger.model.estimated import unmarked
from shared.ledger.model.rows.encoding import as_json
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection

SQL = statements.load(__file__, fragments.FRAGMENTS, no_price=str(NO_PRICE))


@dataclass(frozen=True, slots=True)
class Bill:
    """The bill of an attempt.

    Args:
        token: fencing token of its lease.
        model: the language model; None if no call was billed.
        usage: tokens billed.
        tier: tier of the replies.
        is_incomplete: whether the bill of a call never arrived.
    """

    token: int
    model: str | None = None
    usage: Usage = Usage()
    tier: Tier = Tier.STANDARD
    is_incomplete: bool = False


async def hold(
    connection: Connection, terms: BudgetTerms, calls: Sequence[tuple[ChunkToGenerate, Reserve]]
) -> set[int]:
    """Reserve the highest cost of calls in every budget that covers them, in this order, as many as fit.

    Returns:
        The tokens of the other calls.
    """
    tenants = {chunk.tenant for chunk, _ in calls}
    configured = [{"tenant": tenant, "unit": unit} for tenant in tenants for unit in terms.limits_of(tenant)]
    parameters = {"calls": as_json(_call_rows(terms, calls)), "configured": as_json(configured)}
    found = (await connection.execute(SQL.hold, parameters)).all()
    if missing := {row.tenant for row in found if row.tenant is not None}:
        await _add_configured(connection, terms, missing)
        found = (await connection.execute(SQL.hold, parameters)).all()
    return {row.token for row in found}


def _call_rows(terms: BudgetTerms, calls: Iterable[tuple[ChunkToGenerate, Reserve]]) -> list[dict[str, object]]:
    return [
        {
            "position": position,
            "token": chunk.lease.token,
            "chunk_id": chunk.lease.id,
            "version": chunk.lease.version,
            "tenant": chunk.tenant,
            "document_id": chunk.document_id,
            "tokens": reserve.usage.prompt_tokens + reserve.usage.completion_tokens,
            "money": _highest_price(terms, reserve),
        }
        for position, (chunk, reserve) in enumerate(calls)
    ]


def _highest_price(terms: BudgetTerms, reserve: Reserve) -> int | None:
    """Return the price of a call in the standard tier; None if unknown.

    Some providers charge more for a prompt that is written to their cache.
    """
    usages = (reserve.usage, replace(reserve.usage, cache_write_tokens=reserve.usage.prompt_tokens))
    prices = [terms.price_of("generate", usage, reserve.model, Tier.STANDARD) for usage in usages]
    known = [price for price in prices if price is not None]
    return max(known) if len(known) == len(prices) else None


async def renew(connection: Connection, terms: BudgetTerms, bill: Bill, following: Reserve | None) -> bool:
    """Book the bill of an attempt until now, and reserve its next call; return whether that fits.

    Args:
        connection: connection of the transaction.
        terms: prices.
        bill: bill of the attempt until now.
        following: highest use of the next call; None if there will be none.
    """
    usage = Usage() if following is None else following.usage
    parameters = {
        **_bill_row(terms, bill),
        "next_tokens": usage.prompt_tokens + usage.completion_tokens,
        "next_money": 0 if following is None else _highest_price(terms, following),
    }
    fits: bool = (await connection.execute(SQL.renew, parameters)).scalar_one()
    return fits


async def settle(connection: Connection, terms: BudgetTerms, bills: Iterable[Bill]) -> None:
    """Replace the reservations of ended leases by their bills."""
    rows = [_bill_row(terms, bill) | {"incomplete": bill.is_incomplete} for bill in bills]
    if rows:
        await connection.execute(SQL.settle, {"rows": as_json(rows)})


def _bill_row(terms: BudgetTerms, bill: Bill) -> dict[str, object]:
    money = 0 if bill.model is None else terms.price_of("generate", bill.usage, bill.model, bill.tier)
    tokens = bill.usage.prompt_tokens + bill.usage.completion_tokens
    return {"token": bill.token, "tokens": tokens, "money": money}


async def _add_configured(connection: Connection, terms: BudgetTerms, tenants: Collection[str]) -> None:
    """Insert the daily budgets of tenants that the settings contain and the ledger does not, with today's costs."""
    for tenant in sorted(tenants):
        for unit, most in sorted(terms.limits_of(tenant).items()):
            new = NewBudget(tenant, None, None, Period.DAY, unit, SetBy.SETTINGS, most)
            parameters = row_of(new) | {"spent": await spent_before(connection, terms, new)}
            await connection.execute(SQL.insert, parameters)


async def spent_before(connection: Connection, terms: BudgetTerms, new: NewBudget) -> int:
    """Return the amount spent in the current period before a budget is set; total budgets and jobs start with 0."""
    if new.period is Period.TOTAL or new.job_id is not None:
        return 0
    parameters = {"tenant": new.tenant, "collection": new.collection, "period": new.period}
    amount = 0
    for row in (await connection.execute(SQL.spent_before, parameters)).all():
        usage = Usage(row.prompt_tokens, row.completion_tokens, row.cached_tokens, row.cache_write_tokens)
        if new.unit is BudgetUnit.MONEY:
            model, _ = unmarked(row.model)
            amount += terms.price_of(row.kind, usage, model, Tier(row.tier)) or 0
        elif row.kind == "generate":
            amount += usage.prompt_tokens + usage.completion_tokens
    return amount


def row_of(new: NewBudget) -> dict[str, object]:
    """Return the columns of a budget to insert."""
    return {
        "id": uuid4(),
        "tenant": new.tenant,
        "collection": new.collection,
        "job_id": new.job_id,
        "period": new.period,
        "unit": new.unit,
        "set_by": new.set_by,
        "most": new.most,
    }


async def book(connection: Connection, rows: Sequence[Mapping[str, object]]) -> None:
    """Book costs that reserved nothing, in money budgets.

    Args:
        connection: connection of the transaction.
        rows: costs as `{"tenant", "collection_id", "day", "money"}`.
    """
    if rows:
        await connection.execute(SQL.book, {"rows": as_json(rows)})
