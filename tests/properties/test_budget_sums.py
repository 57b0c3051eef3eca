"""Random histories of claims: at each step, the amounts of a budget are the sums of its reservations and bills.

The bills and the reservations are counted in a model next to the ledger.
"""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from uuid import UUID

from shared.domain.errors import BudgetExhausted, Conflict, LeaseLost
from shared.domain.retry import Dead, Retry
from shared.domain.spending.budgets import BudgetUnit, NewBudget, Period, Reserve, SetBy
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.domain.stages.attempts import FailedAttempt, PaidReply
from shared.domain.stages.generation import ChunkToGenerate, GenerateOutcome, generate_cost
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.documents.documents import Documents
from shared.ledger.postgres.statements import Statement
from shared.ledger.work.generation import GenerateWork
from tests.support.api import work
from tests.support.planted import guards

HISTORIES = {"short": 6, "full": 500, "soak": 2_000}
STEPS = 30
SECTIONS = "\n\n".join(f"## Part {n}\n\n" + f"The gate of part {n} opens at {n}. " * 60 for n in range(6))

SUMS = """
    SELECT b.id, b.collection, b.most, b.spent, b.held,
           (SELECT coalesce(sum(h.held), 0) FROM budget_holds h WHERE h.budget_id = b.id) AS of_holds
    FROM budgets b
"""
BILLED = "SELECT coalesce(sum(prompt_tokens + completion_tokens), 0) FROM spent WHERE kind = 'generate'"


@dataclass
class Attempt:
    """A claim, its reservation, and its bill."""

    chunk: ChunkToGenerate
    held: int
    usage: Usage = field(default_factory=Usage)
    calls: int = 0
    replies: list[PaidReply] = field(default_factory=list)
    outcome: GenerateOutcome | FailedAttempt | None = None
    amount: int | None = None  # finally booked amount; None while it has not ended

    @property
    def billed(self) -> int:
        return self.usage.prompt_tokens + self.usage.completion_tokens


