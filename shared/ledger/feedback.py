"""Feedback: users' questions become questions of the chunks that answered them, and are taken back.

An accepted question is written to Qdrant with its chunk, which is indexed again for it, and again in every version
that has its text. One that was taken back is `going` until its point is removed and nobody can be writing it any more.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID

import orjson
from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.accepted import accepted_id, plain
from shared.domain.errors import InvalidInput, NotFound
from shared.domain.records import AcceptedState, ChunkToIndex, Collection
from shared.ledger.audit import index_again
from shared.ledger.database import Database, again_after_collision

FeedbackOutcome = Literal["accepted", "already_accepted", "already_asked", "taken_back", "not_accepted"]


@dataclass(frozen=True, slots=True)
class FeedbackResult:
    """What was done with feedback.

    Args:
        outcome: `already_asked`: the chunk has the question word for word; `not_accepted`: there was nothing to take
            back.
        accepted_id: of the accepted question, where there is or was one.
        due: whether its chunk is to be indexed again now.
    """

    outcome: FeedbackOutcome
    question: str
    accepted_id: UUID | None
    due: bool = False


@dataclass(frozen=True, slots=True)
class AcceptedQuestionRecord:
    """A user's question that became one of a chunk."""

    id: UUID
    document_id: UUID
    external_id: str
    chunk_id: UUID
    question: str
    query_id: UUID | None
    state: AcceptedState
    created_at: datetime


@dataclass(frozen=True, slots=True)
class PendingRemoval:
    """A point that is to be removed."""

    id: UUID
    index_name: str


@dataclass(frozen=True, slots=True)
class _LoggedQuestion:
    collection_id: UUID
    question: str


