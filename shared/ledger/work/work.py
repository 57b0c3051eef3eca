"""The flow of work: claims under a lease, and settlements that a stale claim cannot make.

All times are taken from PostgreSQL's clock, never from a worker's. Every settlement names the fencing token of its
claim, and may be applied twice.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar
from uuid import UUID

import structlog
from sqlalchemy import Row, RowMapping, TextClause, exc
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain import readers
from shared.domain.budgets import NO_TERMS, BudgetTerms, Reserve
from shared.domain.documents import DeletableDocument
from shared.domain.errors import BudgetExhausted, LeaseLost
from shared.domain.outcomes import FailedAttempt, GenerateOutcome, IndexOutcome, ParseOutcome, generate_cost
from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.rates import Rates
from shared.domain.retry import Dead
from shared.domain.states import DocumentState
from shared.domain.tiers import Tier
from shared.domain.usage import Cost, Usage, with_cost
from shared.domain.work import (
    POINTS_STAY,
    ChunkToGenerate,
    ChunkToIndex,
    DocumentToParse,
    EmbeddedChunk,
    HiddenVersion,
    Lease,
    LeaseExtension,
    NewChunk,
    PaidReply,
    Sweep,
)
from shared.ledger.budgets import holds
from shared.ledger.budgets.holds import Bill
from shared.ledger.documents import accepted_questions, build_sync, versions
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import rows, states
from shared.ledger.model.decoding import decoded
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Collided, Database, again_after_collision
from shared.ledger.work import claims, costs, reusable_vectors
from shared.ledger.work.leases import extend
from shared.process import metrics

T = TypeVar("T")
NO_LIMITS = Rates()
log = structlog.get_logger()
_SLICE_CHUNKS = 500  # chunks per transaction; the event loop blocks while their rows are encoded
_MOST_TWINS = 5_000  # of one settlement
_UNLIMITED = 2**62  # a tenant named without limits has none, regardless of `other_limits`
SQL = statements.load(
    Path(__file__).with_name("settlements.sql"),
    states.FRAGMENTS,
    is_called=claims.is_called,
    end_indexing=states.END_INDEXING.sets_where("v.dead", "t"),
    finish_state=states.FINISH.sets("{is_incomplete}"),
)
_RELEASE = {"documents": SQL.release_documents, "chunks": SQL.release_chunks}
_EXPIRE = {"documents": SQL.expire_documents, "chunks": SQL.expire_chunks}


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


class Work:
    """Claims and settlements of one worker.

    Args:
        database: the ledger.
        worker: name of the process, for readers of the ledger.
        lease: duration of a claim without extension.
        weights: relative shares of tenants in the free slots; default 1.
        limits: limits of tenants' calls to the language model; no tenant holds more chunks than these allow to start
            soon.
        other_limits: limits of all other tenants.
        terms: prices and the budgets of the settings.
        embeddings: names of the embeddings that the worker serves; chunks of others are not claimed for indexing.
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
        embeddings: Sequence[str] = (),
    ) -> None:
        self._database = database
        self._worker = worker
        self._weights = weights or {}
        self._limits = limits or {}
        self._other_limits = other_limits
        self._terms = terms
        self._embeddings = list(embeddings)
        self.lease = lease

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
            embeddings=terms.embeddings,
        )

    # Parsing

    @again_after_collision
    async def claim_documents(
        self,
        limit: int,
        *,
        held: Mapping[str, int] = MappingProxyType({}),
        most: int | None = None,
        suspects: bool = False,
    ) -> list[DocumentToParse]:
        """Claim documents to be parsed.

        Args:
            limit: maximum number of documents.
            held: number of documents of each tenant that this worker holds.
            most: maximum number of a tenant's documents that it may hold; None is unlimited.
            suspects: whether to claim suspects and nothing else, for a worker without other work.
        """
        statement = claims.CLAIM_DOCUMENTS[suspects]
        parameters = self._claim(limit, suspects=suspects)
        if not suspects:
            parameters |= {"most_of_others": most, "holders": list(held), "held": list(held.values())}
        await self._database.settlements_first()
        async with self._database.begin() as connection:
            claimed = (await connection.execute(statement, parameters)).mappings().all()
            started = await versions.restart(connection, [row["id"] for row in claimed]) if claimed else {}
        _count_lost("parse", claimed)
        return decoded("parse", lambda row: rows.claimed_document(row, started.get(row["id"], row["version"])), claimed)

    async def settle_parsed(self, parsed: Sequence[ParseOutcome]) -> set[UUID]:
        """Insert the chunks of documents, due at once; return the documents whose claims were valid.

        The chunks of a large document are inserted in slices, one transaction each. It is `parsing` until the last
        slice; if its worker dies earlier, the next worker starts another version.
        """
        await self._add_languages(parsed)
        held: set[UUID] = set()
        for group in _groups(parsed):
            chunks = [(outcome.document.lease.id, chunk) for outcome in group for chunk in outcome.chunks]
            ahead, last = _slices(chunks)
            if all([await self._write_ahead(group[0].document.lease, some) for some in ahead]):
                held |= await self._settle_parsed(group, last)
        return held

    async def _add_languages(self, parsed: Sequence[ParseOutcome]) -> None:
        """Add the new languages of a collection before queries find its first text in them.

        Each collection has a separate transaction, because uploads lock its row, too.
        """
        for collection_id, languages in rows.new_languages(parsed).items():
            async with self._database.begin() as connection:
                await connection.execute(SQL.add_languages, {"id": collection_id, "languages": sorted(languages)})

    async def _write_ahead(self, lease: Lease, chunks: Sequence[tuple[UUID, NewChunk]]) -> bool:
        """Insert some chunks of a document that is being parsed; return whether its claim is valid."""
        async with self._database.begin() as connection:
            parameters = {"id": lease.id, "token": lease.token, "lease": self.lease}
            if (await connection.execute(SQL.lock_parsing, parameters)).one_or_none() is None:
                return False
            await _insert_chunks(connection, chunks)
        return True

    async def _settle_parsed(self, group: Sequence[ParseOutcome], chunks: Sequence[tuple[UUID, NewChunk]]) -> set[UUID]:
        async with self._database.begin() as connection:
            held = set((await connection.execute(SQL.settle_parsed, rows.parsed_rows(group))).scalars())
            chunks = [(document_id, chunk) for document_id, chunk in chunks if document_id in held]
            if chunks:
                await _insert_chunks(connection, chunks)
        return held

    async def settle_failed_documents(self, failures: Sequence[FailedAttempt]) -> None:
        """Record failed attempts to parse: another attempt later, or the state `failed` with its reason."""
        parameters = rows.failure_rows(failures) | {"reader": readers.FAILED}
        async with self._database.begin() as connection:
            changed = (await connection.execute(SQL.fail_documents, parameters)).all()
            failed = [row.id for row in changed]
            # Users' questions for the live version waited for the next version, which will not be live.
            await accepted_questions.reindex_waiting(connection, failed)
            await build_sync.catch_up(connection, failed, failed=True)
        _log_finished(row for row in changed if row.state == DocumentState.FAILED)

    # Generating

    @again_after_collision
    async def claim_to_generate(
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
            Collided: other workers leased the same content repeatedly.
        """
        parameters = self._claim(limit, suspects=suspects)
        if not suspects:
            parameters |= self._most_chunks(bounds)
        await self._database.settlements_first()
        try:
            async with self._database.begin() as connection:
                return await claim_chunks(
                    connection,
                    self._terms,
                    claims.CLAIM_TO_GENERATE[suspects],
                    parameters,
                    key_of=key_of,
                    reserve_of=reserve_of,
                )
        except exc.IntegrityError as error:
            raise Collided("another worker leased the same content", component="ledger") from error

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
            row = rows.reply_rows(chunk, replies, usage, calls, with_cost(chunk.by_tier, cost))
            held = (await connection.execute(SQL.keep_replies, row)).scalars().all()
            await costs.record(connection, [cost])
            if chunk.reserve is not None:
                bill = _bill(chunk.lease.token, cost)
                fits = await holds.renew(connection, self._terms, bill, following if held else None)
        if not held:
            raise LeaseLost("the lease on the chunk has ended")
        if not fits:
            raise BudgetExhausted

    async def forget_replies(self, age: timedelta) -> bool:
        """Delete some older replies of incomplete questions; return whether more may be left."""
        parameters = {"age": age, "limit": _SLICE_CHUNKS}
        async with self._database.begin() as connection:
            return len((await connection.execute(SQL.delete_old_replies, parameters)).all()) == _SLICE_CHUNKS

    async def settle_generated(self, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
        """Commit paid questions before they are used, and record the failures.

        Their costs are recorded even if a claim has expired.
        """
        async with self._database.begin() as connection:
            await settle_generated(connection, outcomes)
            await book_outcomes(connection, self._terms, outcomes)

    # Indexing

    @again_after_collision
    async def claim_to_index(
        self, limit: int, *, embeddings: Sequence[str] | None = None, suspects: bool = False
    ) -> list[ChunkToIndex]:
        """Claim chunks to index whose collection has an embedding that this worker serves; others wait.

        Texts that are not searchable yet come first, but a quarter is reserved for chunks with questions, so that the
        upload of a corpus does not delay them.

        Args:
            limit: maximum number of chunks.
            embeddings: embeddings to claim now; None for all that the worker serves.
            suspects: whether to claim suspects only, for a worker without other work.
        """
        served = self._embeddings if embeddings is None else list(embeddings)
        parameters = self._claim(limit, suspects=suspects) | {"embeddings": served}
        await self._database.settlements_first()
        claimed = await self._database.rows(claims.CLAIM_TO_INDEX[suspects], parameters)
        _count_lost("index", claimed)
        return decoded("index", rows.chunk_to_index, claimed)

    async def find_embedded(self, chunks: Sequence[ChunkToIndex]) -> dict[Lease, list[EmbeddedChunk]]:
        """Find chunks with the same texts and existing points, in other builds and versions of the same documents.

        Only builds with the same embedding and the same Qdrant collection are searched.

        Returns:
            The chunks by lease; leases without any are missing.
        """
        return await reusable_vectors.find(self._database, chunks)

    async def settle_indexed(self, outcomes: Sequence[IndexOutcome]) -> set[Lease]:
        """Record chunks as indexed; return the leases that were still valid.

        The points of all others are stale: they are swept. So are chunks that another worker had before and may still
        write.
        """
        async with self._database.begin() as connection:
            await accepted_questions.hold_documents(connection, outcomes)
            await costs.record(connection, [o.cost for o in outcomes])
            texts = [o.chunk for o in outcomes if o.chunk.text_only]
            whole = [o for o in outcomes if not o.chunk.text_only]
            changed = list((await connection.execute(SQL.settle_text, rows.written_rows(texts))).all()) if texts else []
            changed += (await connection.execute(SQL.settle_indexed, rows.indexed_rows(whole))).all() if whole else []
            held = {(row.id, row.version) for row in changed}
            settled = [o for o in outcomes if (o.chunk.lease.id, o.chunk.lease.version) in held]
            stale = [o.chunk for o in outcomes if (o.chunk.lease.id, o.chunk.lease.version) not in held]
            await accepted_questions.mark_waiting(
                connection, [o.chunk.lease.id for o in settled if o.error and not o.accepted]
            )
            await accepted_questions.settle(connection, settled)
            await accepted_questions.delete_late_points(connection, stale)
            taken_over = [o.chunk for o in settled if o.chunk.lost_leases]
            await self._sweep_late(connection, stale, taken_over)
            await _touch(connection, [o.chunk.document_id for o in settled])
        return {o.chunk.lease for o in settled}

    async def settle_failed_indexing(self, failures: Sequence[FailedAttempt]) -> set[UUID]:
        """Record failed attempts to index; return the documents of these chunks.

        An attempt whose claim has expired may have written some points before it failed: they are swept.
        """
        async with self._database.begin() as connection:
            held = (await connection.execute(SQL.fail_indexing, rows.failure_rows(failures))).all()
            documents, tokens = {row.document_id for row in held}, {row.lease_token for row in held}
            stale = [f.chunk for f in failures if f.chunk is not None and f.lease.token not in tokens]
            await accepted_questions.delete_late_points(connection, stale)
            await self._sweep_late(connection, stale)
            await costs.record(connection, [f.cost for f in failures])
            await accepted_questions.mark_waiting(
                connection, [f.lease.id for f in failures if isinstance(f.decision, Dead)]
            )
            await _touch(connection, list(documents))
        return documents

    async def _sweep_late(
        self, connection: AsyncConnection, stale: Sequence[ChunkToIndex], taken_over: Sequence[ChunkToIndex] = ()
    ) -> None:
        """Sweep chunks that a late writer has written, and later the chunks that another worker may write."""
        late = [(chunk, False) for chunk in stale] + [(chunk, True) for chunk in taken_over]
        if late:
            parameters = rows.late_rows(late) | {"after": self._leases_expire_after, "points_stay": POINTS_STAY}
            await connection.execute(SQL.insert_late_sweeps, parameters)

    # Documents whose chunks have all ended

    async def find_ended(self, limit: int = 200) -> list[UUID]:
        """Return documents that were not advanced although their texts are all stored, or their chunks have all ended.

        A call checks at most `limit` documents, longest due first, and long-open documents less often: if many
        documents wait for a model, the call must stay short.
        """
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.check_open, {"limit": limit})).scalars())

    @again_after_collision
    async def finish(self, document_ids: Sequence[UUID], shown: Sequence[HiddenVersion] = ()) -> list[HiddenVersion]:
        """Make versions live whose texts are all stored, and finish documents whose chunks have all ended, among these.

        A version that replaces another becomes live when Qdrant shows it: from then on queries see it, and only it. The
        points of the replaced version are deleted when no search that has started before can still need them.

        Args:
            document_ids: ids of documents.
            shown: versions among them whose points Qdrant has made visible.

        Returns:
            The complete versions that are still hidden.
        """
        async with self._database.begin() as connection:
            ended = (await connection.execute(SQL.lock_advancing, {"ids": list(document_ids)})).all()
            if not ended:
                return []
            hidden, moved = await _show(connection, [row.id for row in ended if row.opening], shown)
            searchable = [row.id for row in ended if not row.opening] + [row.id for row in moved]
            finished = (await connection.execute(SQL.finish, {"ids": searchable})).all() if searchable else []
            moved += finished
            leading = sorted({row.id for row in moved if row.leads})
            if leading:
                await accepted_questions.copy_from_other_builds(connection, leading)
            followers = sorted({row.id for row in moved if row.follows})
            if followers:
                await accepted_questions.copy_from_live(connection, followers)
            await accepted_questions.reindex_waiting(connection, sorted({row.id for row in moved}))
            if followers:
                await build_sync.catch_up(connection, followers)
        _log_finished(finished)
        return hidden

    # Documents to delete, and points that differ from the ledger

    async def deletable(self, limit: int = 100) -> list[DeletableDocument]:
        """Return deleted documents whose versions are deleted; points may remain."""
        async with self._database.begin() as connection:
            documents = (await connection.execute(SQL.deletable, {"limit": limit})).mappings().all()
        return [DeletableDocument(**row) for row in documents]

    async def finish_deletion(self, documents: Sequence[DeletableDocument]) -> None:
        """Delete the rows of documents whose points are deleted."""
        async with self._database.begin() as connection:
            inserted = await versions.insert_sweeps(connection, [(d.id, d.version) for d in documents])
            again = {"ids": inserted, "after": self._leases_expire_after}
            await connection.execute(SQL.repeat_sweeps, again)
            await connection.execute(SQL.delete_documents, {"ids": [d.id for d in documents]})

    async def postpone_deletion(self, documents: Sequence[DeletableDocument]) -> None:
        """Postpone the deletion of these documents."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.postpone_deletion, {"ids": [d.id for d in documents]})

    async def purge_versions(self) -> list[str]:
        """Delete some versions that are neither live nor newest; return unreferenced uploads."""
        return await versions.purge(self._database)

    async def due_sweeps(self, limit: int = 100) -> list[Sweep]:
        """Return due sweeps, longest due first."""
        async with self._database.begin() as connection:
            sweeps = (await connection.execute(SQL.due_sweeps, {"limit": limit})).mappings().all()
        return [Sweep(**row) for row in sweeps]

    async def postpone_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """Postpone these sweeps."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.postpone_sweeps, {"ids": [s.id for s in sweeps]})

    async def settle_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """Record sweeps as done; some are repeated when all leases of late writers have expired."""
        again = [sweep.id for sweep in sweeps if sweep.again]
        async with self._database.begin() as connection:
            await connection.execute(SQL.delete_sweeps, {"ids": [s.id for s in sweeps if not s.again]})
            await connection.execute(SQL.repeat_sweeps, {"ids": again, "after": self._leases_expire_after})

    # Leases

    async def extend(self, table: str, leases: Sequence[Lease]) -> LeaseExtension:
        """Extend claims from now on; a lost lease stays lost."""
        async with self._database.begin() as connection:
            extension = await extend(connection, table, leases, self.lease)
            if table == "chunks":
                tokens = [lease.token for lease in leases]
                await connection.execute(SQL.extend_calls, {"tokens": tokens, "lease": self.lease})
            return extension

    async def release(
        self,
        table: str,
        leases: Sequence[Lease],
        spent: Sequence[Cost] = (),
        *,
        lost: bool = False,
        called: Collection[Lease] = (),
    ) -> None:
        """Release claims without an attempt: the rows are due at once.

        Args:
            table: `documents` or `chunks`.
            leases: leases of the claims.
            spent: their costs.
            lost: whether they count as lost, because the work itself may have been the reason. Their reservations are
                booked like the reservations of expired leases.
            called: leases with a call whose bill will not arrive.
        """
        async with self._database.begin() as connection:
            await costs.record(connection, spent)
            await connection.execute((_EXPIRE if lost else _RELEASE)[table], rows.lease_rows(leases))
            if table == "chunks" and lost:
                await connection.execute(SQL.end_calls, {"tokens": [lease.token for lease in leases]})
            elif table == "chunks":
                await end_calls(connection, self._terms, [Bill(o.token, is_incomplete=o in called) for o in leases])

    async def due(self) -> list[WorkQueue]:
        """Return the queues of stages with due work."""
        (row,) = await self._database.rows(claims.DUE.due)
        return [queue for queue in WORK_QUEUES if row[queue]]

    def _claim(self, limit: int, *, suspects: bool) -> dict[str, Any]:
        common = {"limit": limit, "worker": self._worker, "lease": self.lease}
        if suspects:
            return common
        tenants = sorted({*self._weights, *self._limits})
        return common | {
            "tenants": tenants,
            "weights": [self._weights.get(tenant, 1) for tenant in tenants],
            "most": [None for _ in tenants],
            "most_of_others": None,
        }

    def _most_chunks(self, bounds: Mapping[str, int]) -> dict[str, Any]:
        """Return the tenants of a claim to generate, and the bounds on the chunks that they may hold."""
        tenants = sorted({*self._weights, *self._limits, *bounds})
        return {
            "tenants": tenants,
            "weights": [self._weights.get(tenant, 1) for tenant in tenants],
            "most": [min(self._most(tenant), bounds.get(tenant, _UNLIMITED)) for tenant in tenants],
            "most_of_others": self._other_limits.calls_at_once,
        }

    def _most(self, tenant: str) -> int:
        """Return the maximum number of claimed chunks to generate of a tenant, in all workers together."""
        calls = self._limits.get(tenant, self._other_limits).calls_at_once
        return _UNLIMITED if calls is None else calls

    @property
    def _leases_expire_after(self) -> timedelta:
        """The time after which every lease that is valid now has certainly expired."""
        return self.lease * 2


async def claim_chunks(
    connection: AsyncConnection,
    terms: BudgetTerms,
    statement: TextClause,
    parameters: Mapping[str, Any],
    *,
    key_of: Callable[[ChunkToGenerate], bytes] | None,
    reserve_of: Callable[[ChunkToGenerate], Reserve] | None,
) -> ClaimedChunks:
    """Claim chunks by a statement in its transaction, and reserve their calls, as `Work.claim_to_generate` does.

    Nothing that may wait for a lock follows in the transaction, because it holds the rows of budgets.
    `parameters["worker"]` is the holder of the leases: a worker or a batch.
    """
    claimed = (await connection.execute(statement, parameters)).mappings().all()
    chunks = decoded("generate", rows.chunk_to_generate, claimed)
    taken = await _set_keys(connection, chunks, key_of) if key_of else []
    keys = [chunk.content_key for chunk in [*chunks, *taken]]
    paid = await _settle_paid_before(connection, keys, parameters["worker"])
    chunks = [chunk for chunk in chunks if chunk.content_key not in paid]
    unpaid = len(chunks)
    if chunks and reserve_of is not None and _has_budgets(terms, claimed):
        chunks = await _reserve(connection, terms, [(chunk, reserve_of(chunk)) for chunk in chunks])
    _count_lost("generate", claimed)
    left = [chunk for chunk in taken if chunk.content_key not in paid]
    return ClaimedChunks(chunks, paid_already=len(paid), left=len(left), refused=unpaid - len(chunks))


def _has_budgets(terms: BudgetTerms, claimed: Sequence[RowMapping]) -> bool:
    """Return whether a budget in the ledger or in the settings may cover claimed chunks."""
    return claimed[0]["has_budgets"] or any(terms.limits_of(tenant) for tenant in {row["tenant"] for row in claimed})


async def _reserve(
    connection: AsyncConnection, terms: BudgetTerms, calls: Sequence[tuple[ChunkToGenerate, Reserve]]
) -> list[ChunkToGenerate]:
    """Reserve the cost of calls, release the chunks that do not fit, and return the others."""
    refused = await holds.hold(connection, terms, calls)
    if refused:
        released = [chunk.lease for chunk, _ in calls if chunk.lease.token in refused]
        await connection.execute(SQL.release_chunks, rows.lease_rows(released))
    return [replace(chunk, reserve=reserve) for chunk, reserve in calls if chunk.lease.token not in refused]


async def _settle_paid_before(connection: AsyncConnection, keys: Sequence[bytes], holder: str) -> set[bytes]:
    if not keys:
        return set()
    parameters = {"keys": list(keys), "worker": holder, "limit": _MOST_TWINS}
    return set((await connection.execute(SQL.settle_paid_before, parameters)).scalars())


async def settle_generated(connection: AsyncConnection, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
    """Commit outcomes in a transaction; `book_outcomes` is the end of the transaction."""
    paid = [o for o in outcomes if isinstance(o, GenerateOutcome)]
    failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
    if paid:
        await connection.execute(SQL.insert_completions, rows.generated_rows(paid))
        await connection.execute(SQL.settle_paid, rows.generated_rows(paid))
        keys = [p.chunk.content_key for p in paid]
        await connection.execute(SQL.settle_same_content, {"keys": keys, "limit": _MOST_TWINS})
    if failed:
        await connection.execute(SQL.fail_generating, rows.failure_rows(failed))
    await costs.record(connection, [o.cost for o in outcomes])
    await _touch(connection, [o.chunk.document_id for o in paid])


async def book_outcomes(
    connection: AsyncConnection, terms: BudgetTerms, outcomes: Sequence[GenerateOutcome | FailedAttempt]
) -> None:
    """Replace the reservations of committed outcomes by their bills, as the last statement of the transaction."""
    bills = [
        _bill(o.chunk.lease.token, o.cost)
        if isinstance(o, GenerateOutcome)
        else _bill(o.lease.token, o.cost, is_incomplete=o.is_bill_incomplete)
        for o in outcomes
    ]
    await end_calls(connection, terms, bills)


async def end_calls(connection: AsyncConnection, terms: BudgetTerms, bills: Sequence[Bill]) -> None:
    """Delete the marks of calls that have ended, and book their bills if they have reserved something."""
    ended = await connection.execute(SQL.end_calls, {"tokens": [bill.token for bill in bills]})
    if reserved := set(ended.scalars()):
        await holds.settle(connection, terms, [bill for bill in bills if bill.token in reserved])


async def _insert_chunks(connection: AsyncConnection, chunks: Sequence[tuple[UUID, NewChunk]]) -> None:
    await connection.execute(SQL.share_completions, {"keys": [chunk.content_key for _, chunk in chunks]})
    await connection.execute(SQL.insert_chunks, rows.chunk_rows(chunks))


async def _touch(connection: AsyncConnection, documents: Sequence[UUID]) -> None:
    """Mark documents whose chunks have changed, without taking locks that another transaction waits for."""
    if documents:
        await connection.execute(SQL.touch, {"ids": sorted(set(documents))})


async def _show(
    connection: AsyncConnection, ids: Sequence[UUID], shown: Sequence[HiddenVersion]
) -> tuple[list[HiddenVersion], list[Row[Any]]]:
    """Make complete versions of locked documents live; return the hidden ones, and the documents that moved."""
    if not ids:
        return [], []
    visible = rows.version_rows([(each.document_id, each.version) for each in shown])
    moved = (await connection.execute(SQL.show, visible | {"ids": ids})).all()
    if replaced := [row.id for row in moved if row.replaces]:
        await versions.supersede(connection, replaced, were_live=True)
    others = sorted(set(ids) - {row.id for row in moved})
    if not others:
        return [], list(moved)
    hidden = (await connection.execute(SQL.hidden_versions, {"ids": others})).mappings().all()
    return [HiddenVersion(**row) for row in hidden], list(moved)


def is_large(parsed: ParseOutcome) -> bool:
    """Return whether `settle_parsed` needs several transactions for a document."""
    return len(parsed.chunks) > _SLICE_CHUNKS


def _groups(parsed: Sequence[ParseOutcome]) -> list[list[ParseOutcome]]:
    """Divide outcomes into groups of at most one slice of chunks; a larger outcome is a separate group.

    Large outcomes are last: their slices take seconds, and other documents may belong to another tenant.
    """
    groups: list[list[ParseOutcome]] = []
    free = 0
    for outcome in sorted(parsed, key=lambda outcome: len(outcome.chunks)):
        free -= len(outcome.chunks)
        if not groups or free < 0:
            groups.append([])
            free = _SLICE_CHUNKS - len(outcome.chunks)
        groups[-1].append(outcome)
    return groups


def _slices(chunks: Sequence[T]) -> tuple[list[Sequence[T]], Sequence[T]]:
    """Return all slices but the last, and the last one, which may be empty."""
    slices = [chunks[start : start + _SLICE_CHUNKS] for start in range(0, len(chunks), _SLICE_CHUNKS)]
    return slices[:-1], slices[-1] if slices else []


async def _set_keys(
    connection: AsyncConnection, chunks: list[ChunkToGenerate], key_of: Callable[[ChunkToGenerate], bytes]
) -> list[ChunkToGenerate]:
    """Set the keys of claimed chunks to the keys of the requests about to be sent.

    Chunks whose new key another worker pays for are removed from `chunks` and returned: their leases have ended.
    """
    changed = [(chunk, key) for chunk in chunks if (key := key_of(chunk)) != chunk.content_key]
    if not changed:
        return []
    await connection.execute(SQL.share_completions, {"keys": [key for _, key in changed]})
    found = {row.token: row for row in await connection.execute(SQL.set_keys, rows.key_rows(changed))}
    keys = {chunk.lease.token: key for chunk, key in changed}
    renewed = [
        replace(chunk, content_key=keys[token], replies=rows.replies(found[token].replies)) if token in found else chunk
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


def _log_finished(documents: Iterable[Row[Any]]) -> None:
    for row in documents:
        ids = {"document_id": str(row.id), "collection_id": str(row.collection_id), "tenant": row.tenant}
        log.info("document.ended", **ids, state=row.state)


def _count_lost(stage: WorkQueue, claimed: Sequence[RowMapping]) -> None:
    """Count claims of rows with lost leases; such a row stays marked until an attempt has ended."""
    if lost := sum(row["lost_leases"] > 0 for row in claimed):
        metrics.LEASES_LOST.labels(stage).inc(lost)
