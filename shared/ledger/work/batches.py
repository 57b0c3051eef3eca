"""Batches: a batch is a worker whose leases are long.

Each line holds an ordinary lease on its chunk with a fencing token, so all rules for workers apply: no content is paid
for twice at the same time, a late result is counted once, and an erasure fences it. A process that works on a batch
claims it like any row of work, and each of its transactions names the fencing token of that claim.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self
from uuid import UUID, uuid4

import asyncpg

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import LeaseLost
from shared.domain.spending.budgets import NO_TERMS, BudgetTerms, Reserve
from shared.domain.spending.usage import Usage, total
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.batches import Batch, LineContent, PlannedLine, Unanswered
from shared.domain.stages.generation import ChunkToGenerate, GenerateOutcome, SentLine
from shared.domain.states import BatchState
from shared.ledger.budgets import fragments
from shared.ledger.budgets.holds import Bill
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import states
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.rows.attempts import lease_of, usage_by_tier
from shared.ledger.model.rows.batches import failed_line_rows, planned_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, TransactionConflict, again_after_collision
from shared.ledger.postgres.statements import Statement
from shared.ledger.work import generation
from shared.ledger.work.generation import ClaimedChunks, book_outcomes, claim_chunks, end_calls, settle_generated

# No process extends the leases of 50,000 lines. They end with their batch, which ends within two days; a lease that has
# expired nevertheless is a lost one.
_LINES_LEASE = timedelta(days=7)
_ROUNDS = 2  # failures of a chunk's lines before its questions are generated live
_SLICE = 1_000  # rows of one transaction
_LIMIT_HOLDS = timedelta(days=1)  # a limit that a provider has named may have been raised since

# Prefix of the holder of a line's lease; the id of its batch follows.
LINE_HOLDER = "batch:"

SQL = statements.load(
    __file__,
    {**states.FRAGMENTS, **fragments.FRAGMENTS},
    lines_of_batches=f"'{LINE_HOLDER}%'",
)


@dataclass(frozen=True, slots=True)
class Enqueued:
    """Bytes of the files that a provider works on, and its limit of enqueued tokens, if it has named one recently."""

    bytes: int
    token_limit: int | None


@dataclass(frozen=True, slots=True)
class Probe:
    """The newest probe of a provider."""

    state: BatchState
    error: str | None


class Batches:
    """The batches of a deployment.

    Args:
        database: the ledger.
        worker: name of the process, for readers of the ledger.
        lease: duration of a claim without extension.
        terms: prices and the budgets of the settings.
    """

    def __init__(self, database: Database, *, worker: str, lease: timedelta, terms: BudgetTerms = NO_TERMS) -> None:
        self._database = database
        self._worker = worker
        self._terms = terms
        self.lease = lease

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, worker=terms.worker, lease=terms.lease, terms=terms.budgets)

    # Work of the scheduler

    async def due(self) -> bool:
        """Return whether a batch is due, or chunks in the batch lane wait for one."""
        (row,) = await self._database.rows(SQL.due)
        return bool(row["due"])

    @again_after_collision
    async def yield_to_uploads(self) -> bool:
        """End the leases of lines whose content an upload needs; return whether more may be left."""
        async with self._database.begin() as connection:
            return len((await connection.execute(SQL.yield_to_uploads, {"limit": _SLICE})).all()) >= _SLICE

    async def open_among(self, ids: Collection[UUID]) -> set[UUID]:
        """Return the open batches among these."""
        return {row["id"] for row in await self._database.rows(SQL.open_among, {"ids": [*ids]})}

    async def forget(self, age: timedelta) -> None:
        """Delete batches that ended before this age."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.forget, {"age": age})

    # Planning

    @again_after_collision
    async def leave_lane(self) -> bool:
        """Move some waiting chunks from the batch lane to the bulk lane; return whether there were any."""
        async with self._database.begin() as connection:
            return bool((await connection.execute(SQL.leave_lane, {"limit": _SLICE})).all())

    async def probe(self, provider: str, model: str) -> Probe | None:
        """Return the newest probe of a provider; None if there is none."""
        found = await self._database.rows(SQL.probe, {"provider": provider, "model": model})
        return Probe(BatchState(found[0]["state"]), found[0]["error"]) if found else None

    async def start_probe(self, provider: str, model: str, *, lines: int, pause: timedelta) -> None:
        """Start a probe of a provider, unless one is running, has succeeded, or has failed within the pause."""
        parameters = {"provider": provider, "model": model, "lines": lines, "pause": pause}
        async with self._database.begin() as connection:
            await connection.execute(SQL.start_probe, parameters)

    async def start(self, provider: str, model: str, *, pause: timedelta) -> None:
        """Start a batch for each tenant with waiting chunks whose budgets have room.

        Args:
            provider: address of the provider.
            model: model of the calls.
            pause: time without new batches after the provider refused one as too large.
        """
        parameters = {"provider": provider, "model": model, "pause": pause}
        async with self._database.begin() as connection:
            await connection.execute(SQL.start, parameters)

    async def enqueued(self, provider: str) -> Enqueued:
        """Return the amount of work that a provider has."""
        (row,) = await self._database.rows(SQL.enqueued, {"provider": provider, "pause": _LIMIT_HOLDS})
        return Enqueued(row["bytes"], row["token_limit"])

    @again_after_collision
    async def fill(
        self,
        batch: Batch,
        limit: int,
        *,
        key_of: Callable[[ChunkToGenerate], bytes],
        line_of: Callable[[ChunkToGenerate], PlannedLine],
        reserve_of: Callable[[ChunkToGenerate], Reserve],
    ) -> ClaimedChunks:
        """Claim up to `limit` chunks of the batch's tenant, at most 1,000, and add them to the batch.

        Chunks with paid content advance at once. A line reserves as much as a live call, until it is settled; chunks
        that do not fit in a budget are released.

        Raises:
            LeaseLost: another process has claimed the batch.
            TransactionConflict: workers leased the same content repeatedly.
        """
        holder = f"{LINE_HOLDER}{batch.id}"
        parameters = {"tenant": batch.tenant, "limit": min(limit, _SLICE), "worker": holder, "lease": _LINES_LEASE}
        try:
            async with self._database.begin() as connection:
                await _require(connection, SQL.lock_planning, batch)
                claimed = await claim_chunks(
                    connection,
                    self._terms,
                    generation.CLAIMS.claim_to_batch,
                    parameters,
                    key_of=key_of,
                    reserve_of=reserve_of,
                )
                lines = [line_of(chunk) for chunk in claimed.chunks]
                if lines:
                    added = planned_rows(lines) | {"bytes": sum(line.bytes for line in lines)}
                    await connection.execute(SQL.insert_lines, _held(batch) | added)
        except asyncpg.IntegrityConstraintViolationError as error:
            raise TransactionConflict("a worker leased the same content", component="ledger") from error
        return claimed

    # Changes of a claimed batch; each raises LeaseLost if another process has claimed it

    async def claim(self, provider: str) -> Batch | None:
        """Claim the batch that a process of this provider can continue, longest due first; None if none is due."""
        leases = {"lease": self.lease, "lines_lease": _LINES_LEASE}
        parameters = {"provider": provider, "worker": self._worker} | leases
        claimed = await self._database.rows(SQL.claim, parameters)
        return _batch(claimed[0]) if claimed else None

    async def extend(self, batch: Batch) -> None:
        """Extend a claim from now on."""
        await self._change(SQL.extend, batch, lease=self.lease)

    async def postpone(self, batch: Batch, after: timedelta) -> None:
        """End a claim; the batch is due again after this time."""
        await self._change(SQL.postpone, batch, after=after)

    async def seal(self, batch: Batch) -> None:
        """End the planning of a batch."""
        await self._change(SQL.seal, batch, after=timedelta())

    async def uploaded(self, batch: Batch, file_id: str) -> None:
        """Record the input file."""
        await self._change(SQL.uploaded, batch, file_id=file_id, after=timedelta())

    async def try_create(self, batch: Batch) -> None:
        """Record, before the create, that the batch may exist from now on; the claim continues."""
        await self._change(SQL.try_create, batch)

    async def upload_again(self, batch: Batch) -> None:
        """Forget an input file after its deletion."""
        await self._change(SQL.upload_again, batch, after=timedelta())

    async def started(self, batch: Batch, provider_id: str, *, poll_after: timedelta) -> None:
        """Record the provider's batch."""
        await self._change(SQL.started, batch, provider_id=provider_id, after=poll_after)

    async def polled(self, batch: Batch, done: int, *, poll_after: timedelta) -> None:
        """Record the number of requests with a result."""
        await self._change(SQL.polled, batch, done=done, after=poll_after)

    async def ended(
        self,
        batch: Batch,
        *,
        output_file_id: str | None = None,
        error_file_id: str | None = None,
        done: int | None = None,
        unanswered: Unanswered = Unanswered.AGAIN,
        error: str | None = None,
        token_limit: int | None = None,
    ) -> None:
        """Record the end of a batch; its lines are settled next.

        Args:
            batch: the claimed batch.
            output_file_id: file with results; None if there is none.
            error_file_id: file with errors; None if there is none.
            done: number of requests with a result; None if unknown.
            unanswered: next step of lines without a result.
            error: reason why the batch has failed.
            token_limit: the provider's limit of enqueued tokens, if that is the reason.
        """
        await self._change(
            SQL.ended,
            batch,
            output_file_id=output_file_id,
            error_file_id=error_file_id,
            done=done,
            unanswered=unanswered.value,
            error=error,
            token_limit=token_limit,
            after=timedelta(),
        )

    async def failures(self, batch: Batch) -> int:
        """Return the number of batches with the same root that have failed before."""
        (row,) = await self._database.rows(SQL.failures, {"id": batch.id})
        return int(row["failures"])

    @again_after_collision
    async def renew_leases(self, batch: Batch) -> None:
        """Start the leases of the lines again, for batches into which they will be divided."""
        last: int | None = 0
        while last is not None:
            parameters = {"id": batch.id, "after": last, "limit": _SLICE, "lease": _LINES_LEASE}
            async with self._database.begin() as connection:
                last = (await connection.execute(SQL.renew_leases, parameters)).scalar_one()

    @again_after_collision
    async def divide(self, batch: Batch, refused: Sequence[FailedAttempt], lines: int) -> bool:
        """Settle refused lines of a rejected batch, and move the next ones to a new batch, which is due at once.

        Args:
            batch: the claimed batch, which the provider has ended.
            refused: outcomes of lines that are the reason.
            lines: number of lines to be moved.

        Returns:
            Whether more lines are left.

        Raises:
            LeaseLost: another process has claimed the batch; nothing is committed.
        """
        parameters = {"id": batch.id, "part": uuid4(), "limit": lines}
        async with self._database.begin() as connection:
            await _require(connection, SQL.lock_running, batch)
            if refused:
                await _settle_lines(connection, batch, refused)
            if lines:
                await connection.execute(SQL.divide, parameters)
            left: int = (await connection.execute(SQL.count_settled, {"id": batch.id})).scalar_one()
            await book_outcomes(connection, self._terms, refused)
        return left > 0

    async def finish(self, batch: Batch, error: str | None) -> None:
        """Finish a batch whose lines are all settled."""
        await self._change(SQL.finish, batch, error=error)

    async def _change(self, statement: Statement, batch: Batch, **values: Any) -> None:
        async with self._database.begin() as connection:
            await _require(connection, statement, batch, values)

    # Lines

    async def contents(self, batch: Batch, after: int) -> list[LineContent]:
        """Return the next lines in the order of the file, at most 1,000.

        Args:
            batch: the batch.
            after: token of the last line before them.
        """
        parameters = {"id": batch.id, "after": after, "limit": _SLICE}
        return [_content(row) for row in await self._database.rows(SQL.contents, parameters)]

    async def contents_of(self, tokens: Collection[int]) -> dict[int, LineContent]:
        """Return the contents of lines by their tokens, from any version that still has them."""
        found = await self._database.rows(SQL.contents_of, {"tokens": sorted(tokens)})
        return {row["token"]: _content(row) for row in found}

    async def drop_lines(self, batch: Batch, tokens: Collection[int]) -> None:
        """Remove lines that need no call, and end their leases and reservations.

        Raises:
            LeaseLost: another process has claimed the batch.
        """
        async with self._database.begin() as connection:
            await _require(connection, SQL.drop_lines, batch, {"tokens": sorted(tokens)})
            await end_calls(connection, self._terms, [Bill(token) for token in tokens])

    async def sent(self, batch: Batch, tokens: Collection[int]) -> dict[int, SentLine]:
        """Return the unsettled lines among these, by their tokens."""
        assert batch.tenant is not None
        found = await self._database.rows(SQL.sent_lines, {"id": batch.id, "tokens": sorted(tokens)})
        return {row["lease_token"]: _sent(row, batch.tenant) for row in found}

    async def numbered(self, batch: Batch, numbers: Collection[int]) -> dict[int, SentLine]:
        """Return lines of a batch whose lines are all unsettled, by their numbers in its file, from 1."""
        assert batch.tenant is not None
        if not numbers:
            return {}
        found = await self._database.rows(SQL.numbered_lines, {"id": batch.id, "numbers": sorted(numbers)})
        return {row["number"]: _sent(row, batch.tenant) for row in found}

    async def unanswered(self, batch: Batch, limit: int) -> list[SentLine]:
        """Return some unsettled lines."""
        if batch.tenant is None:
            return []
        found = await self._database.rows(SQL.unanswered_lines, {"id": batch.id, "limit": limit})
        return [_sent(row, batch.tenant) for row in found]

    @again_after_collision
    async def settle(
        self,
        batch: Batch,
        outcomes: Sequence[GenerateOutcome | FailedAttempt],
        *,
        live: Collection[int] = (),
        output_bytes: int,
        error_bytes: int,
    ) -> None:
        """Settle lines as a worker's outcomes, and record the collected part of the result files with them.

        Args:
            batch: the claimed batch.
            outcomes: outcomes of unsettled lines.
            live: tokens of failed lines whose next attempt is a live call.
            output_bytes: collected part of the output file.
            error_bytes: collected part of the error file.

        Raises:
            LeaseLost: another process has claimed the batch; nothing is committed.
        """
        collected = {"output_bytes": output_bytes, "error_bytes": error_bytes, "lines": len(outcomes)}
        async with self._database.begin() as connection:
            await _require(connection, SQL.collected, batch, collected | _billed(outcomes))
            if not outcomes:
                return
            await _settle_lines(connection, batch, outcomes, live)
            await book_outcomes(connection, self._terms, outcomes)


