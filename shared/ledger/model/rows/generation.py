"""Rows of chunks to generate, and of their paid questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.spending.usage import Usage, UsageByTier, total
from shared.domain.stages.attempts import PaidReply
from shared.domain.stages.generation import ChunkToGenerate, GenerateOutcome
from shared.ledger.model.collection_options import options_of
from shared.ledger.model.rows.attempts import (
    lease_columns,
    lease_of,
    replies_of,
    reply_values,
    usage_by_tier,
    usage_columns,
)
from shared.ledger.model.rows.encoding import bytea, encoded
from shared.ledger.postgres.connections import Row


def chunk_to_generate(row: Row) -> ChunkToGenerate:
    by_tier = usage_by_tier(row)
    return ChunkToGenerate(
        lease=lease_of(row),
        document_id=row["document_id"],
        tenant=row["tenant"],
        collection_id=row["collection_id"],
        options=options_of(row["options"]),
        content=ChunkContent.from_json(row["content"]),
        content_key=row["content_key"],
        attempts=row["attempts"],
        lost_leases=row["lost_leases"],
        replies=replies_of(row["replies"]),
        usage=total(by_tier),
        calls=row["calls"],
        by_tier=by_tier,
        traceparent=row["traceparent"],
        job_id=row["job_id"],
        picture=row["picture"],
    )


def generated_rows(outcomes: Sequence[GenerateOutcome]) -> dict[str, Any]:
    return encoded(
        lease_columns(outcome.chunk.lease)
        | usage_columns(outcome.usage, outcome.calls, outcome.by_tier)
        | {
            "content_key": bytea(outcome.chunk.content_key),
            "tenant": outcome.chunk.tenant,
            "model": outcome.model,
            "questions": outcome.questions,
            "text": outcome.text,
            "context": outcome.context and outcome.context.as_json(),
        }
        for outcome in outcomes
    )


def key_rows(chunks: Sequence[tuple[ChunkToGenerate, bytes]]) -> dict[str, Any]:
    """Return chunks, each with its new key; `again` marks a key that an earlier chunk has."""
    keys = [key for _, key in chunks]
    return encoded(
        lease_columns(chunk.lease) | {"content_key": bytea(key), "again": key in keys[:index]}
        for index, (chunk, key) in enumerate(chunks)
    )


def reply_rows(
    chunk: ChunkToGenerate, replies: Sequence[PaidReply], usage: Usage, calls: int, by_tier: UsageByTier
) -> dict[str, Any]:
    reply = {"content_key": bytea(chunk.content_key), "tenant": chunk.tenant, "replies": reply_values(replies)}
    return encoded([lease_columns(chunk.lease) | usage_columns(usage, calls, by_tier) | reply])
