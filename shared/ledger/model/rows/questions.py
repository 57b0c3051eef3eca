"""Rows of a chunk's questions with the results of the filter."""

from __future__ import annotations

from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.disabled_questions import DisabledQuestion, disabled_in
from shared.domain.corpus.questions import plain
from shared.ledger.postgres.connections import Row

# The questions of `chunk_questions q`, in the order of its `reasons`.
QUESTIONS = "coalesce(q.questions, (SELECT k.questions FROM completions k WHERE k.content_key = q.content_key))"


def has_disabled(document: str) -> str:
    """Return the SQL condition that a document, an alias of `documents`, has disabled questions."""
    return f"""EXISTS (SELECT 1 FROM disabled_questions o
        WHERE o.document_id = {document}.public_id AND o.tenant = {document}.tenant)"""


def disabled_of(document: str) -> str:
    """Return the SQL expression of a document's disabled questions, as `disabled_questions` reads them."""
    return f"""(SELECT jsonb_agg(jsonb_build_object(
            'question', o.question, 'text_hash', encode(o.text_hash, 'hex'), 'upload', o.upload,
            'span_start', o.span_start, 'span_end', o.span_end, 'disabled_by', o.disabled_by,
            'disabled_at', o.disabled_at, 'token', o.token) ORDER BY o.token)
        FROM disabled_questions o WHERE o.document_id = {document}.public_id AND o.tenant = {document}.tenant)"""


def disabled_questions(row: Row) -> tuple[DisabledQuestion, ...]:
    """Return the disabled questions of a row's document, from its column `disabled`."""
    return tuple(map(DisabledQuestion.from_json, row["disabled"] or ()))


def disabled_of_chunk(row: Row) -> dict[str, DisabledQuestion]:
    """Return the disabled questions of a row's chunk by their plain form; the row has its content and upload."""
    if not (of_document := disabled_questions(row)):
        return {}
    return disabled_in(ChunkContent.from_json(row["content"]), row["upload"], of_document)


def searchable_questions(row: Row) -> list[str]:
    """Return the passed questions of a chunk that are not disabled."""
    disabled = disabled_of_chunk(row)
    return [question for question in passed_questions(row) if not disabled or plain(question) not in disabled]


def filtered_questions(row: Row) -> list[dict[str, Any]]:
    """Return the questions of a chunk as `{"text", "passed", "reason"}`, including dropped ones."""
    results = zip(row["questions"], row["reasons"], strict=True)
    return [{"text": question, "passed": reason is None, "reason": reason} for question, reason in results]


def passed_questions(row: Row) -> list[str]:
    return [question["text"] for question in filtered_questions(row) if question["passed"]]
