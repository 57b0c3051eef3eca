"""Daily budgets of queries, of a tenant and of a key, in UTC.

Each process adds the spending of its queries to sums in Valkey, in the background, and reads a sum at most every few
seconds. So a query waits for at most one short call to Valkey, and a used-up budget may be exceeded by the queries of
those seconds. While Valkey is unavailable, each process counts for itself.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import partial
from uuid import UUID

from shared.broker.tenant_use import TenantUse, until_tomorrow
from shared.domain.access.keys import KeyLimits
from shared.domain.errors import Conflict
from shared.domain.spending.usage import CostKind, Usage
from shared.http.problems import TooManyRequests
from shared.ingest.prices import PriceOf
from shared.query.metering import report_to
from shared.settings import Settings

_READ_SECONDS = 5.0  # delay after which other processes' queries count here
_MOST = 10_000


@dataclass(frozen=True, slots=True)
class QueryBudget:
    """A daily budget of queries; None means unlimited.

    Args:
        tokens_per_day: tokens of all models.
        cost_per_day: cost in the currency of the prices.
    """

    tokens_per_day: int | None = None
    cost_per_day: float | None = None

    @property
    def is_limited(self) -> bool:
        return self.tokens_per_day is not None or self.cost_per_day is not None


@dataclass(slots=True)
class _Account:
    """A budget, and the spending of a day.

    Args:
        owner: the tenant, or the tenant and the key.
        kind: word for the owner in messages.
        unsent: tokens of this process that are not in Valkey yet, by kind of the calls and model.
        read_at: time of the last read of the sums, in monotonic seconds; None: never.
        unpriced: a called model whose price is unknown; None if there was none.
    """

    owner: str
    kind: str
    budget: QueryBudget
    day: date
    tokens: int = 0
    cost: float = 0.0
    unsent: dict[tuple[CostKind, str], Usage] = field(default_factory=lambda: defaultdict(Usage))
    read_at: float | None = None
    unpriced: str | None = None

    def require_left(self) -> None:
        """Check that the budget is not used up.

        Raises:
            TooManyRequests: the budget is used up.
            Conflict: the budget is in money, and a called model has no price.
        """
        unsent = sum(usage.prompt_tokens + usage.completion_tokens for usage in self.unsent.values())
        tokens, cost = self.budget.tokens_per_day, self.budget.cost_per_day
        if tokens is not None and self.tokens + unsent >= tokens:
            raise _used_up(f"{tokens:,} tokens", self.kind)
        if cost is not None and self.cost >= cost:
            raise _used_up(f"{cost:g} (in the currency of the prices)", self.kind)
        if cost is not None and self.unpriced is not None:
            raise Conflict(
                f"The queries of this {self.kind} may spend {cost:g} per day, but the price of {self.unpriced} is"
                " unknown. The operator must set its price, or replace the limit by a limit in tokens."
            )


class QueryBudgets:
    """Admits queries until a budget of their key or tenant is used up, and charges both budgets.

    Args:
        settings: limits of tenants.
        use: sums of all processes.
        price_of: prices of calls.
        now: clock in monotonic seconds.
    """

    def __init__(
        self, settings: Settings, use: TenantUse, price_of: PriceOf, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._settings = settings
        self._use = use
        self._price_of = price_of
        self._now = now
        self._accounts: dict[str, _Account] = {}
        self._sending: asyncio.Task[None] | None = None

    async def admit(self, tenant: str, key_id: UUID | None, of_key: KeyLimits) -> None:
        """Admit a query; the models that it calls are charged to the budgets of its key and of its tenant.

        Raises:
            TooManyRequests: a budget is used up until midnight.
            Conflict: a budget in money cannot be kept, because a model has no price.
        """
        limits = self._settings.limits_of(tenant)
        budgets = (
            (f"{tenant}:{key_id}", "key", QueryBudget(of_key.tokens_per_day, of_key.cost_per_day)),
            (tenant, "tenant", QueryBudget(limits.query_tokens_per_day, limits.query_cost_per_day)),
        )
        accounts = [self._account(*budget) for budget in budgets if budget[-1].is_limited]
        for account in accounts:
            await self._read(account)
            account.require_left()
        report_to(partial(self._charge, accounts) if accounts else None)

    async def aclose(self) -> None:
        """Wait until everything is sent."""
        if self._sending is not None:
            await self._sending

    def _account(self, owner: str, kind: str, budget: QueryBudget) -> _Account:
        account, today = self._accounts.get(owner), datetime.now(UTC).date()
        if account is None or account.day != today:
            if len(self._accounts) >= _MOST:
                self._accounts.clear()
            account = self._accounts[owner] = _Account(owner, kind, budget, today)
        return account

    async def _read(self, account: _Account) -> None:
        if account.read_at is None or self._now() - account.read_at >= _READ_SECONDS:
            account.read_at = self._now()  # concurrent queries do not read it, too
            await self._add(account, 0, 0.0)

    async def _add(self, account: _Account, tokens: int, cost: float) -> None:
        sums = await self._use.spend(account.owner, tokens, cost)
        account.tokens, account.cost = sums or (account.tokens + tokens, account.cost + cost)

    def _charge(self, accounts: Sequence[_Account], kind: CostKind, model: str, usage: Usage) -> None:
        for account in accounts:
            account.unsent[kind, model] += usage
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(), context=Context())

    async def _send(self) -> None:
        try:
            while changed := [account for account in self._accounts.values() if account.unsent]:
                for account in changed:
                    spent, account.unsent = account.unsent, defaultdict(Usage)
                    tokens = sum(usage.prompt_tokens + usage.completion_tokens for usage in spent.values())
                    cost = 0.0
                    if account.budget.cost_per_day is not None:  # list prices are loaded once, which takes 0.3 s
                        cost, unpriced = await asyncio.to_thread(self._cost, spent)
                        account.unpriced = account.unpriced or unpriced
                    await self._add(account, tokens, cost)
        finally:
            self._sending = None

    def _cost(self, spent: dict[tuple[CostKind, str], Usage]) -> tuple[float, str | None]:
        """Return the cost of tokens with known prices, and a model whose price is unknown."""
        prices = [(model, self._price_of(kind, usage, model)) for (kind, model), usage in spent.items()]
        unpriced = next((model for model, price in prices if price is None), None)
        return sum(price for _, price in prices if price is not None), unpriced


def _used_up(amount: str, kind: str) -> TooManyRequests:
    return TooManyRequests(
        f"The queries of this {kind} may spend {amount} per day, which are used up: continue after midnight in UTC.",
        retry_after=until_tomorrow(),
    )
