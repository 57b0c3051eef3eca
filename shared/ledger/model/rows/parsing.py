"""Rows of documents to parse, and of their chunks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from shared.domain.corpus.documents import ReadyQuestion
from shared.domain.corpus.metadata_fields import fields_of
from shared.domain.corpus.readers import reader_of
from shared.domain.stages.parsing import DocumentToParse, NewChunk, ParseOutcome
from shared.domain.stages.work import Lease
from shared.domain.stored import known_fields
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.rows.encoding import bytea, encoded
from shared.ledger.postgres.connections import Row


def claimed_document(row: Row, version: int) -> DocumentToParse:
    """Return a claimed document; the claim may have started a newer version than the version of the row."""
    questions = row["ready_questions"]
    return DocumentToParse(
        lease=Lease(id=row["id"], version=version, token=row["lease_token"]),
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        options=options_of(row["options"]),
        languages=tuple(row["languages"]),
        metadata_fields=tuple(row["metadata_fields"]),
        upload=row["upload"],
        filename=row["filename"],
        title=row["title"],
        media_type=row["media_type"],
        metadata=row["metadata"],
        ready_questions=None if questions is None else tuple(map(_ready_question, questions)),
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        live_version=row["live_version"],
        has_pages=row["has_pages"],
        traceparent=row["traceparent"],
    )


def _ready_question(value: Mapping[str, Any]) -> ReadyQuestion:
    return ReadyQuestion(**known_fields(value, ReadyQuestion.__dataclass_fields__))


def new_languages(parsed: Iterable[ParseOutcome]) -> Mapping[UUID, set[str]]:
    """Return the languages of parsed texts that their collections did not have when the documents were claimed."""
    new: dict[UUID, set[str]] = defaultdict(set)
    for outcome in parsed:
        present = outcome.document.languages
        for chunk in outcome.chunks:
            if chunk.content.language and chunk.content.language not in present:
                new[outcome.document.collection_id].add(chunk.content.language)
    return new


def new_fields(parsed: Iterable[ParseOutcome]) -> Mapping[UUID, set[str]]:
    """Return the fields of metadata that collections did not have when the documents were claimed."""
    new: dict[UUID, set[str]] = defaultdict(set)
    for document in (outcome.document for outcome in parsed):
        if added := fields_of(document.metadata).difference(document.metadata_fields):
            new[document.collection_id] |= added
    return new


def parsed_rows(outcomes: Sequence[ParseOutcome]) -> dict[str, Any]:
    return encoded(
        {
            "id": outcome.document.lease.id,
            "token": outcome.document.lease.token,
            "title": outcome.title,
            "media_type": outcome.media_type,
            "reader": reader_of(outcome.media_type),
            "text_coverage": outcome.completeness.coverage,
            "missing": outcome.completeness.missing_as_json(),
        }
        for outcome in outcomes
    )


def chunk_rows(chunks: Iterable[tuple[UUID, NewChunk]]) -> dict[str, Any]:
    """Return chunks, each with the id of its document."""
    return encoded(
        {
            "document_id": document_id,
            "id": chunk.id,
            "ordinal": chunk.ordinal,
            "content": chunk.content.as_json(),
            "content_key": bytea(chunk.content_key),
            "ready_questions": chunk.ready_questions,
            "picture": None if chunk.picture is None else bytea(chunk.picture),
        }
        for document_id, chunk in chunks
    )
