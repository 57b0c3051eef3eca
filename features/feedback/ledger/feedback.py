"""Feedback: users' questions become questions of the chunks that answered them, and can be retracted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from features.feedback.domain import AcceptedQuestionRecord, FeedbackResult, PendingRemoval
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.ids import accepted_id
from shared.domain.corpus.questions import plain
from shared.domain.errors import InvalidInput, NotFound
from shared.domain.states import AcceptedState
from shared.ledger.documents import accepted_questions, build_sync, chunk_matching
from shared.ledger.model import states
from shared.ledger.model.rows.questions import QUESTIONS, passed_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision

_REMOVAL_CLAIM = timedelta(seconds=90)  # longer than any request to Qdrant takes

SQL = statements.load(__file__, states.FRAGMENTS, questions=QUESTIONS)


@dataclass(frozen=True, slots=True)
class _AskedQuestion:
    collection_id: UUID
    question: str
    query_id: UUID | None = None


class Feedback:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def accept(
        self, tenant: str, query_id: UUID, chunk_id: UUID, *, most: int, key: UUID | None = None
    ) -> FeedbackResult:
        """Accept the question of a query for a chunk that the query returned.

        Args:
            tenant: owner of the query.
            query_id: id of a logged query.
            chunk_id: the chunk that answers it.
            most: maximum number of accepted questions of a chunk; one more displaces the oldest that the key accepted,
                or for an editor the oldest of any key, then of editors.
            key: the key that gives the feedback, and must have sent the query; None: an editor.

        Raises:
            NotFound: the tenant or its key has no such query, or the chunk does not exist any more.
            InvalidInput: the query did not return the chunk.
            Unavailable: the question was retracted, and its points are being deleted.
        """
        async with self._database.begin() as connection:
            query = await _returned(connection, tenant, query_id, chunk_id, key)
            await connection.execute(SQL.record_helpful, {"id": query_id, "helpful": True, "chunk": chunk_id})
            return await _accept(connection, tenant, query, chunk_id, most, key)

    async def hold(self, tenant: str, query_id: UUID, chunk_id: UUID, *, key: UUID) -> FeedbackResult:
        """Record that a chunk answered the query of a key, so that an editor can accept its question.

        Raises:
            NotFound: the key has no such query, or the chunk does not exist any more.
            InvalidInput: the query did not return the chunk.
        """
        async with self._database.begin() as connection:
            query = await _returned(connection, tenant, query_id, chunk_id, key)
            await connection.execute(SQL.record_helpful, {"id": query_id, "helpful": True, "chunk": chunk_id})
            live, chunk_id = await _in_live_build(connection, query.collection_id, chunk_id)
            chunk = await _live_chunk(connection, live, chunk_id)
            if plain(query.question) in _passed_questions(chunk):
                return FeedbackResult("already_asked", query.question, None)
            identity = accepted_id(chunk_id, query.question)
            parameters = {"id": identity, "collection": live, "key": None}
            if (await connection.execute(SQL.document_of_question, parameters)).one_or_none() is not None:
                return FeedbackResult("already_accepted", query.question, identity)
            return FeedbackResult("pending_review", query.question, None)

    async def target(self, tenant: str, query_id: UUID, chunk_id: UUID, *, key: UUID | None) -> tuple[str, UUID]:
        """Return the name of a query's collection, and the chunk of its live build that feedback would change.

        Raises:
            NotFound, InvalidInput: as `accept`.
        """
        async with self._database.begin() as connection:
            query = await _returned(connection, tenant, query_id, chunk_id, key)
            live, chunk_id = await _in_live_build(connection, query.collection_id, chunk_id)
            return (await connection.execute(SQL.collection_name, {"collection": live})).one().name, chunk_id

    @again_after_collision
    async def accept_any(self, collection: Collection, question: str, chunk_id: UUID, *, most: int) -> FeedbackResult:
        """Accept a question for a chunk of a collection as an editor, without a query.

        Raises:
            NotFound: the collection has no such visible chunk.
            Unavailable: as `accept`.
        """
        async with self._database.begin() as connection:
            asked = _AskedQuestion(collection.id, question)
            return await _accept(connection, collection.tenant, asked, chunk_id, most, None)

    @again_after_collision
    async def retract(self, tenant: str, query_id: UUID, chunk_id: UUID, *, key: UUID | None = None) -> FeedbackResult:
        """Retract the question of a query from a chunk, if it was accepted by the key, or for an editor by any.

        Raises:
            NotFound: the tenant or its key has no such query, or the chunk does not exist any more.
            InvalidInput: the query did not return the chunk.
        """
        async with self._database.begin() as connection:
            query = await _returned(connection, tenant, query_id, chunk_id, key)
            await connection.execute(SQL.record_helpful, {"id": query_id, "helpful": False, "chunk": None})
            live, chunk_id = await _in_live_build(connection, query.collection_id, chunk_id)
            identity = accepted_id(chunk_id, query.question)
            if not await _retract(connection, live, identity, key):
                return FeedbackResult("not_accepted", query.question, None)
            return FeedbackResult("retracted", query.question, identity)

    @again_after_collision
    async def remove(self, collection: Collection, accepted: UUID) -> None:
        """Retract an accepted question.

        Raises:
            NotFound: the collection has no accepted question of that id.
        """
        async with self._database.begin() as connection:
            if not await _retract(connection, collection.id, accepted, None):
                raise NotFound(
                    f"There is no accepted question {accepted}."
                    f" GET /v1/collections/{collection.name}/accepted-questions lists them."
                )

    async def page(
        self, collection: Collection, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> list[AcceptedQuestionRecord]:
        """Return a collection's accepted questions, newest first, after `after`."""
        at, identity = after or (None, None)
        parameters = {"collection": collection.id, "at": at, "after": identity, "limit": limit}
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.page, parameters)
            return [AcceptedQuestionRecord(**(dict(row) | {"state": AcceptedState(row["state"])})) for row in rows]

    async def claim_removals(self, limit: int) -> list[PendingRemoval]:
        """Claim retracted questions, so that none is accepted again while its points are deleted."""
        async with self._database.begin() as connection:
            rows = await connection.execute(SQL.claim_removals, {"limit": limit, "claim": _REMOVAL_CLAIM})
            return [PendingRemoval(**row) for row in rows]

    async def settle_removals(self, claimed: Sequence[PendingRemoval], deleted: AbstractSet[UUID]) -> int:
        """Delete questions whose points are deleted, and release the others; return the number of deleted questions.

        A question is kept if its chunk had a writer before its points were deleted, because the writer may have written
        one afterwards. A question whose claim has expired is kept, too.

        Args:
            claimed: the claimed questions.
            deleted: ids of questions whose points are deleted.
        """
        removable = [question for question in claimed if question.id in deleted and not question.has_writer]
        async with self._database.begin() as connection:
            removed = (await connection.execute(SQL.delete_removed, _claims(removable))).all()
            await connection.execute(SQL.release_removals, _claims(claimed))
        return len(removed)


