"""Chunks as the API shows them: content, questions, and the result of each question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.chunk_detail import ChunkDetail
from shared.domain.chunks import ChunkContent
from shared.domain.dead_letters import Attempt
from shared.domain.questions import Acceptance, ChunkQuestion, QuestionSource
from shared.domain.states import AcceptedState, ChunkState
from shared.domain.usage import Usage
from shared.ledger.model import states
from shared.ledger.model.rows import QUESTIONS

_LAST = 2**31 - 1  # PostgreSQL's integer

# The chunks of one version with their questions; before the filter has run, these are the model's questions.
_CHUNKS = f"""
    SELECT c.id, d.public_id, c.version, c.ordinal, t.content, c.state, c.error, c.history, c.prompt_tokens,
           c.completion_tokens, c.calls, c.ready_made, {QUESTIONS} AS questions, q.reasons, q.similarities,
           coalesce(t.ready_questions, p.questions, '{{}}') AS raw_questions,
           (SELECT coalesce(jsonb_agg(jsonb_build_object('id', a.id, 'question', a.question, 'state', a.state,
                                                         'query_id', a.query_id, 'at', a.created_at)
                                      ORDER BY a.created_at, a.id), '[]')
            FROM accepted_questions a WHERE a.chunk_id = c.id AND {states.TAKE_BACK.applies("a")}) AS accepted
    FROM chunks c JOIN documents d ON d.id = c.document_id
    JOIN chunk_contents t ON t.chunk_id = c.id AND t.version = c.version
    LEFT JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
    LEFT JOIN completions p ON p.content_key = c.content_key
    WHERE c.document_id = :id AND c.version = :version AND c.ordinal > :after AND c.ordinal < :before
      AND (CAST(:states AS text[]) IS NULL OR c.state = ANY(CAST(:states AS text[])))
"""

# List chunks from the front.
_FORWARDS = text(f"{_CHUNKS} ORDER BY c.ordinal LIMIT :limit")

# List chunks from the end.
_BACKWARDS = text(f"{_CHUNKS} ORDER BY c.ordinal DESC LIMIT :limit")

# Find a chunk in one version of a document.
_ORDINAL = text("SELECT ordinal FROM chunks WHERE id = :chunk AND version = :version AND document_id = :id")

# Find a chunk of a tenant's documents, in the version that queries see, else in the newest.
_FIND = text(f"""
    SELECT d.id, d.public_id, c.version, c.ordinal
    FROM chunks c JOIN documents d ON d.id = c.document_id JOIN collections l ON l.id = d.collection_id
    WHERE c.id = :chunk AND d.tenant = :tenant AND {states.exists("d")} AND {states.is_live("l")}
      AND c.version IN (d.version, d.live_version)
    ORDER BY c.version IS NOT DISTINCT FROM d.live_version DESC LIMIT 1
""")


@dataclass(frozen=True, slots=True)
class ChunkPosition:
    """The position of a chunk.

    Args:
        row: id of its document's row in its build.
        document_id: the document's public id.
        version: its version.
        ordinal: its index in the version.
    """

    row: UUID
    document_id: UUID
    version: int
    ordinal: int


async def find(connection: AsyncConnection, tenant: str, chunk_id: UUID) -> ChunkPosition | None:
    """Find a chunk in the version that queries see, else in the newest; return None if the tenant has no such chunk."""
    row = (await connection.execute(_FIND, {"tenant": tenant, "chunk": chunk_id})).one_or_none()
    return None if row is None else ChunkPosition(row.id, row.public_id, row.version, row.ordinal)


async def ordinal_of(connection: AsyncConnection, document: UUID, version: int, chunk_id: UUID) -> int | None:
    """Return the position of a chunk in a version, or None."""
    parameters = {"id": document, "version": version, "chunk": chunk_id}
    ordinal: int | None = (await connection.execute(_ORDINAL, parameters)).scalar_one_or_none()
    return ordinal


async def read(
    connection: AsyncConnection,
    document: UUID,
    version: int,
    *,
    after: int = -1,
    before: int | None = None,
    wanted: Sequence[ChunkState] | None = None,
    limit: int,
) -> list[ChunkDetail]:
    """Return chunks of a version in order: the first ones after `after`, or the last ones before `before`.

    Args:
        connection: connection to the ledger.
        document: id of its row in its build.
        version: number of the version.
        after: an ordinal.
        before: an ordinal; None to start at the front.
        wanted: states of the chunks; None for any.
        limit: maximum number of chunks.
    """
    parameters: dict[str, Any] = {
        "id": document,
        "version": version,
        "after": after,
        "before": _LAST if before is None else before,
        "states": None if wanted is None else list(wanted),
        "limit": limit,
    }
    statement = _FORWARDS if before is None else _BACKWARDS
    chunks = [_detail(row) for row in (await connection.execute(statement, parameters)).mappings()]
    return chunks if before is None else chunks[::-1]


def _detail(row: RowMapping) -> ChunkDetail:
    return ChunkDetail(
        id=row["id"],
        document_id=row["public_id"],
        version=row["version"],
        ordinal=row["ordinal"],
        content=ChunkContent.from_json(row["content"]),
        state=ChunkState(row["state"]),
        error=row["error"],
        history=tuple(Attempt(**attempt) for attempt in row["history"]),
        usage=Usage(row["prompt_tokens"], row["completion_tokens"]),
        calls=row["calls"],
        questions=(*_own(row), *_of_users(row)),
    )


def _own(row: RowMapping) -> Iterator[ChunkQuestion]:
    """The questions that the model wrote, or that came with the document."""
    source: QuestionSource = "given" if row["ready_made"] else "generated"
    if row["questions"] is None:
        yield from (ChunkQuestion(question, None, None, source) for question in row["raw_questions"])
        return
    similarities = row["similarities"] or [None] * len(row["reasons"])
    for question, reason, similarity in zip(row["questions"], row["reasons"], similarities, strict=True):
        rounded = None if similarity is None else round(similarity, 4)
        yield ChunkQuestion(question, reason is None, reason, source, rounded)


def _of_users(row: RowMapping) -> Iterator[ChunkQuestion]:
    for accepted in row["accepted"]:
        state = AcceptedState(accepted["state"])
        query_id = accepted["query_id"] and UUID(accepted["query_id"])
        yield ChunkQuestion(
            text=accepted["question"],
            passed={AcceptedState.INDEXED: True, AcceptedState.REFUSED: False}.get(state),
            reason="the embedding model does not take it" if state is AcceptedState.REFUSED else None,
            source="user",
            accepted=Acceptance(UUID(accepted["id"]), state, query_id, accepted["at"]),
        )
