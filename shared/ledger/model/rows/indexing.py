"""Rows of chunks to index, and of the results of the question filter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.questions import AcceptedQuestion
from shared.domain.stages.indexing import ChunkToIndex, IndexOutcome
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.rows.attempts import lease_columns, lease_of
from shared.ledger.model.rows.encoding import encoded
from shared.ledger.model.rows.questions import disabled_questions
from shared.ledger.postgres.connections import Row


def chunk_to_index(row: Row) -> ChunkToIndex:
    return ChunkToIndex(
        lease=lease_of(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        embedding_model=row["embedding_model"],
        index_name=row["index_name"],
        options=options_of(row["options"]),
        public_id=row["public_id"],
        external_id=row["external_id"],
        filename=row["filename"],
        metadata=row["metadata"],
        readable_by=tuple(row["readable_by"]),
        ordinal=row["ordinal"],
        content=ChunkContent.from_json(row["content"]),
        hidden=row["hidden"],
        questions=tuple(row["questions"]),
        ready_made=row["ready_made"],
        error=row["error"],
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        created_at=row["created_at"],
        accepted=tuple(map(AcceptedQuestion, row["accepted_ids"], row["accepted_questions"])),
        lane=row["lane"],
        of_several_builds=row["of_several_builds"],
        text_only=row["text_only"],
        has_text=row["has_text"],
        context=row["context"] and ChunkContext.from_json(row["context"]),
        passed=row["questions_passed"],
        may_have_points=row["may_have_points"],
        traceparent=row["traceparent"],
        job_id=row["job_id"],
        upload=row["upload"],
        disabled=disabled_questions(row),
    )


def indexed_rows(outcomes: Sequence[IndexOutcome]) -> dict[str, Any]:
    return encoded(
        lease_columns(outcome.chunk.lease) | {"error": outcome.error, "passed": outcome.passed} | _results(outcome)
        for outcome in outcomes
    )


def _results(outcome: IndexOutcome) -> dict[str, Any]:
    """Return a chunk's questions with their reasons; no questions if they equal the questions of the completion."""
    generated = () if outcome.chunk.ready_made else outcome.chunk.questions
    results = {question["text"]: question for question in outcome.questions}
    written = len(outcome.questions) == len(results) == len(generated) and results.keys() == set(generated)
    ordered = [results[question] for question in generated] if generated and written else outcome.questions
    return {
        "questions": None if generated and written else [question["text"] for question in ordered],
        "reasons": [question["reason"] for question in ordered],
        "similarities": [question["similarity"] for question in ordered],
    }


def written_rows(chunks: Iterable[ChunkToIndex]) -> dict[str, Any]:
    """Return chunks by their leases, each with its document."""
    return encoded(lease_columns(chunk.lease) | {"document_id": chunk.document_id} for chunk in chunks)


def late_rows(leases: Iterable[tuple[ChunkToIndex, bool]]) -> dict[str, Any]:
    """Return chunks; `later` marks a chunk that another worker may still write."""
    return encoded(
        lease_columns(chunk.lease)
        | {
            "document_id": chunk.document_id,
            "collection_id": chunk.collection_id,
            "tenant": chunk.tenant,
            "index_name": chunk.index_name,
            "later": later,
        }
        for chunk, later in leases
    )
