"""Conversion of the ledger's rows to records, and of outcomes to the rows that statements take.

A statement takes its rows as one JSON array of objects, `:rows`, with the names of its columns.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import orjson
from sqlalchemy import RowMapping

from shared.domain.batches import PlannedLine
from shared.domain.chunks import ChunkContent
from shared.domain.dead_letters import PastAttempt
from shared.domain.documents import ReadyQuestion
from shared.domain.errors import Permanent
from shared.domain.outcomes import FailedAttempt, GenerateOutcome, IndexOutcome, ParseOutcome
from shared.domain.pages import PageOutcome, PagesOutcome, PageText, PageToRead
from shared.domain.questions import AcceptedQuestion
from shared.domain.readers import reader_of
from shared.domain.retry import Dead, Decision
from shared.domain.stored import known_fields
from shared.domain.usage import Cost, Usage, UsageByTier, total
from shared.domain.work import ChunkToGenerate, ChunkToIndex, DocumentToParse, Lease, NewChunk, PaidReply
from shared.ledger.model import tier_tokens
from shared.ledger.model.collections import options_of
from shared.ledger.model.estimated import marked


def as_json(value: object) -> str:
    """Encode a value.

    Raises:
        Permanent: a text in it is not valid Unicode.
    """
    try:
        return orjson.dumps(value, default=_identity).decode()
    except orjson.JSONEncodeError as error:
        raise Permanent("a text is not valid Unicode") from error


def _identity(value: object) -> str:
    if isinstance(value, UUID):  # asyncpg returns a subclass that orjson cannot encode
        return str(value)
    raise TypeError


def lease(row: RowMapping) -> Lease:
    return Lease(id=row["id"], version=row["version"], token=row["lease_token"])


def claimed_document(row: RowMapping, version: int) -> DocumentToParse:
    """Return a claimed document; the claim may have started a newer version than the version of the row."""
    questions = row["ready_questions"]
    return DocumentToParse(
        lease=Lease(id=row["id"], version=version, token=row["lease_token"]),
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        options=options_of(row["options"]),
        languages=tuple(row["languages"]),
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


def attempts(values: Sequence[Mapping[str, Any]]) -> tuple[PastAttempt, ...]:
    """Return the failed attempts of a row's history."""
    return tuple(PastAttempt(**known_fields(value, PastAttempt.__dataclass_fields__)) for value in values)


def new_languages(parsed: Iterable[ParseOutcome]) -> Mapping[UUID, set[str]]:
    """Return the languages of parsed texts that their collections did not have when the documents were claimed."""
    new: dict[UUID, set[str]] = defaultdict(set)
    for outcome in parsed:
        present = outcome.document.languages
        for chunk in outcome.chunks:
            if chunk.content.language and chunk.content.language not in present:
                new[outcome.document.collection_id].add(chunk.content.language)
    return new


