"""The query log: users' questions and the returned chunks, retained while feedback is possible."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from uuid import UUID

from shared.domain.corpus.questions import plain
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

_MOST_GROUPED = 10_000
_BATCH_SIZE = 1000  # rows of one transaction

SQL = statements.load(__file__)


@dataclass(frozen=True, slots=True)
class QueryLogEntry:
    """A user's question, the returned chunks, and the key in the ledger that asked it, if any."""

    id: UUID
    tenant: str
    collection_id: UUID
    question: str
    chunk_ids: Sequence[str]
    best_score: float | None = None
    key_id: UUID | None = None


@dataclass(slots=True)
class LoggedQuestion:
    """A question in the query log, asked once or more often.

    Args:
        id: id of the last query.
        question: its last wording.
        chunk_ids: chunks that its last query returned.
        best_score: score of the first of these; None if no chunk was returned.
        found: whether the documents answered its last query: an answer was written, or chunks were returned.
        helpful: newest feedback on any of its queries; None if there is none.
        helpful_at: time of the query with this feedback.
        helpful_chunk_id: chunk of this feedback if it is positive.
        query_ids: ids of its queries, newest first.
        asked_at: times of these queries.
    """

    id: UUID
    question: str
    chunk_ids: Sequence[UUID]
    best_score: float | None
    found: bool
    helpful: bool | None
    helpful_chunk_id: UUID | None
    helpful_at: datetime | None = None
    query_ids: list[UUID] = field(default_factory=list)
    asked_at: list[datetime] = field(default_factory=list)

    @property
    def times(self) -> int:
        return len(self.asked_at)

    @property
    def first_at(self) -> datetime:
        return self.asked_at[-1]

    @property
    def last_at(self) -> datetime:
        return self.asked_at[0]

    @property
    def answered(self) -> bool:
        return self.found and self.helpful is not False

    @property
    def unanswered_at(self) -> datetime | None:
        """Time of the query because of which it is not answered; None if it is answered."""
        if self.answered:
            return None
        return self.helpful_at if self.found else self.last_at


def digest_of(answer: str, chunk_ids: Iterable[UUID | str]) -> bytes:
    """Return the digest of an answer and the chunks that its numbers refer to.

    An erasure removes ids of chunks from the log. The digest of an answer that is written meanwhile does not fit then.
    """
    return hashlib.sha256("\0".join((*map(str, chunk_ids), answer)).encode()).digest()


class QueryLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def append(self, entries: Sequence[QueryLogEntry]) -> None:
        """Insert queries; a crash of PostgreSQL within the next second may still lose them."""
        parameters = {
            "ids": [entry.id for entry in entries],
            "tenants": [entry.tenant for entry in entries],
            "collections": [entry.collection_id for entry in entries],
            "questions": [entry.question for entry in entries],
            "chunks": ["{" + ",".join(entry.chunk_ids) + "}" for entry in entries],
            "best_scores": [entry.best_score for entry in entries],
            "keys": [entry.key_id for entry in entries],
        }
        await self._database.rows(SQL.insert, parameters)

    async def record_answer(self, query_id: UUID, digest: bytes) -> None:
        """Record the digest that identifies the answer to a query."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.record_answer, {"id": query_id, "digest": digest})

    async def not_found(self, query_id: UUID) -> None:
        """Record that the documents did not answer a query, though chunks were returned."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.record_not_found, {"id": query_id})

    async def asked(
        self, tenant: str, name: str, since: datetime, *, chunk_id: UUID | None = None
    ) -> list[LoggedQuestion]:
        """Return the distinct questions to a collection, most recently asked first.

        Questions that differ in case, spacing or final punctuation are one question. The newest 10,000 queries are
        read.

        Args:
            tenant: owner of the collection.
            name: its name.
            since: time of the oldest query.
            chunk_id: only queries for which this chunk was the first result; None: all queries.
        """
        parameters = {"tenant": tenant, "name": name, "since": since, "limit": _MOST_GROUPED, "chunk": chunk_id}
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.newest, parameters)).all()
        return await asyncio.to_thread(_distinct, rows)  # 10,000 rows take 0.1 s

    async def purge(self, age: timedelta) -> bool:
        """Delete some queries that are older; return whether more may wait."""
        async with self._database.begin() as connection:
            deleted = (await connection.execute(SQL.purge, {"age": age, "limit": _BATCH_SIZE})).all()
        return len(deleted) == _BATCH_SIZE


def _distinct(rows: Sequence[Row]) -> list[LoggedQuestion]:
    """Return the distinct questions of queries, both newest first."""
    asked: dict[str, LoggedQuestion] = {}
    for row in rows:
        if (last := asked.get(form := plain(row.question))) is None:
            last = asked[form] = LoggedQuestion(
                row.id,
                row.question,
                row.chunk_ids,
                row.best_score,
                row.found,
                helpful=None,
                helpful_chunk_id=None,
            )
        if last.helpful is None and row.helpful is not None:
            last.helpful, last.helpful_at, last.helpful_chunk_id = row.helpful, row.created_at, row.helpful_chunk_id
        last.query_ids.append(row.id)
        last.asked_at.append(row.created_at)
    return list(asked.values())
