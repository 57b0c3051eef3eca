"""The flow of work: claims under a lease, and settlements that a stale claim cannot make.

PostgreSQL's clock decides every time: a worker's clock decides nothing. Every settlement names the fencing token of its
claim, and may be applied twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from uuid import UUID

from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.outcomes import FailedAttempt, GenerateOutcome, IndexOutcome, ParseOutcome
from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.rates import Rates
from shared.domain.records import (
    ChunkToGenerate,
    ChunkToIndex,
    DocumentToParse,
    FinishableDocument,
    Lease,
    NewChunk,
    Sweep,
)
from shared.domain.retry import Dead
from shared.ledger import claims, feedback, rows, versions
from shared.ledger import statements as sql
from shared.ledger.database import Database

T = TypeVar("T")
NO_LIMITS = Rates()
_SLICE_CHUNKS = 2_000  # written in one transaction: a tenth of a second
_MOST_TWINS = 5_000  # of one settlement
_UNLIMITED = 2**62  # a tenant that is named without limits has none, whatever others have


@dataclass(frozen=True, slots=True)
class ClaimedChunks:
    """Chunks whose questions are to be generated, and how many chunks needed no call."""

    chunks: list[ChunkToGenerate]
    paid_already: int


class Work:
    """Claims and settlements of one worker.

    Args:
        database: the ledger.
        worker: a name by which a person can find the process.
        lease: how long a claim holds without being extended.
        weights: how much of the free slots tenants get; 1 is an equal share, and the default.
        limits: how much tenants may call the language model; none holds more chunks than these let begin soon.
        other_limits: the limits of all other tenants.
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
    ) -> None:
        self._database = database
        self._worker = worker
        self._weights = weights or {}
        self._limits = limits or {}
        self._other_limits = other_limits
        self.lease = lease

    # Parsing

    async def claim_documents(self, limit: int, *, suspects: bool = False) -> list[DocumentToParse]:
        """Claim documents to be parsed; with `suspects` suspects alone, for a worker that holds nothing else."""
        statement = claims.CLAIM_DOCUMENTS[suspects]
        async with self._database.begin() as connection:
            claimed = (await connection.execute(statement, self._claim(limit, suspects=suspects))).mappings().all()
            begun = await self._begin_anew(connection, [row["id"] for row in claimed]) if claimed else {}
        return [rows.claimed_document(row, begun.get(row["id"], row["version"])) for row in claimed]

    async def _begin_anew(self, connection: AsyncConnection, documents: Sequence[UUID]) -> dict[UUID, int]:
        """Begin the next version of claimed documents of which some chunks are written; return the new versions."""
        begun = await versions.begin_anew(connection, documents)
        await self._insert_sweeps(connection, [document for document in begun if document.live_version is None])
        return {document.id: document.version for document in begun}

    async def settle_parsed(self, parsed: Sequence[ParseOutcome]) -> set[UUID]:
        """Write the chunks of documents, which are due at once; return the documents whose claims still held.

        The chunks of a large document are written in slices, each in a transaction of its own. It is `parsing` until
        the last slice; if its worker dies before that, the next one begins with another version.
        """
        held: set[UUID] = set()
        for group in _groups(parsed):
            chunks = [(outcome.document.lease.id, chunk) for outcome in group for chunk in outcome.chunks]
            ahead, last = _slices(chunks)
            if all([await self._write_ahead(group[0].document.lease, some) for some in ahead]):
                held |= await self._settle_parsed(group, last)
        return held

    async def _write_ahead(self, lease: Lease, chunks: Sequence[tuple[UUID, NewChunk]]) -> bool:
        """Write some chunks of a document that is being parsed; return whether its claim still held."""
        async with self._database.begin() as connection:
            parameters = {"id": lease.id, "token": lease.token}
            if (await connection.execute(sql.HOLD_PARSING, parameters)).one_or_none() is None:
                return False
            await connection.execute(sql.INSERT_CHUNKS, rows.chunk_rows(chunks))
        return True

    async def _settle_parsed(self, group: Sequence[ParseOutcome], chunks: Sequence[tuple[UUID, NewChunk]]) -> set[UUID]:
        async with self._database.begin() as connection:
            held = set((await connection.execute(sql.SETTLE_PARSED, rows.parsed_rows(group))).scalars())
            chunks = [(document_id, chunk) for document_id, chunk in chunks if document_id in held]
            if chunks:
                await connection.execute(sql.INSERT_CHUNKS, rows.chunk_rows(chunks))
        return held

    async def settle_failed_documents(self, failures: Sequence[FailedAttempt]) -> None:
        """Record failed attempts to parse: another attempt later, or the state `failed` with its reason."""
        async with self._database.begin() as connection:
            await connection.execute(sql.FAIL_DOCUMENTS, rows.failure_rows(failures))

    # Generating

    async def claim_to_generate(self, limit: int, *, suspects: bool = False) -> ClaimedChunks:
        """Claim chunks whose questions are to be generated; a chunk whose content is paid for goes on at once."""
        statement = claims.CLAIM_TO_GENERATE[suspects]
        try:
            async with self._database.begin() as connection:
                parameters = self._claim(limit, suspects=suspects, limits=True)
                claimed = (await connection.execute(statement, parameters)).mappings().all()
                keys = [row["content_key"] for row in claimed]
                parameters = {"keys": keys, "worker": self._worker, "limit": _MOST_TWINS}
                paid = set((await connection.execute(sql.SETTLE_PAID_BEFORE, parameters)).scalars()) if keys else set()
        except exc.IntegrityError:
            # Another worker leased the same content since this transaction looked: the next claim leaves it out.
            return ClaimedChunks([], paid_already=0)
        chunks = [rows.chunk_to_generate(row) for row in claimed if row["content_key"] not in paid]
        return ClaimedChunks(chunks, paid_already=len(paid))

    async def settle_generated(self, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
        """Commit the questions that were paid for, before anything is done with them, and record the failures."""
        paid = [o for o in outcomes if isinstance(o, GenerateOutcome)]
        failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
        async with self._database.begin() as connection:
            if paid:
                await connection.execute(sql.INSERT_COMPLETIONS, rows.generated_rows(paid))
                await connection.execute(sql.SETTLE_PAID, rows.generated_rows(paid))
                keys = [p.chunk.content_key for p in paid]
                await connection.execute(sql.SETTLE_TWINS, {"keys": keys, "limit": _MOST_TWINS})
            if failed:
                await connection.execute(sql.FAIL_GENERATING, rows.failure_rows(failed))
            documents = sorted({o.chunk.document_id for o in paid})
            if documents:
                await connection.execute(sql.BEGIN_INDEXING, {"ids": documents})

    # Indexing

    async def claim_to_index(self, limit: int, *, suspects: bool = False) -> list[ChunkToIndex]:
        """Claim chunks to be indexed; with `suspects` suspects alone, for a worker that holds nothing else."""
        statement = claims.CLAIM_TO_INDEX[suspects]
        async with self._database.begin() as connection:
            claimed = (await connection.execute(statement, self._claim(limit, suspects=suspects))).mappings().all()
        return [rows.chunk_to_index(row) for row in claimed]

    async def settle_indexed(self, outcomes: Sequence[IndexOutcome]) -> set[Lease]:
        """Record chunks as indexed; return the leases that still held: the points of all others are stale."""
        async with self._database.begin() as connection:
            changed = (await connection.execute(sql.SETTLE_INDEXED, rows.indexed_rows(outcomes))).all()
            held = {(row.id, row.version) for row in changed}
            settled = [o for o in outcomes if (o.chunk.lease.id, o.chunk.lease.version) in held]
            await feedback.settle_accepted(
                connection, {question.id: state for o in settled for question, state in o.accepted}
            )
            await feedback.take_back_late(connection, [o.chunk for o in outcomes if o not in settled])
        return {o.chunk.lease for o in settled}

    async def settle_failed_indexing(self, failures: Sequence[FailedAttempt]) -> set[UUID]:
        """Record failed attempts to index; return the documents of these chunks."""
        async with self._database.begin() as connection:
            documents = set((await connection.execute(sql.FAIL_INDEXING, rows.failure_rows(failures))).scalars())
            await feedback.wait_again(connection, [f.lease.id for f in failures if isinstance(f.decision, Dead)])
        return documents

    # Documents whose chunks have all ended

    async def finishable(
        self, document_ids: Sequence[UUID] | None = None, *, limit: int = 100
    ) -> list[FinishableDocument]:
        """Return documents without an open chunk: all, or those among `document_ids`."""
        ids = None if document_ids is None else list(document_ids)
        async with self._database.begin() as connection:
            documents = (await connection.execute(sql.FINISHABLE, {"ids": ids, "limit": limit})).mappings().all()
        return [FinishableDocument(**row) for row in documents]

    async def finish(self, documents: Sequence[FinishableDocument]) -> None:
        """Make these versions the live ones, the older ones obsolete, and sweep once no lease on them can hold."""
        async with self._database.begin() as connection:
            ended = set((await connection.execute(sql.FINISH, rows.version_rows(documents))).scalars())
            # A document that has changed since Qdrant confirmed its points is not finished: its live version stays.
            replacing = [d for d in documents if d.id in ended and d.version > 1 and d.version != d.live_version]
            if replacing:
                await versions.supersede(connection, [d.id for d in replacing])
                await self._insert_sweeps(connection, replacing)
            await feedback.index_waiting(connection, sorted(ended))

    # Documents to delete, and points that a late writer left behind

    async def deletable(self, limit: int = 100) -> list[FinishableDocument]:
        """Return documents that their owners have deleted and whose versions are gone; points may still be there."""
        async with self._database.begin() as connection:
            documents = (await connection.execute(sql.DELETABLE, {"limit": limit})).mappings().all()
        return [FinishableDocument(**row) for row in documents]

    async def finish_deletion(self, documents: Sequence[FinishableDocument]) -> None:
        """Delete the rows of documents whose points are gone."""
        async with self._database.begin() as connection:
            await self._insert_sweeps(connection, documents)
            await connection.execute(sql.DELETE_DOCUMENTS, {"ids": [d.id for d in documents]})

    async def purge_versions(self) -> list[str]:
        """Delete versions that are neither live nor newest, some at a time; return uploads that nobody needs."""
        return await versions.purge(self._database)

    async def due_sweeps(self, limit: int = 100) -> list[Sweep]:
        """Return sweeps whose time has come: no lease that an older writer had can still hold."""
        async with self._database.begin() as connection:
            sweeps = (await connection.execute(sql.DUE_SWEEPS, {"limit": limit})).mappings().all()
        return [Sweep(**row) for row in sweeps]

    async def delete_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """Delete sweeps that are done."""
        async with self._database.begin() as connection:
            await connection.execute(sql.DELETE_SWEEPS, {"ids": [sweep.id for sweep in sweeps]})

    async def stale_below(self, document_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the version below which queries see no point of a document; deleted documents are missing."""
        async with self._database.begin() as connection:
            found = await connection.execute(sql.STALE_BELOW, {"ids": list(document_ids)})
            return {row.id: row.below for row in found}

    # Leases

    async def extend(self, table: str, leases: Sequence[Lease]) -> None:
        """Hold claims for another lease from now on; a lost lease stays lost."""
        async with self._database.begin() as connection:
            await connection.execute(sql.EXTEND[table], rows.lease_rows(leases) | {"lease": self.lease})

    async def give_back(self, table: str, leases: Sequence[Lease]) -> None:
        """End claims without an attempt: the rows are due at once."""
        async with self._database.begin() as connection:
            await connection.execute(sql.GIVE_BACK[table], rows.lease_rows(leases))

    async def due(self) -> list[WorkQueue]:
        """Return the queues whose stages have work that is due."""
        async with self._database.begin() as connection:
            row = (await connection.execute(claims.DUE)).mappings().one()
        return [queue for queue in WORK_QUEUES if row[queue]]

    def _claim(self, limit: int, *, suspects: bool, limits: bool = False) -> dict[str, Any]:
        common = {"limit": limit, "worker": self._worker, "lease": self.lease}
        if suspects:
            return common
        tenants = sorted({*self._weights, *self._limits})
        return common | {
            "tenants": tenants,
            "weights": [self._weights.get(tenant, 1) for tenant in tenants],
            "most": [self._most(tenant) if limits else None for tenant in tenants],
            "most_of_others": self._other_limits.calls_at_once if limits else None,
        }

    def _most(self, tenant: str) -> int:
        """Return how many chunks to generate a tenant may hold in the whole pool."""
        calls = self._limits.get(tenant, self._other_limits).calls_at_once
        return _UNLIMITED if calls is None else calls

    async def _insert_sweeps(self, connection: AsyncConnection, documents: Sequence[FinishableDocument]) -> None:
        parameters = rows.version_rows(documents) | {"after": self.lease * 2}
        await connection.execute(sql.INSERT_SWEEPS, parameters)


def _groups(parsed: Sequence[ParseOutcome]) -> list[list[ParseOutcome]]:
    """Divide outcomes into groups of at most one slice of chunks; a larger one is alone."""
    groups: list[list[ParseOutcome]] = []
    room = 0
    for outcome in parsed:
        room -= len(outcome.chunks)
        if not groups or room < 0:
            groups.append([])
            room = _SLICE_CHUNKS - len(outcome.chunks)
        groups[-1].append(outcome)
    return groups


def _slices(chunks: Sequence[T]) -> tuple[list[Sequence[T]], Sequence[T]]:
    """Return the slices but the last, and the last, which may be empty."""
    slices = [chunks[start : start + _SLICE_CHUNKS] for start in range(0, len(chunks), _SLICE_CHUNKS)]
    return slices[:-1], slices[-1] if slices else []