def chunk_to_generate(row: RowMapping) -> ChunkToGenerate:
    by_tier = usage_by_tier(row)
    return ChunkToGenerate(
        lease=lease(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        options=options_of(row["options"]),
        content=ChunkContent.from_json(row["content"]),
        content_key=row["content_key"],
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        replies=replies(row["replies"]),
        usage=total(by_tier),
        calls=row["calls"],
        by_tier=by_tier,
        traceparent=row["traceparent"],
        job_id=row["job_id"],
        picture=row["picture"],
    )


def usage_by_tier(row: RowMapping) -> UsageByTier:
    """Return the tokens of a chunk's calls by tier."""
    return tier_tokens.decoded(row["tier_tokens"], row["prompt_tokens"], row["completion_tokens"])


def chunk_to_index(row: RowMapping) -> ChunkToIndex:
    return ChunkToIndex(
        lease=lease(row),
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
        passed=row["questions_passed"],
        may_have_points=row["may_have_points"],
        traceparent=row["traceparent"],
        job_id=row["job_id"],
    )


def parsed_rows(outcomes: Sequence[ParseOutcome]) -> dict[str, str]:
    return _rows(
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


def page_rows(outcome: PagesOutcome) -> dict[str, str]:
    """Return the pages of a document."""
    languages = "+".join(outcome.languages)
    return _rows(
        {
            "document_id": outcome.document.lease.id,
            "number": page.number,
            "key": _bytes(page.key),
            "languages": languages,
        }
        for page in outcome.pages
    )


def page_to_read(row: RowMapping) -> PageToRead:
    return PageToRead(
        lease=lease(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        upload=row["upload"],
        number=row["number"],
        key=row["key"],
        languages=tuple(row["languages"].split("+")),
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        has_text=row["has_text"],
        traceparent=row["traceparent"],
    )


def read_rows(outcomes: Sequence[PageOutcome]) -> dict[str, str]:
    return _rows(
        _lease(outcome.page.lease)
        | {"key": _bytes(outcome.page.key), "tenant": outcome.page.tenant}
        | _text(outcome.text)
        for outcome in outcomes
    )


def _text(text: PageText | None) -> dict[str, Any]:
    if text is None:
        return {"text": None, "words": None, "confidence": None}
    return {"text": text.text, "words": text.words, "confidence": text.confidence}


def chunk_rows(chunks: Iterable[tuple[UUID, NewChunk]]) -> dict[str, str]:
    """Return chunks, each with the id of its document."""
    return _rows(
        {
            "document_id": document_id,
            "id": chunk.id,
            "ordinal": chunk.ordinal,
            "content": chunk.content.as_json(),
            "content_key": _bytes(chunk.content_key),
            "ready_questions": chunk.ready_questions,
            "picture": None if chunk.picture is None else _bytes(chunk.picture),
        }
        for document_id, chunk in chunks
    )


def generated_rows(outcomes: Sequence[GenerateOutcome]) -> dict[str, str]:
    return _rows(
        _lease(outcome.chunk.lease)
        | _usage(outcome.usage, outcome.calls, outcome.by_tier)
        | {
            "content_key": _bytes(outcome.chunk.content_key),
            "tenant": outcome.chunk.tenant,
            "model": outcome.model,
            "questions": outcome.questions,
            "text": outcome.text,
        }
        for outcome in outcomes
    )


def planned_rows(lines: Sequence[PlannedLine]) -> dict[str, str]:
    return _rows(
        _lease(line.lease)
        | {
            "document_id": line.document_id,
            "collection_id": line.collection_id,
            "content_key": _bytes(line.content_key),
            "questions": line.questions,
        }
        for line in lines
    )


def failed_line_rows(leases: Sequence[Lease], live: Collection[int]) -> dict[str, str]:
    """Return failed lines; `live` marks a line with a token in `live`."""
    return _rows(_lease(lease) | {"live": lease.token in live} for lease in leases)


def key_rows(chunks: Sequence[tuple[ChunkToGenerate, bytes]]) -> dict[str, str]:
    """Return chunks, each with its new key; `again` marks a key that an earlier chunk has."""
    keys = [key for _, key in chunks]
    return _rows(
        _lease(chunk.lease) | {"content_key": _bytes(key), "again": key in keys[:index]}
        for index, (chunk, key) in enumerate(chunks)
    )


def reply_rows(
    chunk: ChunkToGenerate, replies: Sequence[PaidReply], usage: Usage, calls: int, by_tier: UsageByTier
) -> dict[str, str]:
    reply = {"content_key": _bytes(chunk.content_key), "tenant": chunk.tenant, "replies": _replies(replies)}
    return _rows([_lease(chunk.lease) | _usage(usage, calls, by_tier) | reply])


def indexed_rows(outcomes: Sequence[IndexOutcome]) -> dict[str, str]:
    return _rows(
        _lease(outcome.chunk.lease) | {"error": outcome.error, "passed": outcome.passed} | _results(outcome)
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


# The questions of `chunk_questions q`, in the order of its `reasons`.
QUESTIONS = "coalesce(q.questions, (SELECT k.questions FROM completions k WHERE k.content_key = q.content_key))"


def filtered_questions(row: RowMapping) -> list[dict[str, Any]]:
    """Return the questions of a chunk as `{"text", "passed", "reason"}`, including dropped ones."""
    results = zip(row["questions"], row["reasons"], strict=True)
    return [{"text": question, "passed": reason is None, "reason": reason} for question, reason in results]


def passed_questions(row: RowMapping) -> list[str]:
    return [question["text"] for question in filtered_questions(row) if question["passed"]]


def written_rows(chunks: Iterable[ChunkToIndex]) -> dict[str, str]:
    """Return chunks by their leases, each with its document."""
    return _rows(_lease(chunk.lease) | {"document_id": chunk.document_id} for chunk in chunks)


def failure_rows(failures: Sequence[FailedAttempt]) -> dict[str, str]:
    return _rows(
        _lease(failure.lease)
        | _usage(failure.usage, failure.calls, failure.by_tier)
        | _decision(failure.decision)
        | {
            "content_key": None if failure.content_key is None else _bytes(failure.content_key),
            "tenant": failure.tenant,
            "replies": _replies(failure.replies) or None,
        }
        for failure in failures
    )


def lease_rows(leases: Sequence[Lease]) -> dict[str, str]:
    return _rows(map(_lease, leases))


def version_rows(versions: Iterable[tuple[UUID, int]]) -> dict[str, str]:
    """Return documents by their ids, each with a version."""
    return _rows({"id": document_id, "version": version} for document_id, version in versions)


def late_rows(leases: Iterable[tuple[ChunkToIndex, bool]]) -> dict[str, str]:
    """Return chunks; `later` marks a chunk that another worker may still write."""
    return _rows(
        _lease(chunk.lease)
        | {
            "document_id": chunk.document_id,
            "collection_id": chunk.collection_id,
            "tenant": chunk.tenant,
            "index_name": chunk.index_name,
            "later": later,
        }
        for chunk, later in leases
    )


def _lease(lease: Lease) -> dict[str, Any]:
    return {"id": lease.id, "version": lease.version, "token": lease.token}


def cost_rows(costs: Sequence[Cost]) -> dict[str, str]:
    return _rows(
        {
            "token": cost.token,
            "tenant": cost.tenant,
            "collection_id": cost.collection_id,
            "document_id": cost.document_id,
            "kind": cost.kind,
            "model": marked(cost.model, is_estimated=cost.is_estimated),
            "tier": cost.tier,
            "job_id": cost.job_id,
            "prompt_tokens": cost.usage.prompt_tokens,
            "completion_tokens": cost.usage.completion_tokens,
            "cached_tokens": cost.usage.cached_tokens,
            "cache_write_tokens": cost.usage.cache_write_tokens,
            "calls": cost.calls,
        }
        for cost in costs
    )


def replies(values: Sequence[Mapping[str, Any]] | None) -> tuple[PaidReply, ...]:
    """Return the replies of a row; NULL means no replies."""
    return tuple(map(_reply, values or ()))


def _reply(value: Mapping[str, Any]) -> PaidReply:
    usage = Usage(value["prompt_tokens"], value["completion_tokens"])
    return PaidReply(value["request"], value["text"], value["finish_reason"], usage)


def _replies(replies: Sequence[PaidReply]) -> list[dict[str, Any]]:
    return [
        {
            "request": reply.request,
            "text": reply.text,
            "finish_reason": reply.finish_reason,
            "prompt_tokens": reply.usage.prompt_tokens,
            "completion_tokens": reply.usage.completion_tokens,
        }
        for reply in replies
    ]


def _usage(usage: Usage, calls: int, by_tier: UsageByTier) -> dict[str, Any]:
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "calls": calls,
        "tier_tokens": tier_tokens.encoded(by_tier),
    }


def _decision(decision: Decision) -> dict[str, Any]:
    if isinstance(decision, Dead):
        return {"error": decision.reason, "dead": True, "after_seconds": 0, "burned": 1}
    after_seconds = decision.after.total_seconds()
    return {
        "error": decision.reason,
        "dead": False,
        "after_seconds": after_seconds,
        "burned": int(decision.burns_attempt),
    }


def _bytes(value: bytes) -> str:
    return f"\\x{value.hex()}"


def _rows(values: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    return {"rows": as_json(list(values))}
