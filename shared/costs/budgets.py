"""The budgets of tenants for a day in UTC, and what the ingest has spent of them."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass

from shared.costs.prices import price
from shared.ledger.work.costs import Costs
from shared.settings import Settings

_CACHE_SECONDS = 5.0  # work begins for so long on a budget that is used up


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """What a tenant may spend on a day and has spent; None is no limit.

    Args:
        tokens_per_day: of the language model.
        cost_per_day: of the ingest, in the currency of the prices.
        tokens: spent today.
        cost: spent today. Calls whose price is unknown add nothing.
    """

    tokens_per_day: int | None
    cost_per_day: float | None
    tokens: int
    cost: float

    @property
    def used_up(self) -> bool:
        return (self.tokens_per_day is not None and self.tokens >= self.tokens_per_day) or (
            self.cost_per_day is not None and self.cost >= self.cost_per_day
        )


class Budgets:
    """What tenants have spent today, looked up in the ledger every few seconds at most.

    Args:
        settings: have the budgets and the prices.
        costs: the ledger's.
        now: monotonic seconds.
    """

    def __init__(self, settings: Settings, costs: Costs, now: Callable[[], float] = time.monotonic) -> None:
        self._settings = settings
        self._costs = costs
        self._now = now
        self._read_at = -_CACHE_SECONDS
        self._used_up: frozenset[str] = frozenset()

    async def used_up(self) -> frozenset[str]:
        """The tenants whose budget of the day is used up."""
        entries = [self._settings.limits_of_others, *map(self._settings.limits_of, self._settings.tenants_with_limits)]
        if any(limits.has_budget for limits in entries) and self._now() - self._read_at >= _CACHE_SECONDS:
            uses = await self._uses(None)
            self._used_up = frozenset(tenant for tenant, use in uses.items() if use.used_up)
            self._read_at = self._now()
        return self._used_up

    async def of(self, tenant: str) -> BudgetUse | None:
        """What a tenant may spend on a day and has spent; None where it has no budget."""
        if not self._settings.limits_of(tenant).has_budget:
            return None
        return (await self._uses(tenant)).get(tenant, self._use(tenant, 0, 0.0))

    async def _uses(self, tenant: str | None) -> dict[str, BudgetUse]:
        """What has been spent today, by tenant; of a tenant alone where one is named."""
        tokens, costs = defaultdict[str, int](int), defaultdict[str, float](float)
        for spent in await self._costs.today(tenant):
            if spent.kind == "generate":
                tokens[spent.tenant] += spent.usage.prompt_tokens + spent.usage.completion_tokens
            costs[spent.tenant] += price(self._settings, spent.kind, spent.usage, spent.model) or 0.0
        return {name: self._use(name, tokens[name], cost) for name, cost in costs.items()}

    def _use(self, tenant: str, tokens: int, cost: float) -> BudgetUse:
        limits = self._settings.limits_of(tenant)
        return BudgetUse(limits.tokens_per_day, limits.cost_per_day, tokens, cost)
