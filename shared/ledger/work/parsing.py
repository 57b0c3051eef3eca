"""The work of parse workers: documents are claimed, and divided into chunks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Self, TypeVar
from uuid import UUID

from shared.domain.corpus import readers
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.parsing import DocumentToParse, NewChunk, ParseOutcome
from shared.domain.stages.work import Lease, LeaseExtension
from shared.domain.states import DocumentState
from shared.ledger.documents import accepted_questions, build_sync, versions
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import collection_fields, states
from shared.ledger.model.decoding import decoded
from shared.ledger.model.rows.attempts import failure_rows
from shared.ledger.model.rows.parsing import chunk_rows, claimed_document, new_fields, new_languages, parsed_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.work import claims, document_events, failures, leases, paid_contents
from shared.ledger.work.claims import StageWork

T = TypeVar("T")
_SLICE_CHUNKS = 500  # chunks per transaction; the event loop blocks while their rows are encoded
SQL = statements.load(__file__, {**states.FRAGMENTS, **failures.FRAGMENTS, **collection_fields.FRAGMENTS})
CLAIMS = statements.load(Path(__file__).with_name("claims_parse.sql"), claims.FRAGMENTS)
# The claim of ordinary work under False, and the claim of suspects under True.
_CLAIM = {False: CLAIMS.claim_documents, True: CLAIMS.claim_suspect_documents}


class ParseWork(StageWork):
    """Claims and settlements of documents by one worker."""

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, worker=terms.worker, lease=terms.lease, weights=terms.weights)

    @again_after_collision
    async def claim(
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
        parameters = self._claim(limit, suspects=suspects, most_of_others=most)
        if not suspects:
            parameters |= {"holders": list(held), "held": list(held.values())}
        await self._database.settlements_first()
        async with self._database.begin() as connection:
            claimed = (await connection.execute(_CLAIM[suspects], parameters)).all()
            started = await versions.restart(connection, [row["id"] for row in claimed]) if claimed else {}
        claims.count_lost("parse", claimed)
        return decoded("parse", lambda row: claimed_document(row, started.get(row["id"], row["version"])), claimed)

    async def settle(self, parsed: Sequence[ParseOutcome]) -> set[UUID]:
        """Insert the chunks of documents, due at once; return the documents whose claims were valid.

        The chunks of a large document are inserted in slices, one transaction each. It is `parsing` until the last
        slice; if its worker dies earlier, the next worker starts another version.
        """
        await self._add_languages(parsed)
        await self._add_fields(parsed)
        held: set[UUID] = set()
        for group in _groups(parsed):
            chunks = [(outcome.document.lease.id, chunk) for outcome in group for chunk in outcome.chunks]
            ahead, last = _slices(chunks)
            if all([await self._write_ahead(group[0].document.lease, some) for some in ahead]):
                held |= await self._settle(group, last)
        return held

    async def _add_languages(self, parsed: Sequence[ParseOutcome]) -> None:
        """Add the new languages of a collection before queries find its first text in them.

        Each collection has a separate transaction, because uploads lock its row, too.
        """
        for collection_id, languages in new_languages(parsed).items():
            async with self._database.begin() as connection:
                await connection.execute(SQL.add_languages, {"id": collection_id, "languages": sorted(languages)})

    async def _add_fields(self, parsed: Sequence[ParseOutcome]) -> None:
        """Add the new metadata fields of a collection, likewise before queries find a document that has them."""
        for collection_id, fields in new_fields(parsed).items():
            async with self._database.begin() as connection:
                await connection.execute(SQL.add_fields, {"id": collection_id} | collection_fields.added(fields))

    async def _write_ahead(self, lease: Lease, chunks: Sequence[tuple[UUID, NewChunk]]) -> bool:
        """Insert some chunks of a document that is being parsed; return whether its claim is valid."""
        async with self._database.begin() as connection:
            parameters = {"id": lease.id, "token": lease.token, "lease": self.lease}
            if (await connection.execute(SQL.lock_parsing, parameters)).one_or_none() is None:
                return False
            await _insert_chunks(connection, chunks)
        return True

    async def _settle(self, group: Sequence[ParseOutcome], chunks: Sequence[tuple[UUID, NewChunk]]) -> set[UUID]:
        async with self._database.begin() as connection:
            held = set((await connection.execute(SQL.settle_parsed, parsed_rows(group))).scalars())
            chunks = [(document_id, chunk) for document_id, chunk in chunks if document_id in held]
            if chunks:
                await _insert_chunks(connection, chunks)
        return held

    async def settle_failed(self, failures: Sequence[FailedAttempt]) -> None:
        """Record failed attempts to parse: another attempt later, or the state `failed` with its reason."""
        parameters = failure_rows(failures) | {"reader": readers.FAILED}
        async with self._database.begin() as connection:
            changed = (await connection.execute(SQL.fail_documents, parameters)).all()
            failed = [row.id for row in changed]
            # Users' questions for the live version waited for the next version, which will not be live.
            await accepted_questions.reindex_waiting(connection, failed)
            await build_sync.catch_up(connection, failed, failed=True)
        document_events.log_ended(row for row in changed if row.state == DocumentState.FAILED)

    async def extend(self, held: Sequence[Lease]) -> LeaseExtension:
        """Extend claims from now on; a lost lease stays lost."""
        async with self._database.begin() as connection:
            return await leases.extend(connection, "documents", held, self.lease)

    async def release(self, held: Sequence[Lease], *, lost: bool = False) -> None:
        """Release claims without an attempt: the documents are due at once.

        Args:
            held: leases of the claims.
            lost: whether they count as lost, because the document itself may have been the reason.
        """
        async with self._database.begin() as connection:
            await leases.release(connection, "documents", held, lost=lost)


async def _insert_chunks(connection: Connection, chunks: Sequence[tuple[UUID, NewChunk]]) -> None:
    await paid_contents.hold(connection, [chunk.content_key for _, chunk in chunks])
    await connection.execute(SQL.insert_chunks, chunk_rows(chunks))


def is_large(parsed: ParseOutcome) -> bool:
    """Return whether `settle` needs several transactions for a document."""
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