class History:
    """One history.

    Args:
        services: services over an empty ledger.
        library: uploads documents.
        chosen: source of all choices.
    """

    def __init__(self, services, library, chosen: random.Random) -> None:
        self.services = services
        self.library = library
        self.chosen = chosen
        self.attempts: list[Attempt] = []
        self.steps = [
            (6, self.claim),
            (5, self.settle),
            (2, self.fail),
            (2, self.keep),
            (2, self.release),
            (2, self.expire),
            (2, self.book_lost),
            (1, self.settle_again),
            (1, self.delete),
            (1, self.add),
            (1, self.change_limit),
        ]

    async def run(self) -> None:
        await self.services.ledger[Budgets].set(self._budget(None, 60_000))
        await self.services.ledger[Budgets].set(self._budget("default", 50_000))
        await self.add()
        for _ in range(STEPS):
            (step,) = self.chosen.choices([each for _, each in self.steps], [weight for weight, _ in self.steps])
            await step()
            await self.check()
        await self.end()

    async def check(self) -> None:
        for row in await self.sql(SUMS):
            assert row.held == row.of_holds
            assert 0 <= row.spent + row.held <= row.most

    async def end(self) -> None:
        """Compare the sums with the model, first with lost bills, and then with all bills."""
        await self.expire()
        await self.services.ledger[Budgets].book_lost()
        await self.compare(sum(self._booked(attempt) for attempt in self.attempts))
        for attempt in self.attempts:
            if attempt.amount is None:
                await self._settle(attempt, self._success(attempt), attempt.usage)
        (billed,) = (await self.sql(BILLED))[0]
        unbilled = sum(attempt.amount - attempt.billed for attempt in self.attempts)
        await self.compare(billed + unbilled)

    async def compare(self, expected: int) -> None:
        for row in await self.sql(SUMS):
            assert (row.spent, row.held) == (expected, 0)

    async def sql(self, statement: str, **parameters: object):
        async with self.services.database.begin() as connection:
            result = await connection.execute(Statement(statement), parameters)
            return result.all()

    # Steps

    async def add(self) -> None:
        await self.library.add(f"{SECTIONS}\n\nEdition {self.chosen.random()}.", f"{self.chosen.randrange(2)}.md")
        await work(self.services, "parse", "index")

    async def claim(self) -> None:
        for chunk in await self.services.generator.claim(self.chosen.randint(1, 4), {}) or []:
            usage = chunk.reserve.usage
            self.attempts.append(Attempt(chunk, usage.prompt_tokens + usage.completion_tokens))

    async def settle(self) -> None:
        if attempt := self._open():
            await self._settle(attempt, None, self._bill(attempt))

    async def fail(self) -> None:
        if (attempt := self._open()) is None:
            return
        incomplete = self.chosen.random() < 0.5
        usage = attempt.usage if incomplete or self.chosen.random() < 0.5 else self._bill(attempt)
        decision = self.chosen.choice([Retry(timedelta(), "again", burns_attempt=False), Dead("never")])
        await self._settle(attempt, None, usage, decision=decision, incomplete=incomplete)

    async def keep(self) -> None:
        if (attempt := self._open()) is None:
            return
        self._pay(attempt, self._bill(attempt))
        attempt.replies.append(PaidReply(str(len(attempt.replies)), "?", "stop", Usage()))
        following = Reserve("scripted", Usage(300, self.chosen.randint(100, 4_000)))
        spent = self._spent(attempt)
        try:
            await self.services.ledger[GenerateWork].keep_replies(attempt.chunk, attempt.replies, *spent, following)
            attempt.held = following.usage.prompt_tokens + following.usage.completion_tokens
        except (LeaseLost, BudgetExhausted):
            attempt.held = 0

    async def release(self) -> None:
        if (attempt := self._open()) is None:
            return
        lease, called = attempt.chunk.lease, self.chosen.random() < 0.5
        if attempt.calls:
            called = True  # its bill until now would be lost: the drain reports such leases as called
        await self.services.ledger[GenerateWork].release([lease], called=[lease] if called else [])
        attempt.amount = attempt.billed + attempt.held if called else 0

    async def expire(self) -> None:
        for statement in (
            "UPDATE chunks SET due_at = now(), lost_leases = 0",
            "UPDATE abandoned_calls SET due_at = now()",
        ):
            await self.sql(statement)

    async def book_lost(self) -> None:
        await self.services.ledger[Budgets].book_lost()

    async def settle_again(self) -> None:
        settled = [attempt for attempt in self.attempts if attempt.outcome is not None]
        if settled:
            await self.services.ledger[GenerateWork].settle([self.chosen.choice(settled).outcome])

    async def delete(self) -> None:
        document = (await self.sql("SELECT public_id FROM documents ORDER BY random() LIMIT 1"))[0]
        await self.services.ledger[Documents].delete("default", UUID(str(document.public_id)))
        await self.services.cleaner.clean()
        await self.add()

    async def change_limit(self) -> None:
        with suppress(Conflict):  # more is spent already
            await self.services.ledger[Budgets].set(self._budget("default", self.chosen.randint(20_000, 60_000)))

    # The model

    def _budget(self, collection: str | None, most: int) -> NewBudget:
        return NewBudget("default", collection, None, Period.TOTAL, BudgetUnit.TOKENS, SetBy.TENANT, most)

    def _open(self) -> Attempt | None:
        found = [attempt for attempt in self.attempts if attempt.amount is None]
        return self.chosen.choice(found) if found else None

    def _bill(self, attempt: Attempt) -> Usage:
        """Draw the attempt's bill with one more call, which used at most its reservation."""
        return attempt.usage + Usage(0, self.chosen.randint(0, attempt.held))

    def _pay(self, attempt: Attempt, usage: Usage) -> None:
        attempt.calls += usage != attempt.usage
        attempt.usage = usage

    def _spent(self, attempt: Attempt) -> tuple[Usage, int]:
        return attempt.chunk.usage + attempt.usage, attempt.chunk.calls + attempt.calls

    def _success(self, attempt: Attempt) -> GenerateOutcome:
        return GenerateOutcome(attempt.chunk, "scripted", ("Who opens the gate?",), *self._spent(attempt))

    async def _settle(self, attempt, outcome, usage, *, decision=None, incomplete=False) -> None:
        self._pay(attempt, usage)
        if outcome is None and decision is None:
            outcome = self._success(attempt)
        elif outcome is None:
            chunk, spent = attempt.chunk, self._spent(attempt)
            cost = generate_cost(chunk, "scripted", *spent, Tier.STANDARD)
            outcome = FailedAttempt(
                chunk.lease, decision, *spent, chunk.content_key, chunk.tenant, (), cost, is_bill_incomplete=incomplete
            )
        await self.services.ledger[GenerateWork].settle([outcome])
        attempt.outcome = outcome
        attempt.amount = attempt.billed + (attempt.held if incomplete else 0)

    def _booked(self, attempt: Attempt) -> int:
        return attempt.billed + attempt.held if attempt.amount is None else attempt.amount


@guards(
    "shared/ledger/budgets/holds.sql",
    "SET held = b.held - s.held, spent",
    "SET spent",
    means="a settlement keeps its reservation",
)
async def test_sums_of_budgets_equal_reservations_and_bills(session_services, request, provider):
    from tests.conftest import Library
    from tests.support.emptying import empty

    services = replace(session_services)
    count = request.config.getoption("--histories") or HISTORIES[request.config.getoption("--faults")]
    for seed in range(count):
        await empty(services)
        try:
            await History(services, Library(services), random.Random(seed)).run()
        except BaseException:
            print(f"history {seed}")
            raise