def _claims(questions: Sequence[PendingRemoval]) -> dict[str, list[object]]:
    return {"ids": [q.id for q in questions], "until": [q.claimed_until for q in questions]}


async def _accept(  # noqa: PLR0917 - the parts of a question's acceptance
    connection: Connection, tenant: str, asked: _AskedQuestion, chunk_id: UUID, most: int, key: UUID | None
) -> FeedbackResult:
    live, chunk_id = await _in_live_build(connection, asked.collection_id, chunk_id)
    chunk = await _live_chunk(connection, live, chunk_id)
    if plain(asked.question) in _passed_questions(chunk):
        return FeedbackResult("already_asked", asked.question, None)
    parameters = {
        "id": accepted_id(chunk_id, asked.question),
        "tenant": tenant,
        "collection": live,
        "document": chunk["document_id"],
        "chunk": chunk_id,
        "question": asked.question,
        "query": asked.query_id,
        "accepted_by": key,
    }
    if not await _make_room(connection, parameters, most):
        return FeedbackResult("chunk_full", asked.question, None)
    if not await accepted_questions.accept(connection, parameters):
        if key is None and await accepted_questions.assign(connection, parameters):
            await _copy_to_other_builds(connection, chunk["document_id"])
        return FeedbackResult("already_accepted", asked.question, parameters["id"])
    await connection.execute(SQL.touch, {"ids": [chunk["document_id"]]})
    followers = await _copy_to_other_builds(connection, chunk["document_id"])
    due = await accepted_questions.reindex_waiting(connection, [chunk["document_id"], *followers])
    embedding = chunk["embedding_model"]
    return FeedbackResult("accepted", asked.question, parameters["id"], due=bool(due), embedding=embedding)


