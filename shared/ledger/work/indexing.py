"""The work of index workers: chunks are claimed, and recorded as indexed when Qdrant has confirmed their points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Self
from uuid import UUID

from shared.domain.retry import Dead
from shared.domain.spending.usage import Cost
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.indexing import ChunkToIndex, EmbeddedChunk, FailedIndexing, IndexOutcome
from shared.domain.stages.work import Lease, LeaseExtension
from shared.ledger.documents import accepted_questions, descriptions
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import states
from shared.ledger.model.decoding import decoded
from shared.ledger.model.rows.attempts import failure_rows
from shared.ledger.model.rows.indexing import chunk_to_index, indexed_rows, written_rows
from shared.ledger.model.rows.questions import disabled_of, disabled_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.work import attempt_costs, claims, document_events, failures, leases, reusable_vectors
from shared.ledger.work.claims import StageWork
from shared.ledger.work.leftovers import sweep_late

SQL = statements.load(
    __file__,
    {**states.FRAGMENTS, **failures.FRAGMENTS},
    end_indexing=states.END_INDEXING.sets_where("v.dead", "t"),
    disabled_of=disabled_of,
)
CLAIMS = statements.load(Path(__file__).with_name("claims_index.sql"), claims.FRAGMENTS, disabled_of=disabled_of)
# The claim of ordinary work under False, and the claim of suspects under True.
_CLAIM = {False: CLAIMS.claim_to_index, True: CLAIMS.claim_suspects_to_index}


class IndexWork(StageWork):
    """Claims and settlements of chunks to index by one worker.

    Args:
        database: the ledger.
        worker: name of the process, for readers of the ledger.
        lease: duration of a claim without extension.
        weights: relative shares of tenants in the free slots; default 1.
        embeddings: names of the embeddings that the worker serves; chunks of others are not claimed.
    """

    def __init__(
        self,
        database: Database,
        *,
        worker: str,
        lease: timedelta,
        weights: Mapping[str, float] | None = None,
        embeddings: Sequence[str] = (),
    ) -> None:
        super().__init__(database, worker=worker, lease=lease, weights=weights)
        self._embeddings = list(embeddings)

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, worker=terms.worker, lease=terms.lease, weights=terms.weights, embeddings=terms.embeddings)

    @again_after_collision
    async def claim(
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
        claimed = await self._database.rows(_CLAIM[suspects], parameters)
        claims.count_lost("index", claimed)
        return decoded("index", chunk_to_index, claimed)

    async def find_embedded(self, chunks: Sequence[ChunkToIndex]) -> dict[Lease, list[EmbeddedChunk]]:
        """Find chunks with the same texts and existing points, in other builds and versions of the same documents.

        Only builds with the same embedding and the same Qdrant collection are searched.

        Returns:
            The chunks by lease; leases without any are missing.
        """
        return await reusable_vectors.find(self._database, chunks)

    async def settle(self, outcomes: Sequence[IndexOutcome]) -> set[Lease]:
        """Record chunks as indexed; return the leases that were still valid.

        The points of all others are stale: they are swept. So are chunks that another worker had before and may still
        write.
        """
        async with self._database.begin() as connection:
            await accepted_questions.hold_documents(connection, outcomes)
            await attempt_costs.record(connection, [o.cost for o in outcomes])
            texts = [o.chunk for o in outcomes if o.chunk.text_only]
            whole = [o for o in outcomes if not o.chunk.text_only]
            changed = list((await connection.execute(SQL.settle_text, written_rows(texts))).all()) if texts else []
            indexed = (await connection.execute(SQL.settle_indexed, indexed_rows(whole))).all() if whole else []
            changed += indexed
            held = {(row.id, row.version) for row in changed}
            settled = [o for o in outcomes if (o.chunk.lease.id, o.chunk.lease.version) in held]
            stale = [o.chunk for o in outcomes if (o.chunk.lease.id, o.chunk.lease.version) not in held]
            if outdated := _with_other_disabled(settled, indexed):
                await descriptions.mark(connection, outdated)
            await accepted_questions.mark_waiting(
                connection, [o.chunk.lease.id for o in settled if o.error and not o.accepted]
            )
            await accepted_questions.settle(connection, settled)
            await accepted_questions.delete_late_points(connection, stale)
            taken_over = [o.chunk for o in settled if o.chunk.lost_leases]
            await sweep_late(connection, self.lease, stale, taken_over)
            await document_events.touch(connection, [o.chunk.document_id for o in settled])
        return {o.chunk.lease for o in settled}

    async def settle_failed(self, failures: Sequence[FailedAttempt]) -> set[UUID]:
        """Record failed attempts to index; return the documents of these chunks.

        An attempt whose claim has expired may have written some points before it failed: they are swept.
        """
        async with self._database.begin() as connection:
            held = (await connection.execute(SQL.fail_indexing, failure_rows(failures))).all()
            documents, tokens = {row.document_id for row in held}, {row.lease_token for row in held}
            stale = [f.chunk for f in failures if isinstance(f, FailedIndexing) and f.lease.token not in tokens]
            await accepted_questions.delete_late_points(connection, stale)
            await sweep_late(connection, self.lease, stale)
            await attempt_costs.record(connection, [f.cost for f in failures])
            await accepted_questions.mark_waiting(
                connection, [f.lease.id for f in failures if isinstance(f.decision, Dead)]
            )
            await document_events.touch(connection, list(documents))
        return documents

    async def extend(self, held: Sequence[Lease]) -> LeaseExtension:
        """Extend claims from now on; a lost lease stays lost."""
        async with self._database.begin() as connection:
            return await leases.extend(connection, "chunks", held, self.lease)

    async def release(self, held: Sequence[Lease], spent: Sequence[Cost] = (), *, lost: bool = False) -> None:
        """Release claims without an attempt: the chunks are due at once.

        Args:
            held: leases of the claims.
            spent: their costs.
            lost: whether they count as lost, because the chunk itself may have been the reason.
        """
        async with self._database.begin() as connection:
            await attempt_costs.record(connection, spent)
            await leases.release(connection, "chunks", held, lost=lost)


def _with_other_disabled(settled: Sequence[IndexOutcome], indexed: Sequence[Row]) -> list[UUID]:
    """Return the documents whose disabled questions have changed since their chunks were claimed.

    Their points are updated. The rows were read after the points had been written, so a later change updates them, too.
    """
    claimed = {(o.chunk.lease.id, o.chunk.lease.version): o.chunk.disabled for o in settled}
    return sorted({row.document_id for row in indexed if disabled_questions(row) != claimed[row.id, row.version]})
