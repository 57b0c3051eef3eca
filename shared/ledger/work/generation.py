"""The work of generate workers: chunks are claimed within budgets, and their paid questions are committed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import asyncpg

from shared.domain.errors import BudgetExhausted, LeaseLost
from shared.domain.spending.budgets import NO_TERMS, BudgetTerms, Reserve
from shared.domain.spending.rates import Rates
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Cost, Usage, with_cost
from shared.domain.stages.attempts import FailedAttempt, PaidReply
from shared.domain.stages.generation import ChunkToGenerate, GenerateOutcome, generate_cost
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ledger.budgets import fragments, holds
from shared.ledger.budgets.holds import Bill
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import lanes, states
from shared.ledger.model.decoding import decoded
from shared.ledger.model.rows.attempts import failure_rows, replies_of
from shared.ledger.model.rows.generation import chunk_to_generate, generated_rows, key_rows, reply_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, TransactionConflict, again_after_collision
from shared.ledger.postgres.statements import Statement
from shared.ledger.work import attempt_costs, claims, document_events, failures, leases, paid_contents
from shared.ledger.work.claims import StageWork

NO_LIMITS = Rates()
_MOST_REPLIES = 500  # deleted in one transaction
_MOST_TWINS = 5_000  # of one settlement
_UNLIMITED = 2**62  # a tenant named without limits has none, regardless of `other_limits`


def is_called(arguments: str) -> str:
    """Return the SQL condition that a call for a content runs for a version that was discarded meanwhile.

    An upload does not wait for the batch of a discarded version.

    Args:
        arguments: alias of a chunk that needs the content, and the content's key.
    """
    chunk, key = arguments.split()
    return f"""EXISTS (
        SELECT 1 FROM abandoned_calls b WHERE b.content_key = {key} AND b.due_at > now()
          AND (NOT {lanes.is_interactive(chunk)}
               OR NOT EXISTS (SELECT 1 FROM batch_lines l WHERE l.token = b.lease_token))
        OFFSET 0)"""


SQL = statements.load(__file__, {**states.FRAGMENTS, **failures.FRAGMENTS}, is_called=is_called)
CLAIMS = statements.load(
    Path(__file__).with_name("claims_generate.sql"), {**claims.FRAGMENTS, **fragments.FRAGMENTS}, is_called=is_called
)
# The claim of ordinary work under False, and the claim of suspects under True.
_CLAIM = {False: CLAIMS.claim_to_generate, True: CLAIMS.claim_suspects_to_generate}


@dataclass(frozen=True, slots=True)
class ClaimedChunks:
    """Claimed chunks to generate.

    `paid_already` counts the claimed chunks that needed no call, `left` the chunks whose content another worker is
    paying for, and `refused` the chunks that did not fit in a budget.
    """

    chunks: list[ChunkToGenerate]
    paid_already: int
    left: int
    refused: int = 0


class GenerateWork(StageWork):
    """Claims and settlements of chunks to generate by one worker.

    Args:
        database: the ledger.
        worker: name of the process, for readers of the ledger.
        lease: duration of a claim without extension.
        weights: relative shares of tenants in the free slots; default 1.
        limits: limits of tenants' calls to the language model; no tenant holds more chunks than these allow to start
            soon.
        other_limits: limits of all other tenants.
        terms: prices and the budgets of the settings.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        lease: timedelta,
        weights: Mapping[str, float] | None = None,
        limits: Mapping[str, Rates] | None = None,
        other_limits: Rates = NO_LIMITS,
        terms: BudgetTerms = NO_TERMS,
    ) -> None:
        super().__init__(database, worker=worker, lease=lease, weights=weights)
        self._limits = limits or {}
        self._other_limits = other_limits
        self._terms = terms

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(
            database,
            worker=terms.worker,
            lease=terms.lease,
            weights=terms.weights,
            limits=terms.limits,
            other_limits=terms.other_limits,
            terms=terms.budgets,
        )

    @again_after_collision
    async def claim(
        self,
        limit: int,
        *,
        key_of: Callable[[ChunkToGenerate], bytes] | None = None,
        reserve_of: Callable[[ChunkToGenerate], Reserve] | None = None,
        suspects: bool = False,
        bounds: Mapping[str, int] = MappingProxyType({}),
    ) -> ClaimedChunks:
        """Claim chunks to generate; chunks with paid content advance at once.

        The claim reserves the highest cost of each chunk's first call in the budgets that cover it. Chunks that do not
        fit are released in the same transaction.

        Args:
            limit: maximum number of chunks.
            key_of: function from a chunk to the key of its current request; None uses the key from the parse.
            reserve_of: function from a chunk to the highest use of its next call; None reserves nothing.
            suspects: whether to claim suspects only, for a worker without other work.
            bounds: number of chunks that these tenants may hold, if it is less than their limits allow.

        Raises:
            TransactionConflict: other workers leased the same content repeatedly.
        """
        most, most_of_others = self._most_chunks(bounds), self._other_limits.calls_at_once
        parameters = self._claim(limit, suspects=suspects, most=most, most_of_others=most_of_others)
        await self._database.settlements_first()
        try:
            async with self._database.begin() as connection:
                return await claim_chunks(
                    connection,
                    self._terms,
                    _CLAIM[suspects],
                    parameters,
                    key_of=key_of,
                    reserve_of=reserve_of,
                )
        except asyncpg.IntegrityConstraintViolationError as error:
            raise TransactionConflict("another worker leased the same content", component="ledger") from error

    async def keep_replies(
        self,
        chunk: ChunkToGenerate,
        replies: Sequence[PaidReply],
        usage: Usage,
        calls: int,
        following: Reserve,
        *,
        tier: Tier = Tier.STANDARD,
        is_estimated: bool = False,
    ) -> None:
        """Commit the replies of a chunk that needs more calls, with its costs until now, and reserve the next call.

        Args:
            chunk: the chunk.
            replies: all replies for its content until now.
            usage: tokens billed for the chunk until now.
            calls: number of calls billed for the chunk until now.
            following: highest use of the next call to the same model.
            tier: tier of this attempt's replies.
            is_estimated: whether the tokens of a call of this attempt are estimated.

        Raises:
            LeaseLost: another worker has the chunk, or it is deleted. The replies and their costs are committed anyway.
            BudgetExhausted: the next call does not fit in a budget. The replies and their costs are committed anyway.
        """
        fits = True
        async with self._database.begin() as connection:
            cost = generate_cost(chunk, following.model, usage, calls, tier, is_estimated=is_estimated)
            row = reply_rows(chunk, replies, usage, calls, with_cost(chunk.by_tier, cost))
            held = (await connection.execute(SQL.keep_replies, row)).scalars()
            await attempt_costs.record(connection, [cost])
            if chunk.reserve is not None:
                bill = _bill(chunk.lease.token, cost)
                fits = await holds.renew(connection, self._terms, bill, following if held else None)
        if not held:
            raise LeaseLost("the lease on the chunk has ended")
        if not fits:
            raise BudgetExhausted

    async def forget_replies(self, age: timedelta) -> bool:
        """Delete some older replies of incomplete questions; return whether more may be left."""
        parameters = {"age": age, "limit": _MOST_REPLIES}
        async with self._database.begin() as connection:
            return len((await connection.execute(SQL.delete_old_replies, parameters)).all()) == _MOST_REPLIES

    async def settle(self, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
        """Commit paid questions before they are used, and record the failures.

        Their costs are recorded even if a claim has expired.
        """
        async with self._database.begin() as connection:
            await settle_generated(connection, outcomes)
            await book_outcomes(connection, self._terms, outcomes)

    async def extend(self, held: Sequence[Lease]) -> LeaseExtension:
        """Extend claims from now on; a lost lease stays lost."""
        async with self._database.begin() as connection:
            extension = await leases.extend(connection, "chunks", held, self.lease)
            tokens = [lease.token for lease in held]
            await connection.execute(SQL.extend_calls, {"tokens": tokens, "lease": self.lease})
            return extension

    async def release(self, held: Sequence[Lease], *, lost: bool = False, called: Collection[Lease] = ()) -> None:
        """Release claims without an attempt: the chunks are due at once.

        Args:
            held: leases of the claims.
            lost: whether they count as lost, because the chunk itself may have been the reason. Their reservations are
                booked like the reservations of expired leases.
            called: leases with a call whose bill will not arrive.
        """
        async with self._database.begin() as connection:
            await leases.release(connection, "chunks", held, lost=lost)
            if lost:
                await connection.execute(SQL.end_calls, {"tokens": [lease.token for lease in held]})
            else:
                await end_calls(connection, self._terms, [Bill(o.token, is_incomplete=o in called) for o in held])

    def _most_chunks(self, bounds: Mapping[str, int]) -> Mapping[str, int]:
        """Return the maximum number of chunks that tenants may hold, in all workers together."""
        tenants = {*self._limits, *bounds}
        return {tenant: min(self._most(tenant), bounds.get(tenant, _UNLIMITED)) for tenant in tenants}

    def _most(self, tenant: str) -> int:
        """Return the maximum number of claimed chunks that the limits of a tenant allow."""
        calls = self._limits.get(tenant, self._other_limits).calls_at_once
        return _UNLIMITED if calls is None else calls


async def claim_chunks(
    connection: Connection,
    terms: BudgetTerms,
    statement: Statement,
    parameters: Mapping[str, Any],
    *,
    key_of: Callable[[ChunkToGenerate], bytes] | None,
    reserve_of: Callable[[ChunkToGenerate], Reserve] | None,
) -> ClaimedChunks:
    """Claim chunks by a statement in its transaction, and reserve their calls, as `GenerateWork.claim` does.

    Nothing that may wait for a lock follows in the transaction, because it holds the rows of budgets.
    `parameters["worker"]` is the holder of the leases: a worker or a batch.
    """
    claimed = (await connection.execute(statement, parameters)).all()
    chunks = decoded("generate", chunk_to_generate, claimed)
    taken = await _set_keys(connection, chunks, key_of) if key_of else []
    keys = [chunk.content_key for chunk in [*chunks, *taken]]
    paid = await _settle_paid_before(connection, keys, parameters["worker"])
    chunks = [chunk for chunk in chunks if chunk.content_key not in paid]
    unpaid = len(chunks)
    if chunks and reserve_of is not None and _has_budgets(terms, claimed):
        chunks = await _reserve(connection, terms, [(chunk, reserve_of(chunk)) for chunk in chunks])
    claims.count_lost("generate", claimed)
    left = [chunk for chunk in taken if chunk.content_key not in paid]
    return ClaimedChunks(chunks, paid_already=len(paid), left=len(left), refused=unpaid - len(chunks))


def _has_budgets(terms: BudgetTerms, claimed: Sequence[Row]) -> bool:
    """Return whether a budget in the ledger or in the settings may cover claimed chunks."""
    return claimed[0]["has_budgets"] or any(terms.limits_of(tenant) for tenant in {row["tenant"] for row in claimed})


async def _reserve(
    connection: Connection, terms: BudgetTerms, calls: Sequence[tuple[ChunkToGenerate, Reserve]]
) -> list[ChunkToGenerate]:
    """Reserve the cost of calls, release the chunks that do not fit, and return the others."""
    refused = await holds.hold(connection, terms, calls)
    if refused:
        released = [chunk.lease for chunk, _ in calls if chunk.lease.token in refused]
        await leases.release(connection, "chunks", released, lost=False)
    return [replace(chunk, reserve=reserve) for chunk, reserve in calls if chunk.lease.token not in refused]


async def _settle_paid_before(connection: Connection, keys: Sequence[bytes], holder: str) -> set[bytes]:
    if not keys:
        return set()
    parameters = {"keys": list(keys), "worker": holder, "limit": _MOST_TWINS}
    return set((await connection.execute(SQL.settle_paid_before, parameters)).scalars())


async def settle_generated(connection: Connection, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
    """Commit outcomes in a transaction; `book_outcomes` is the end of the transaction."""
    paid = [o for o in outcomes if isinstance(o, GenerateOutcome)]
    failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
    if paid:
        await connection.execute(SQL.insert_completions, generated_rows(paid))
        await connection.execute(SQL.settle_paid, generated_rows(paid))
        keys = [p.chunk.content_key for p in paid]
        await connection.execute(SQL.settle_same_content, {"keys": keys, "limit": _MOST_TWINS})
    if failed:
        await connection.execute(SQL.fail_generating, failure_rows(failed))
    await attempt_costs.record(connection, [o.cost for o in outcomes])
    await document_events.touch(connection, [o.chunk.document_id for o in paid])


async def book_outcomes(
    connection: Connection, terms: BudgetTerms, outcomes: Sequence[GenerateOutcome | FailedAttempt]
) -> None:
    """Replace the reservations of committed outcomes by their bills, as the last statement of the transaction."""
    bills = [
        _bill(o.chunk.lease.token, o.cost)
        if isinstance(o, GenerateOutcome)
        else _bill(o.lease.token, o.cost, is_incomplete=o.is_bill_incomplete)
        for o in outcomes
    ]
    await end_calls(connection, terms, bills)


async def end_calls(connection: Connection, terms: BudgetTerms, bills: Sequence[Bill]) -> None:
    """Delete the marks of calls that have ended, and book their bills if they have reserved something."""
    ended = await connection.execute(SQL.end_calls, {"tokens": [bill.token for bill in bills]})
    if reserved := set(ended.scalars()):
        await holds.settle(connection, terms, [bill for bill in bills if bill.token in reserved])


async def _set_keys(
    connection: Connection, chunks: list[ChunkToGenerate], key_of: Callable[[ChunkToGenerate], bytes]
) -> list[ChunkToGenerate]:
    """Set the keys of claimed chunks to the keys of the requests about to be sent.

    Chunks whose new key another worker pays for are removed from `chunks` and returned: their leases have ended.
    """
    changed = [(chunk, key) for chunk in chunks if (key := key_of(chunk)) != chunk.content_key]
    if not changed:
        return []
    await paid_contents.hold(connection, [key for _, key in changed])
    found = {row.token: row for row in await connection.execute(SQL.set_keys, key_rows(changed))}
    keys = {chunk.lease.token: key for chunk, key in changed}
    renewed = [
        replace(chunk, content_key=keys[token], replies=replies_of(found[token].replies)) if token in found else chunk
        for chunk in chunks
        for token in [chunk.lease.token]
    ]
    taken = {token for token, row in found.items() if row.taken}
    chunks[:] = [chunk for chunk in renewed if chunk.lease.token not in taken]
    return [chunk for chunk in renewed if chunk.lease.token in taken]


def _bill(token: int, cost: Cost | None, *, is_incomplete: bool = False) -> Bill:
    """Return the bill of an attempt from its cost; None means that no call was billed."""
    if cost is None:
        return Bill(token, is_incomplete=is_incomplete)
    return Bill(token, cost.model, cost.usage, cost.tier, is_incomplete)
