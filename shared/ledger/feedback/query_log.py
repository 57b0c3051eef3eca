"""The query log: users' questions and the returned chunks, retained while feedback is possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from shared.domain.questions import plain
from shared.ledger.postgres import statements
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
        best_score: highest score of these; None if no chunk was returned.
        found: whether the documents answered its last query: an answer was written, or chunks were returned.
        helpful: newest feedback on any of its queries; None if there is none.
        helpful_chunk_id: chunk of this feedback if it is positive.
        times: number of queries.
        last_at: time of the last query.
    """

    id: UUID
    question: str
    chunk_ids: Sequence[UUID]
    best_score: float | None
    found: bool
    helpful: bool | None
    helpful_chunk_id: UUID | None
    times: int
    first_at: datetime
    last_at: datetime

    @property
    def answered(self) -> bool:
        return self.found and self.helpful is not False


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

    async def asked(self, tenant: str, name: str, since: datetime) -> list[LoggedQuestion]:
        """Return the distinct questions to a collection, most recently asked first.

        Questions that differ in case, spacing or final punctuation are one question. The newest 10,000 queries are
        read.
        """
        parameters = {"tenant": tenant, "name": name, "since": since, "limit": _MOST_GROUPED}
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.newest, parameters)).all()
        asked: dict[str, LoggedQuestion] = {}
        for row in rows:
            if (last := asked.get(form := plain(row.question))) is None:
                asked[form] = LoggedQuestion(
                    row.id,
                    row.question,
                    row.chunk_ids,
                    row.best_score,
                    row.found,
                    row.helpful,
                    row.helpful_chunk_id,
                    times=1,
                    first_at=row.created_at,
                    last_at=row.created_at,
                )
            else:
                last.times += 1
                last.first_at = row.created_at
                if last.helpful is None:
                    last.helpful, last.helpful_chunk_id = row.helpful, row.helpful_chunk_id
        return list(asked.values())

    async def purge(self, age: timedelta) -> bool:
        """Delete some queries that are older; return whether more may wait."""
        async with self._database.begin() as connection:
            deleted = (await connection.execute(SQL.purge, {"age": age, "limit": _BATCH_SIZE})).all()
        return len(deleted) == _BATCH_SIZE
