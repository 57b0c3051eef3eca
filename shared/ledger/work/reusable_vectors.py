"""Existing vectors: the same text in another build or version of a document, stored in Qdrant with its vector.

A chunk's id is derived from its collection, document and text. Therefore the ids of the same text in other builds are
computed, and each is one index lookup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from sqlalchemy import RowMapping, text

from shared.domain.ids import chunk_id
from shared.domain.work import ChunkToIndex, EmbeddedChunk, Lease
from shared.ledger.model import states
from shared.ledger.model.rows import QUESTIONS, passed_questions
from shared.ledger.postgres.database import Database

# Find the versions that may have points of documents: the live and the newest one, in each build with the same
# embedding and the same Qdrant collection. Builds that embed texts with their questions come last.
_DOCUMENTS = text(f"""
    SELECT d.id AS document_id, o.id, o.collection_id, v.version
    FROM documents d JOIN collections l ON l.id = d.collection_id
    JOIN documents o ON o.public_id = d.public_id AND {states.exists("o")}
    JOIN collections b ON b.id = o.collection_id AND b.tenant = l.tenant AND b.name = l.name
                          AND b.embedding_model = l.embedding_model AND b.index_name = l.index_name
    CROSS JOIN LATERAL (VALUES (o.live_version), (nullif(o.version, o.live_version))) AS v(version)
    WHERE d.id = ANY(CAST(:ids AS uuid[])) AND v.version IS NOT NULL
    ORDER BY coalesce(b.options ->> 'prepend_questions', 'false'), b.build, v.version
""")

# Return those chunks whose points exist, with the results of the question filter. OFFSET limits it to one index lookup
# per chunk.
_CHUNKS = text(f"""
    SELECT s.token, c.id, c.version, {QUESTIONS} AS questions, q.reasons
    FROM unnest(CAST(:tokens AS bigint[]), CAST(:ids AS uuid[]), CAST(:versions AS int[])) WITH ORDINALITY
         AS s(token, id, version, place)
    CROSS JOIN LATERAL (
        SELECT c.id, c.version FROM chunks c
        WHERE c.id = s.id AND c.version = s.version AND c.points_token IS NOT NULL OFFSET 0) c
    LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
    ORDER BY s.place
""")


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A possible location of the text of a claimed chunk."""

    lease: Lease
    id: UUID
    version: int


async def find(database: Database, chunks: Sequence[ChunkToIndex]) -> dict[Lease, list[EmbeddedChunk]]:
    """Return the chunks with the same texts and existing points; see `Work.find_embedded`."""
    parameters = {"ids": list({chunk.document_id for chunk in chunks})}
    candidates = _candidates(chunks, await database.rows(_DOCUMENTS, parameters))
    if not candidates:
        return {}
    leases = {candidate.lease.token: candidate.lease for candidate in candidates}
    polls = {
        "tokens": [candidate.lease.token for candidate in candidates],
        "ids": [candidate.id for candidate in candidates],
        "versions": [candidate.version for candidate in candidates],
    }
    found: dict[Lease, list[EmbeddedChunk]] = defaultdict(list)
    for row in await database.rows(_CHUNKS, polls):
        questions = passed_questions(row) if row["questions"] and row["reasons"] else ()
        found[leases[row["token"]]].append(EmbeddedChunk(row["id"], row["version"], tuple(questions)))
    return dict(found)


def _candidates(chunks: Sequence[ChunkToIndex], documents: Sequence[RowMapping]) -> list[_Candidate]:
    """The first chunk with the same text, if a document has several, in each version that may have points."""
    versions: dict[UUID, list[RowMapping]] = defaultdict(list)
    for row in documents:
        versions[row["document_id"]].append(row)
    return [
        _Candidate(chunk.lease, chunk_id(row["collection_id"], row["id"], chunk.content.text, 0), row["version"])
        for chunk in chunks
        for row in versions[chunk.document_id]
    ]
