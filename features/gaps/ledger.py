"""Gaps: unanswered questions that mean the same, with their assignments and resolutions.

A query stores the gap of its question and the question's vector, so that both are deleted with the query. Nothing else
contains a text of a gap. The oldest query of a gap is its leader, with which new questions are compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from uuid import UUID, uuid4

from features.gaps.domain import GapState
from shared.domain.corpus.collections import Collection
from shared.domain.errors import NotFound
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.feedback.query_log import LoggedQuestion
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database, again_after_collision

_BATCH_SIZE = 1_000  # rows of one transaction

SQL = statements.load(__file__, states.FRAGMENTS)

ERASED_TABLES = (
    ErasedTable(name="gaps", of_tenant=SQL.erase_of_tenant, of_part=SQL.erase_of_part, under_name=SQL.count_under_name),
    ErasedTable(name="resolutions", of_part=SQL.erase_resolutions, by_document=SQL.count_resolutions),
)


@dataclass(slots=True)
class GapQuestion(LoggedQuestion):
    """A question in the query log, with the gap that its queries store.

    Args:
        gap_id: the gap that the question belongs to; None if it was not added to one.
        gap_query_id: the newest query that stores the gap; its last query may not store it yet.
        gap_stored_at: time of that query.
    """

    gap_id: UUID | None = None
    gap_query_id: UUID | None = None
    gap_stored_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class QuestionVector:
    """A question of a query, with its vector.

    Args:
        query_id: the query.
        question: its text.
        vector: bytes of its vector.
    """

    query_id: UUID
    question: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class Leader:
    """The oldest question of a gap; `embedding` is the name of the embedding of its vector."""

    gap_id: UUID
    embedding: str
    question_vector: QuestionVector


Grouper = Callable[[Sequence[bytes], Sequence[bytes]], Sequence[int]]
"""Returns for each new vector the index of its leader, among the leaders followed by the new vectors."""


class Gaps:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def with_gaps(self, collection: Collection, asked: Sequence[LoggedQuestion]) -> list[GapQuestion]:
        """Return questions of a collection with their gaps, in the same order."""
        ids = [query_id for each in asked for query_id in each.query_ids]
        rows = await self._database.rows(SQL.stored, {**_of(collection), "ids": ids})
        gaps = {row["id"]: row["gap_id"] for row in rows}
        return await asyncio.to_thread(lambda: [_with_gap(each, gaps) for each in asked])

    async def leaders(self, collection: Collection, limit: int) -> list[Leader]:
        """Return the leaders of a collection's gaps, at most `limit`, most recently asked first."""
        parameters = {**_of(collection), "limit": limit}
        return [
            Leader(
                row["gap_id"],
                row["question_embedding"],
                QuestionVector(row["id"], row["question"], row["question_vector"]),
            )
            for row in await self._database.rows(SQL.leaders, parameters)
        ]

    @again_after_collision
    async def replace_vectors(self, collection: Collection, leaders: Sequence[Leader]) -> None:
        """Store vectors of another embedding for the leaders."""
        for embedding in {leader.embedding for leader in leaders}:
            chosen = [leader for leader in leaders if leader.embedding == embedding]
            parameters = _assignments(
                [leader.question_vector for leader in chosen], [leader.gap_id for leader in chosen]
            )
            async with self._database.begin() as connection:
                await connection.execute(SQL.assign, {**_of(collection), "embedding": embedding, **parameters})

    @again_after_collision
    async def add(
        self, collection: Collection, embedding: str, new: Sequence[QuestionVector], grouped: Grouper, most: int
    ) -> None:
        """Add questions to the gaps of a collection; other questions become leaders of new gaps.

        Args:
            collection: the collection of the queries.
            embedding: name of the embedding of the vectors.
            new: questions of queries that are in no gap yet, oldest first. A query that was added since is skipped.
            grouped: decides which gap a question belongs to. It blocks its thread, for less than a second.
            most: maximum number of gaps that questions are compared with.
        """
        scope = _of(collection)
        async with self._database.begin() as connection:
            await connection.execute(SQL.lock, scope)
            ids = [each.query_id for each in new]
            left = set((await connection.execute(SQL.ungrouped, {**scope, "ids": ids})).scalars())
            new = [each for each in new if each.query_id in left]
            rows = (await connection.execute(SQL.leaders, {**scope, "limit": most})).all()
            rows = [row for row in rows if row.question_embedding == embedding]
            gaps = [row.gap_id for row in rows] + [uuid4() for _ in new]
            vectors = [row.question_vector for row in rows], [each.vector for each in new]
            chosen = await asyncio.to_thread(grouped, *vectors)
            parameters = _assignments(new, [gaps[index] for index in chosen])
            await connection.execute(SQL.assign, {**scope, "embedding": embedding, **parameters})

    @again_after_collision
    async def carry(self, collection: Collection, asked: Sequence[GapQuestion]) -> None:
        """Store the gaps of questions with their newest queries, too, because the older ones expire first."""
        parameters = {"ids": [each.id for each in asked], "older": [each.gap_query_id for each in asked]}
        async with self._database.begin() as connection:
            await connection.execute(SQL.carry, {**_of(collection), **parameters})

    async def states(self, collection: Collection) -> Mapping[UUID, GapState]:
        """Return the states of the gaps that have been assigned or resolved."""
        rows = await self._database.rows(SQL.states, _of(collection))
        return {
            row["id"]: GapState(
                row["assigned_to"],
                row["document_id"],
                row["external_id"],
                None if row["document_id"] is None else row["resolved_at"],
            )
            for row in rows
        }

    async def passages(self, collection: Collection, chunk_ids: Sequence[UUID]) -> Mapping[UUID, tuple[UUID, str]]:
        """Return the document of each chunk that still exists, by its id and its external id."""
        rows = await self._database.rows(SQL.passages, {**_of(collection), "ids": list(chunk_ids)})
        return {row["id"]: (row["document_id"], row["external_id"]) for row in rows}

    @again_after_collision
    async def change(self, collection: Collection, gap_id: UUID, changes: Mapping[str, str | UUID | None]) -> None:
        """Assign or resolve a gap.

        Args:
            collection: its collection.
            gap_id: its id.
            changes: new values of `assigned_to` and `resolved_by`; a missing one is unchanged, and None removes it.

        Raises:
            NotFound: the collection has no such gap, or no such document.
        """
        parameters = {
            **_of(collection),
            "id": gap_id,
            "assigned_to": changes.get("assigned_to"),
            "resolved_by": changes.get("resolved_by"),
            "assigns": "assigned_to" in changes,
            "resolves": "resolved_by" in changes,
        }
        async with self._database.begin() as connection:
            if (document := changes.get("resolved_by")) is not None:
                held = await connection.execute(SQL.hold_document, {**_of(collection), "document": document})
                if held.one_or_none() is None:
                    raise NotFound(
                        f"The collection '{collection.name}' has no document {document}. GET /v1/documents lists the"
                        " documents.",
                        field="resolved_by",
                    )
            if (await connection.execute(SQL.change, parameters)).one_or_none() is None:
                raise NotFound(
                    f"The collection '{collection.name}' has no gap {gap_id}. Its questions may have expired."
                )

    async def forget(self) -> bool:
        """Delete some gaps whose questions have been deleted; return whether more may be left."""
        return len(await self._database.rows(SQL.delete_empty, {"limit": _BATCH_SIZE})) == _BATCH_SIZE


def _of(collection: Collection) -> dict[str, str]:
    return {"tenant": collection.tenant, "name": collection.name}


def _with_gap(asked: LoggedQuestion, gaps: Mapping[UUID, UUID]) -> GapQuestion:
    question = GapQuestion(**{each.name: getattr(asked, each.name) for each in fields(asked)})
    for query_id, asked_at in zip(asked.query_ids, asked.asked_at, strict=True):
        if query_id in gaps:
            question.gap_id, question.gap_query_id, question.gap_stored_at = gaps[query_id], query_id, asked_at
            break
    return question


def _assignments(questions: Sequence[QuestionVector], gaps: Sequence[UUID]) -> dict[str, object]:
    return {
        "ids": [each.query_id for each in questions],
        "gaps": list(gaps),
        "vectors": [each.vector for each in questions],
    }
