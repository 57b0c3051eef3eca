"""Chunks as the API shows them: content, questions, and the result of each question."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from shared.domain.corpus.chunk_detail import ChunkDetail
from shared.domain.corpus.chunks import ChunkContent, ChunkContext
from shared.domain.corpus.questions import Acceptance, QuestionDetail, QuestionSource, plain
from shared.domain.errors import NotFound
from shared.domain.spending.usage import BilledCalls
from shared.domain.states import AcceptedState, ChunkState
from shared.ledger.model import states
from shared.ledger.model.rows.attempts import usage_by_tier
from shared.ledger.model.rows.history import attempts_of
from shared.ledger.model.rows.questions import QUESTIONS, disabled_of, disabled_of_chunk
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row

_LAST = 2**31 - 1  # PostgreSQL's integer

SQL = statements.load(__file__, states.FRAGMENTS, questions=QUESTIONS, disabled_of=disabled_of)


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


def no_chunk(chunk_id: UUID) -> NotFound:
    return NotFound(f"There is no chunk {chunk_id}. GET /v1/documents/{{id}}/chunks lists chunks.")


async def find(
    connection: Connection, tenant: str, chunk_id: UUID, principals: Sequence[str] | None = None
) -> ChunkPosition | None:
    """Find a chunk in the version that queries see, else in the newest.

    Return None if the tenant has no such chunk, or if principals are given and do not read it. The same statement finds
    neither, so that the replies take the same time.
    """
    names = None if principals is None else list(principals)
    parameters = {"tenant": tenant, "chunk": chunk_id, "principals": names}
    row = (await connection.execute(SQL.find, parameters)).one_or_none()
    return None if row is None else ChunkPosition(row.id, row.public_id, row.version, row.ordinal)


async def ordinal_of(connection: Connection, document: UUID, version: int, chunk_id: UUID) -> int | None:
    """Return the position of a chunk in a version, or None."""
    parameters = {"id": document, "version": version, "chunk": chunk_id}
    ordinal: int | None = (await connection.execute(SQL.ordinal, parameters)).scalar_one_or_none()
    return ordinal


async def read(
    connection: Connection,
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
        before: an ordinal; None for the first chunks.
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
    statement = SQL.forwards if before is None else SQL.backwards
    chunks = [_detail(row) for row in (await connection.execute(statement, parameters))]
    return chunks if before is None else chunks[::-1]


def _detail(row: Row) -> ChunkDetail:
    return ChunkDetail(
        id=row["id"],
        document_id=row["public_id"],
        version=row["version"],
        ordinal=row["ordinal"],
        content=ChunkContent.from_json(row["content"]),
        state=ChunkState(row["state"]),
        error=row["error"],
        history=attempts_of(row["history"]),
        usage=BilledCalls(usage_by_tier(row), row["calls"]),
        questions=(*_own(row), *_of_users(row)),
        context=row["context"] and ChunkContext.from_json(row["context"]),
    )


def _own(row: Row) -> Iterator[QuestionDetail]:
    """Yield the questions that the model generated, or that were submitted with the document."""
    source: QuestionSource = "given" if row["ready_made"] else "generated"
    if row["questions"] is None:
        yield from (QuestionDetail(question, None, None, source) for question in row["raw_questions"])
        return
    disabled = disabled_of_chunk(row)
    similarities = row["similarities"] or [None] * len(row["reasons"])
    for question, reason, similarity in zip(row["questions"], row["reasons"], similarities, strict=True):
        rounded = None if similarity is None else round(similarity, 4)
        record = disabled.get(plain(question)) if reason is None and disabled else None
        yield QuestionDetail(
            question,
            reason is None,
            reason,
            source,
            rounded,
            disabled=record is not None,
            disabled_by=record.by if record else None,
            disabled_at=record.at if record else None,
        )


def _of_users(row: Row) -> Iterator[QuestionDetail]:
    for accepted in row["accepted"]:
        state = AcceptedState(accepted["state"])
        query_id = accepted["query_id"] and UUID(accepted["query_id"])
        yield QuestionDetail(
            text=accepted["question"],
            passed={AcceptedState.INDEXED: True, AcceptedState.REFUSED: False}.get(state),
            reason="the embedding model does not take it" if state is AcceptedState.REFUSED else None,
            source="user",
            accepted=Acceptance(UUID(accepted["id"]), state, query_id, accepted["at"]),
        )
