"""Existing vectors: the same text in another build or version of a document, stored in Qdrant with its vector.

A chunk's id is derived from its collection, document and text. Therefore the ids of the same text in other builds are
computed, and each is one index lookup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from shared.domain.corpus.ids import chunk_id
from shared.domain.stages.indexing import ChunkToIndex, EmbeddedChunk
from shared.domain.stages.work import Lease
from shared.ledger.model import states
from shared.ledger.model.rows.questions import QUESTIONS, passed_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

SQL = statements.load(__file__, states.FRAGMENTS, questions=QUESTIONS)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A point that may have the vector of a claimed chunk's text."""

    lease: Lease
    id: UUID
    version: int


async def find(database: Database, chunks: Sequence[ChunkToIndex]) -> dict[Lease, list[EmbeddedChunk]]:
    """Return the chunks with the same texts and existing points; see `IndexWork.find_embedded`."""
    parameters = {"ids": list({chunk.document_id for chunk in chunks})}
    candidates = _candidates(chunks, await database.rows(SQL.versions_with_points, parameters))
    if not candidates:
        return {}
    leases = {candidate.lease.token: candidate.lease for candidate in candidates}
    polls = {
        "tokens": [candidate.lease.token for candidate in candidates],
        "ids": [candidate.id for candidate in candidates],
        "versions": [candidate.version for candidate in candidates],
    }
    found: dict[Lease, list[EmbeddedChunk]] = defaultdict(list)
    for row in await database.rows(SQL.chunks_with_points, polls):
        questions = passed_questions(row) if row["questions"] and row["reasons"] else ()
        found[leases[row["token"]]].append(EmbeddedChunk(row["id"], row["version"], tuple(questions)))
    return dict(found)


def _candidates(chunks: Sequence[ChunkToIndex], documents: Sequence[Row]) -> list[_Candidate]:
    """Return the first chunk with the same text in each version that may have points."""
    versions: dict[UUID, list[Row]] = defaultdict(list)
    for row in documents:
        versions[row["document_id"]].append(row)
    return [
        _Candidate(chunk.lease, chunk_id(row["collection_id"], row["id"], chunk.content.text, 0), row["version"])
        for chunk in chunks
        for row in versions[chunk.document_id]
    ]