async def _make_room(connection: Connection, question: Mapping[str, Any], most: int) -> bool:
    """Displace questions until the chunk has room for this one; return False if the key may not displace enough."""
    of_chunk = {"id": question["id"], "chunk": question["chunk"], "key": question["accepted_by"]}
    taken = (await connection.execute(SQL.taken, of_chunk)).one()
    excess = taken.others + 1 - most
    if taken.is_accepted or excess <= 0:
        return True
    if taken.displaceable < excess:
        return False
    await connection.execute(SQL.displace, {**of_chunk, "excess": excess})
    return True


async def _returned(
    connection: Connection, tenant: str, query_id: UUID, chunk_id: UUID, key: UUID | None
) -> _AskedQuestion:
    """Read a query that returned the chunk, and was sent with the key if one is given."""
    parameters = {"id": query_id, "tenant": tenant, "key": key}
    row = (await connection.execute(SQL.logged_query, parameters)).one_or_none()
    if row is None:
        raise NotFound(
            f"This key has sent no query {query_id}: use `metadata.query_id` of a reply to this key, within"
            " FOREASK_QUERY_RETENTION_DAYS.",
            field="query_id",
        )
    if chunk_id not in row.chunk_ids:
        raise InvalidInput(f"The query did not return the chunk {chunk_id}.", field="chunk_id")
    return _AskedQuestion(row.collection_id, row.question, query_id)


async def _in_live_build(connection: Connection, collection_id: UUID, chunk_id: UUID) -> tuple[UUID, UUID]:
    """Return the live build, and its chunk that corresponds to the chunk of a query; the build stays live.

    Raises:
        NotFound: the live build has no such chunk.
    """
    collection = (await connection.execute(SQL.collection_name, {"collection": collection_id})).one_or_none()
    if collection is None:
        raise no_chunk(chunk_id)
    await build_sync.hold(connection, collection.tenant, collection.name)
    builds = await build_sync.builds_of(connection, collection.tenant, collection.name)
    if not builds:  # the collection is being erased
        raise no_chunk(chunk_id)
    live, *_ = builds
    if live["id"] == collection_id:
        return collection_id, chunk_id
    found = await chunk_matching.in_live_build(connection, collection_id, live["id"], chunk_id)
    if found is None:
        raise no_chunk(chunk_id)
    return live["id"], found


async def _live_chunk(connection: Connection, collection_id: UUID, chunk_id: UUID) -> Row:
    """Read a chunk as queries see it, and lock its document."""
    parameters = {"chunk": chunk_id, "collection": collection_id}
    row: Row | None = (await connection.execute(SQL.live_chunk, parameters)).one_or_none()
    if row is None:
        raise no_chunk(chunk_id)
    return row


def no_chunk(chunk_id: UUID) -> NotFound:
    return NotFound(f"The chunk {chunk_id} does not exist any more.", field="chunk_id")


def _passed_questions(chunk: Row) -> set[str]:
    """Return the chunk's questions that users did not ask, in plain form."""
    return set() if chunk["questions"] is None else set(map(plain, passed_questions(chunk)))


async def _retract(connection: Connection, collection_id: UUID, accepted: UUID, key: UUID | None) -> bool:
    """Retract a question that the key accepted, or without a key any question; return whether there was one."""
    parameters = {"id": accepted, "collection": collection_id, "key": key}
    document = (await connection.execute(SQL.document_of_question, parameters)).scalar_one_or_none()
    if document is None:
        return False
    await connection.execute(SQL.touch, {"ids": [document]})
    if (await connection.execute(SQL.retract, parameters)).one_or_none() is None:
        return False
    await _copy_to_other_builds(connection, document)
    return True


async def _copy_to_other_builds(connection: Connection, document: UUID) -> Sequence[UUID]:
    """Copy the accepted questions of a locked live document to the other builds; return its rows there, locked."""
    followers = await accepted_questions.lock_followers(connection, document)
    await connection.execute(SQL.touch, {"ids": followers})
    await accepted_questions.copy_from_live(connection, followers)
    return followers