class Feedback:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def accept(self, tenant: str, query_id: UUID, chunk_id: UUID, *, most: int) -> FeedbackResult:
        """Make the question of a query one of a chunk that it returned; beyond `most` of them the oldest goes.

        Raises:
            NotFound: this tenant has no such query, or the chunk is not there any more.
            InvalidInput: the query did not return the chunk.
        """
        async with self._database.begin() as connection:
            asked = await _asked(connection, tenant, query_id, chunk_id)
            chunk = await _live(connection, asked.collection_id, chunk_id)
            if plain(asked.question) in _own(chunk):
                return FeedbackResult("already_asked", asked.question, None)
            parameters = {
                "id": accepted_id(chunk_id, asked.question),
                "tenant": tenant,
                "collection": asked.collection_id,
                "document": chunk["document_id"],
                "chunk": chunk_id,
                "question": asked.question,
                "query": query_id,
            }
            if (await connection.execute(_ACCEPT, parameters)).one_or_none() is None:
                return FeedbackResult("already_accepted", asked.question, parameters["id"])
            await connection.execute(_CAP, {"chunk": chunk_id, "most": most})
            await connection.execute(_TOUCH, {"document": chunk["document_id"]})
            due = await write_waiting(connection, [chunk["document_id"]])
            return FeedbackResult("accepted", asked.question, parameters["id"], due=bool(due))

    @again_after_collision
    async def take_back(self, tenant: str, query_id: UUID, chunk_id: UUID) -> FeedbackResult:
        """Take the question of a query back from a chunk, if it was accepted.

        Raises:
            NotFound: this tenant has no such query.
            InvalidInput: the query did not return the chunk.
        """
        async with self._database.begin() as connection:
            asked = await _asked(connection, tenant, query_id, chunk_id)
            identity = accepted_id(chunk_id, asked.question)
            if not await _take_back(connection, asked.collection_id, identity):
                return FeedbackResult("not_accepted", asked.question, None)
            return FeedbackResult("taken_back", asked.question, identity)

    @again_after_collision
    async def remove(self, collection: Collection, accepted: UUID) -> None:
        """Take an accepted question back.

        Raises:
            NotFound: the collection has none of that id.
        """
        async with self._database.begin() as connection:
            if not await _take_back(connection, collection.id, accepted):
                raise NotFound(
                    f"There is no accepted question {accepted}. GET /v1/collections/{collection.name}/accepted lists"
                    " those that exist."
                )

    async def page(
        self, collection: Collection, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> list[AcceptedQuestionRecord]:
        """Return accepted questions, the newest first, from behind `after` on."""
        at, identity = after or (None, None)
        parameters = {"collection": collection.id, "at": at, "after": identity, "limit": limit}
        async with self._database.begin() as connection:
            rows = (await connection.execute(_PAGE, parameters)).mappings()
            return [AcceptedQuestionRecord(**(dict(row) | {"state": AcceptedState(row["state"])})) for row in rows]

    async def accepted(self, collection_id: UUID) -> list[tuple[str, list[str]]]:
        """Return every accepted question once, with the ids of the chunks that answer it, the oldest first."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_ACCEPTED, {"collection": collection_id})).all()
        found: dict[str, tuple[str, list[str]]] = {}
        for row in rows:
            found.setdefault(plain(row.question), (row.question, []))[1].append(str(row.chunk_id))
        return list(found.values())

    @asynccontextmanager
    async def pending_removals(self, limit: int = 100) -> AsyncIterator[RemovalBatch]:
        """Hold questions that were taken back, so that none is accepted again while its point is removed."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_REMOVING, {"limit": limit})).all()
            yield RemovalBatch(connection, [PendingRemoval(row.id, row.index_name) for row in rows])


class RemovalBatch:
    """Questions that were taken back, held until the transaction ends."""

    def __init__(self, connection: AsyncConnection, questions: Sequence[PendingRemoval]) -> None:
        self._connection = connection
        self.questions = questions

    async def forget(self, removed: Sequence[UUID]) -> None:
        """Forget those whose points are gone; where a chunk is being written its question goes once more, later."""
        await self._connection.execute(_FORGET_REMOVED, {"ids": list(removed)})


async def write_waiting(connection: AsyncConnection, documents: Sequence[UUID]) -> set[UUID]:
    """Have the chunks of locked documents indexed again that wait for a user's question; return those.

    A document that is in work is left alone: this is asked again when it is finished. So is a dead chunk, which takes
    its questions when it is tried again.
    """
    chunks = (await connection.execute(_WAITING, {"ids": list(documents)})).scalars().all()
    return await index_again(connection, documents, chunks) if chunks else set()


async def written(connection: AsyncConnection, states: Mapping[UUID, AcceptedState]) -> None:
    """Record what became of questions that waited; one that was taken back meanwhile stays so."""
    await connection.execute(_WRITTEN, {"ids": list(states), "states": [s.value for s in states.values()]})


async def wait_again(connection: AsyncConnection, chunks: Sequence[UUID]) -> None:
    """Have the questions of chunks that died wait until those are tried again."""
    await connection.execute(_WAIT_AGAIN, {"chunks": list(chunks)})


async def forget_without_chunk(connection: AsyncConnection, documents: Sequence[UUID]) -> None:
    """Remove the questions of chunks that no version of these documents has any more; their points are gone."""
    await connection.execute(_FORGET_WITHOUT_CHUNK, {"ids": list(documents)})


async def take_back_late(connection: AsyncConnection, chunks: Sequence[ChunkToIndex]) -> None:
    """See that what was written under a claim that had ended is removed, where it was taken back and forgotten."""
    late = [(chunk, own) for chunk in chunks for own in chunk.accepted]
    parameters = {
        "ids": [own.id for _, own in late],
        "questions": [own.question for _, own in late],
        "chunks": [chunk.lease.id for chunk, _ in late],
        "versions": [chunk.lease.version for chunk, _ in late],
    }
    if late:
        await connection.execute(_TAKE_BACK_LATE, parameters)


async def _asked(connection: AsyncConnection, tenant: str, query_id: UUID, chunk_id: UUID) -> _LoggedQuestion:
    row = (await connection.execute(_QUERY, {"id": query_id, "tenant": tenant})).one_or_none()
    if row is None:
        raise NotFound(
            f"There is no query {query_id}: take metadata.query_id of a reply, within FOREASK_QUERY_RETENTION_DAYS.",
            field="query_id",
        )
    if chunk_id not in row.chunk_ids:
        raise InvalidInput(f"The query did not return the chunk {chunk_id}.", field="chunk_id")
    return _LoggedQuestion(row.collection_id, row.question)


async def _live(connection: AsyncConnection, collection_id: UUID, chunk_id: UUID) -> RowMapping:
    """The chunk as queries see it, its document locked."""
    parameters = {"chunk": chunk_id, "collection": collection_id}
    row: RowMapping | None = (await connection.execute(_LIVE, parameters)).mappings().one_or_none()
    if row is None:
        raise NotFound(f"The chunk {chunk_id} is not there any more.", field="chunk_id")
    return row


def _own(chunk: RowMapping) -> set[str]:
    """The questions that the chunk has without its users."""
    questions: Any = chunk["questions"] or []
    if isinstance(questions, str):
        questions = orjson.loads(questions)
    return {plain(question["text"]) for question in questions if question["passed"]}


async def _take_back(connection: AsyncConnection, collection_id: UUID, accepted: UUID) -> bool:
    parameters = {"id": accepted, "collection": collection_id}
    document = (await connection.execute(_DOCUMENT, parameters)).scalar_one_or_none()
    if document is None:
        return False
    await connection.execute(_TOUCH, {"document": document})
    return (await connection.execute(_TAKE_BACK, parameters)).one_or_none() is not None


_QUERY = text("SELECT collection_id, question, chunk_ids FROM queries WHERE id = :id AND tenant = :tenant")

_LIVE = text("""
    SELECT c.document_id, c.questions
    FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
    WHERE c.id = :chunk AND d.collection_id = :collection AND d.state <> 'deleting'
    FOR UPDATE OF d
""")

_ACCEPT = text("""
    INSERT INTO accepted_questions AS a
        (id, tenant, collection_id, document_id, chunk_id, question, query_id, state)
    VALUES (:id, :tenant, :collection, :document, :chunk, :question, :query, 'waiting')
    ON CONFLICT (id) DO UPDATE
    SET state = 'waiting', question = excluded.question, query_id = excluded.query_id, created_at = now()
    WHERE a.state IN ('removing', 'refused')
    RETURNING id
""")

_CAP = text("""
    UPDATE accepted_questions SET state = 'removing'
    WHERE id = ANY(ARRAY(
        SELECT id FROM accepted_questions WHERE chunk_id = :chunk AND state <> 'removing'
        ORDER BY created_at DESC, id OFFSET :most))
""")

# Whoever compares the ledger with Qdrant sees by this that a document has changed meanwhile.
_TOUCH = text("UPDATE documents SET updated_at = now() WHERE id = :document")

_DOCUMENT = text("""
    SELECT document_id FROM accepted_questions WHERE id = :id AND collection_id = :collection AND state <> 'removing'
""")

_TAKE_BACK = text(
    "UPDATE accepted_questions SET state = 'removing' WHERE id = :id AND state <> 'removing' RETURNING id"
)

_PAGE = text("""
    SELECT a.id, a.document_id, d.external_id, a.chunk_id, a.question, a.query_id, a.state, a.created_at
    FROM accepted_questions a JOIN documents d ON d.id = a.document_id
    WHERE a.collection_id = :collection AND a.state <> 'removing'
      AND (CAST(:at AS timestamptz) IS NULL OR (a.created_at, a.id) < (:at, CAST(:after AS uuid)))
    ORDER BY a.created_at DESC, a.id DESC LIMIT :limit
""")

_ACCEPTED = text("""
    SELECT question, chunk_id FROM accepted_questions
    WHERE collection_id = :collection AND state <> 'removing' ORDER BY created_at, id
""")

_WAITING = text("""
    SELECT DISTINCT c.id
    FROM accepted_questions a
    JOIN documents d ON d.id = a.document_id
    JOIN chunks c ON c.id = a.chunk_id AND c.version = d.live_version
    WHERE a.document_id = ANY(CAST(:ids AS uuid[])) AND a.state = 'waiting' AND c.state = 'indexed'
""")

_WRITTEN = text("""
    UPDATE accepted_questions a SET state = v.state
    FROM unnest(CAST(:ids AS uuid[]), CAST(:states AS text[])) AS v(id, state)
    WHERE a.id = v.id AND a.state = 'waiting'
""")

_WAIT_AGAIN = text("""
    UPDATE accepted_questions a SET state = 'waiting'
    FROM chunks c
    WHERE c.id = ANY(CAST(:chunks AS uuid[])) AND c.state = 'dead' AND a.chunk_id = c.id AND a.state = 'indexed'
""")

_FORGET_WITHOUT_CHUNK = text("""
    DELETE FROM accepted_questions a
    WHERE a.document_id = ANY(CAST(:ids AS uuid[]))
      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = a.chunk_id)
""")

_TAKE_BACK_LATE = text("""
    INSERT INTO accepted_questions (id, tenant, collection_id, document_id, chunk_id, question, state)
    SELECT v.id, d.tenant, d.collection_id, d.id, c.id, v.question, 'removing'
    FROM unnest(CAST(:ids AS uuid[]), CAST(:questions AS text[]), CAST(:chunks AS uuid[]), CAST(:versions AS int[]))
         AS v(id, question, chunk_id, version)
    JOIN chunks c ON c.id = v.chunk_id AND c.version = v.version
    JOIN documents d ON d.id = c.document_id
    ON CONFLICT DO NOTHING
""")

# In any order: what Qdrant refuses stays, and must not stand in front of all others.
_REMOVING = text("""
    SELECT a.id, l.index_name
    FROM accepted_questions a JOIN collections l ON l.id = a.collection_id
    WHERE a.state = 'removing' ORDER BY random() LIMIT :limit FOR UPDATE OF a SKIP LOCKED
""")

_FORGET_REMOVED = text("""
    DELETE FROM accepted_questions a
    WHERE a.id = ANY(CAST(:ids AS uuid[])) AND a.state = 'removing'
      AND NOT EXISTS (SELECT 1 FROM chunks c WHERE c.id = a.chunk_id AND c.state = 'generated')
""")
