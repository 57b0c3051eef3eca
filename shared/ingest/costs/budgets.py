"""Daily budgets of tenants in UTC, and the costs of their ingest."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from shared.ingest.costs.prices import PriceOf
from shared.ledger.work.costs import Costs

_CACHE_SECONDS = 5.0  # delay after which a used-up budget stops new work


@dataclass(frozen=True, slots=True)
class Budget:
    """A daily budget; None means unlimited.

    Args:
        tokens_per_day: tokens of the language model.
        cost_per_day: cost of the ingest, in the currency of the prices.
    """

    tokens_per_day: int | None = None
    cost_per_day: float | None = None

    @property
    def is_limited(self) -> bool:
        return self.tokens_per_day is not None or self.cost_per_day is not None


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A tenant's daily budget and today's costs; None means unlimited.

    Args:
        tokens_per_day: tokens of the language model.
        cost_per_day: cost of the ingest, in the currency of the prices.
        tokens: tokens spent today.
        cost: cost of today, without calls with unknown prices.
        unpriced_calls: number of calls of today with unknown prices.
    """

    tokens_per_day: int | None
    cost_per_day: float | None
    tokens: int
    cost: float
    unpriced_calls: int = 0

    @property
    def used_up(self) -> bool:
        return (self.tokens_per_day is not None and self.tokens >= self.tokens_per_day) or (
            self.cost_per_day is not None and self.cost >= self.cost_per_day
        )


class Budgets:
    """Today's costs of tenants, read from the ledger at most every few seconds.

    Args:
        costs: costs in the ledger.
        price_of: prices of calls.
        tenants: budgets by tenant.
        others: budget of each other tenant.
        now: clock in monotonic seconds.
    """

    def __init__(
        self,
        costs: Costs,
        price_of: PriceOf,
        tenants: Mapping[str, Budget],
        others: Budget,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._costs = costs
        self._price_of = price_of
        self._tenants = tenants
        self._others = others
        self._now = now
        self._read_at = -_CACHE_SECONDS
        self._used_up: frozenset[str] = frozenset()

    async def used_up(self) -> frozenset[str]:
        """Return the tenants with a used-up budget."""
        budgets = [self._others, *self._tenants.values()]
        if any(budget.is_limited for budget in budgets) and self._now() - self._read_at >= _CACHE_SECONDS:
            uses = await self._uses(None)
            self._used_up = frozenset(tenant for tenant, use in uses.items() if use.used_up)
            self._read_at = self._now()
        return self._used_up

    async def of(self, tenant: str) -> BudgetUse | None:
        """Return a tenant's budget and today's costs; None without a budget."""
        if not self._tenants.get(tenant, self._others).is_limited:
            return None
        return (await self._uses(tenant)).get(tenant, self._use(tenant, 0, 0.0, 0))

    async def _uses(self, tenant: str | None) -> dict[str, BudgetUse]:
        """Return today's costs by tenant, of all tenants or of one."""
        tokens, costs = defaultdict[str, int](int), defaultdict[str, float](float)
        unpriced = defaultdict[str, int](int)
        for spent in await self._costs.today(tenant):
            if spent.kind == "generate":
                tokens[spent.tenant] += spent.usage.prompt_tokens + spent.usage.completion_tokens
            price = self._price_of(spent.kind, spent.usage, spent.model, spent.tier)
            costs[spent.tenant] += price or 0.0
            unpriced[spent.tenant] += spent.calls if price is None else 0
        return {name: self._use(name, tokens[name], cost, unpriced[name]) for name, cost in costs.items()}

    def _use(self, tenant: str, tokens: int, cost: float, unpriced_calls: int) -> BudgetUse:
        budget = self._tenants.get(tenant, self._others)
        return BudgetUse(budget.tokens_per_day, budget.cost_per_day, tokens, cost, unpriced_calls)