async def _settle_lines(
    connection: Connection,
    batch: Batch,
    outcomes: Sequence[GenerateOutcome | FailedAttempt],
    live: Collection[int] = (),
) -> None:
    """Settle lines as a worker's outcomes, and delete them; `book_outcomes` is the end of the transaction."""
    failed = [outcome.lease for outcome in outcomes if isinstance(outcome, FailedAttempt)]
    tokens = [outcome.chunk.lease.token for outcome in outcomes if isinstance(outcome, GenerateOutcome)]
    tokens += [lease.token for lease in failed]
    await settle_generated(connection, outcomes)
    if failed:
        await connection.execute(SQL.move_to_live, failed_line_rows(failed, live) | {"rounds": _ROUNDS})
    await connection.execute(SQL.delete_lines, {"id": batch.id, "tokens": tokens})


async def _require(
    connection: Connection, statement: Statement, batch: Batch, values: Mapping[str, Any] | None = None
) -> None:
    """Execute a statement that changes the row of a claimed batch.

    Raises:
        LeaseLost: another process has claimed the batch.
    """
    changed = await connection.execute(statement, _held(batch) | dict(values or {}))
    if changed.one_or_none() is None:
        raise LeaseLost("the lease on the batch has ended")


def _held(batch: Batch) -> dict[str, Any]:
    return {"id": batch.id, "token": batch.token}


def _billed(outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> dict[str, int]:
    """Return the tokens that the provider has charged for these outcomes."""
    return asdict(sum((outcome.cost.usage for outcome in outcomes if outcome.cost is not None), Usage()))


def _batch(row: Row) -> Batch:
    values = dict(row) | {"state": BatchState(row["state"]), "unanswered": Unanswered(row["unanswered"])}
    return Batch(**values)


def _content(row: Row) -> LineContent:
    content = row["content"]
    if content is None:
        return LineContent(row["token"], row["content_key"], None, None)
    return LineContent(row["token"], row["content_key"], ChunkContent.from_json(content), options_of(row["options"]))


def _sent(row: Row, tenant: str) -> SentLine:
    by_tier = usage_by_tier(row)
    return SentLine(
        lease=lease_of(row),
        document_id=row["document_id"],
        tenant=tenant,
        collection_id=row["collection_id"],
        content_key=row["content_key"],
        usage=total(by_tier),
        calls=row["calls"],
        by_tier=by_tier,
        questions=row["questions"],
        context=row["context"],
        job_id=row["job_id"],
    )
