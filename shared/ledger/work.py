"""The flow of work: claims under a lease, and settlements that a stale claim cannot make.

Times are PostgreSQL's own: a worker's clock decides nothing. Every settlement names the fencing token of its claim, and
every one may be applied twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import exc, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.outcomes import FailedAttempt, GenerateOutcome, IndexOutcome, ParseOutcome
from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.rates import Rates
from shared.domain.records import ChunkToGenerate, ChunkToIndex, DocumentToParse, FinishableDocument, Lease, Sweep
from shared.domain.retry import Dead
from shared.ledger import claims, feedback, rows
from shared.ledger import statements as sql
from shared.ledger.database import Database

NO_LIMITS = Rates()
_ANY = 2**62  # a tenant that is named without limits has none, whatever others have


@dataclass(frozen=True, slots=True)
class ClaimedChunks:
    """Chunks to be asked, and how many needed no call."""

    chunks: list[ChunkToGenerate]
    paid_already: int


class Work:
    """Claims and settlements of one worker.

    Args:
        database: the ledger.
        worker: a name that a person can find the process by.
        lease: how long a claim holds without being extended.
        weights: tenants that get more than an equal share of the free slots, or less; 1 is an equal one.
        limits: what tenants may ask of the language model; none holds more chunks than these let begin soon.
        other_limits: those of all other tenants.
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

    # Documents that wait to be parsed

    async def claim_documents(self, limit: int, *, suspects: bool = False) -> list[DocumentToParse]:
        """Claim documents to be parsed; with `suspects` only those, which are to be worked on alone."""
        statement = claims.CLAIM_DOCUMENTS[suspects]
        async with self._database.begin() as connection:
            found = (await connection.execute(statement, self._claim(limit, suspects=suspects))).mappings().all()
        return [rows.claimed_document(row) for row in found]

    async def settle_parsed(self, parsed: Sequence[ParseOutcome]) -> set[UUID]:
        """Write the chunks of documents and let them go on; return the documents whose claims still held."""
        async with self._database.begin() as connection:
            held = set((await connection.execute(sql.SETTLE_PARSED, rows.parsed_arrays(parsed))).scalars())
            chunks = [(p.document.lease.id, chunk) for p in parsed if p.document.lease.id in held for chunk in p.chunks]
            if chunks:
                await connection.execute(sql.INSERT_CHUNKS, rows.chunk_arrays(chunks))
        return held

    async def settle_failed_documents(self, failures: Sequence[FailedAttempt]) -> None:
        """Record failed attempts at parsing: another attempt later, or the state `failed` with its reason."""
        async with self._database.begin() as connection:
            await connection.execute(sql.FAIL_DOCUMENTS, rows.failure_arrays(failures))

    # Chunks whose questions are to be written

    async def claim_to_generate(self, limit: int, *, suspects: bool = False) -> ClaimedChunks:
        """Claim chunks to be asked; those whose content is paid for already go on at once."""
        statement = claims.CLAIM_TO_GENERATE[suspects]
        try:
            async with self._database.begin() as connection:
                parameters = self._claim(limit, suspects=suspects, limits=True)
                found = (await connection.execute(statement, parameters)).mappings().all()
                keys = [row["content_key"] for row in found]
                parameters = {"keys": keys, "worker": self._worker}
                paid = set((await connection.execute(sql.PAID, parameters)).scalars()) if keys else set()
        except exc.IntegrityError:
            # Another worker leased the same content between our look and our claim: the next look will not see it.
            return ClaimedChunks([], paid_already=0)
        return ClaimedChunks(
            [rows.chunk_to_generate(row) for row in found if row["content_key"] not in paid], paid_already=len(paid)
        )

    async def settle_generated(self, outcomes: Sequence[GenerateOutcome | FailedAttempt]) -> None:
        """Commit what was paid for, before anything else is done with it, and record the failures."""
        paid = [o for o in outcomes if isinstance(o, GenerateOutcome)]
        failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
        async with self._database.begin() as connection:
            if paid:
                await connection.execute(sql.INSERT_COMPLETIONS, rows.completion_arrays(paid))
                await connection.execute(sql.SETTLE_PAID, rows.paid_arrays(paid))
                await connection.execute(sql.SETTLE_TWINS, {"keys": [p.chunk.content_key for p in paid]})
            if failed:
                await connection.execute(sql.FAIL_GENERATING, rows.failure_arrays(failed))
            documents = sorted({o.chunk.document_id for o in paid})
            if documents:
                await connection.execute(sql.GENERATED_DOCUMENTS, {"ids": documents})

    # Chunks whose questions are to be indexed

    async def claim_to_index(self, limit: int, *, suspects: bool = False) -> list[ChunkToIndex]:
        """Claim chunks to be indexed; with `suspects` only those, which are to be worked on alone."""
        statement = claims.CLAIM_TO_INDEX[suspects]
        async with self._database.begin() as connection:
            found = (await connection.execute(statement, self._claim(limit, suspects=suspects))).mappings().all()
        return [rows.chunk_to_index(row) for row in found]

    async def settle_indexed(self, outcomes: Sequence[IndexOutcome]) -> set[Lease]:
        """Record chunks as indexed; return the leases that were still held: the points of the others are stale."""
        async with self._database.begin() as connection:
            found = (await connection.execute(sql.SETTLE_INDEXED, rows.indexed_arrays(outcomes))).all()
            held = {(row.id, row.version) for row in found}
            settled = [o for o in outcomes if (o.chunk.lease.id, o.chunk.lease.version) in held]
            await feedback.written(connection, {own.id: state for o in settled for own, state in o.accepted})
            await feedback.take_back_late(connection, [o.chunk for o in outcomes if o not in settled])
        return {o.chunk.lease for o in settled}

    async def settle_failed_indexing(self, failures: Sequence[FailedAttempt]) -> set[UUID]:
        """Record failed attempts at indexing; return the documents that they belong to."""
        async with self._database.begin() as connection:
            documents = set((await connection.execute(sql.FAIL_INDEXING, rows.failure_arrays(failures))).scalars())
            await feedback.wait_again(connection, [f.lease.id for f in failures if isinstance(f.decision, Dead)])
        return documents

    # Documents whose chunks have all ended

    async def finishable(
        self, document_ids: Sequence[UUID] | None = None, *, limit: int = 100
    ) -> list[FinishableDocument]:
        """Return documents with no open chunk: all of them, or those among `document_ids`."""
        ids = None if document_ids is None else list(document_ids)
        async with self._database.begin() as connection:
            found = (await connection.execute(sql.FINISHABLE, {"ids": ids, "limit": limit})).mappings().all()
        return [FinishableDocument(**row) for row in found]

    async def finish(self, documents: Sequence[FinishableDocument]) -> None:
        """Make these versions the live ones; older ones are forgotten, and swept once no lease can still be held."""
        async with self._database.begin() as connection:
            ended = set((await connection.execute(sql.FINISH, _versions(documents))).scalars())
            # What has changed since Qdrant was asked is not finished, and keeps what queries see of it.
            replacing = [d for d in documents if d.id in ended and d.version > 1 and d.version != d.live_version]
            if replacing:
                await connection.execute(sql.FORGET, _versions(replacing))
                await feedback.forget_without_chunk(connection, [d.id for d in replacing])
                await self._insert_sweeps(connection, replacing)
            await feedback.write_waiting(connection, sorted(ended))

    # Documents that were deleted, and points that a late writer left behind

    async def deleted(self, limit: int = 100) -> list[FinishableDocument]:
        async with self._database.begin() as connection:
            found = (await connection.execute(sql.DELETED, {"limit": limit})).mappings().all()
        return [FinishableDocument(**row) for row in found]

    async def forget(self, documents: Sequence[FinishableDocument]) -> list[str]:
        """Remove deleted documents whose points are gone; return the uploads that nobody needs any more."""
        async with self._database.begin() as connection:
            await self._insert_sweeps(connection, documents)
            found = await connection.execute(sql.FORGET_DELETED, {"ids": [d.id for d in documents]})
            return list(found.scalars())

    async def due_sweeps(self, limit: int = 100) -> list[Sweep]:
        async with self._database.begin() as connection:
            found = (await connection.execute(sql.DUE_SWEEPS, {"limit": limit})).mappings().all()
        return [Sweep(**row) for row in found]

    async def settle_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        async with self._database.begin() as connection:
            await connection.execute(text("DELETE FROM sweeps WHERE id = ANY(:ids)"), {"ids": [s.id for s in sweeps]})

    async def stale_below(self, document_ids: Sequence[UUID]) -> dict[UUID, int]:
        """Return the version below which nobody sees a document's points; a document that is gone is missing."""
        statement = text(
            "SELECT id, coalesce(live_version, version) AS below FROM documents"
            " WHERE id = ANY(:ids) AND state <> 'deleting'"
        )
        async with self._database.begin() as connection:
            return {row.id: row.below for row in await connection.execute(statement, {"ids": list(document_ids)})}

    # Leases

    async def extend(self, table: str, leases: Sequence[Lease]) -> None:
        """Hold claims for another lease from now on; those that were lost stay lost."""
        async with self._database.begin() as connection:
            await connection.execute(sql.EXTEND[table], rows.lease_arrays(leases) | {"lease": self.lease})

    async def give_back(self, table: str, leases: Sequence[Lease]) -> None:
        """End claims without an attempt: the rows are due at once."""
        async with self._database.begin() as connection:
            await connection.execute(sql.GIVE_BACK[table], rows.lease_arrays(leases))

    async def due(self) -> list[WorkQueue]:
        """Return the queues on which anything is due."""
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
        """How many chunks to ask one tenant may hold in the whole pool."""
        calls = self._limits.get(tenant, self._other_limits).calls_at_once
        return _ANY if calls is None else calls

    async def _insert_sweeps(self, connection: AsyncConnection, documents: Sequence[FinishableDocument]) -> None:
        parameters = {
            "index_names": [d.index_name for d in documents],
            "tenants": [d.tenant for d in documents],
            "ids": [d.id for d in documents],
            "versions": [d.version for d in documents],
            "after": self.lease * 2,
        }
        await connection.execute(sql.INSERT_SWEEPS, parameters)


def _versions(documents: Sequence[FinishableDocument]) -> dict[str, Any]:
    return {"ids": [d.id for d in documents], "versions": [d.version for d in documents]}
