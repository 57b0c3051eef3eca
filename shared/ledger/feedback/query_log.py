"""The query log: users' questions and the returned chunks, retained while feedback is possible."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Literal, Self
from uuid import UUID

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.questions import plain
from shared.domain.errors import NotFound
from shared.domain.spending.usage import Usage
from shared.domain.stored import known_fields
from shared.ledger.model import states
from shared.ledger.model.rows.encoding import as_json
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

_MOST_GROUPED = 10_000
_BATCH_SIZE = 1000  # rows of one transaction

SQL = statements.load(__file__, states.FRAGMENTS)

QueryState = Literal["certain", "uncertain", "none", "passages"]
"""The result of a query: a certain answer, an uncertain one, none, or passages of which no answer was written."""


@dataclass(frozen=True, slots=True)
class QueryLogEntry:
    """A user's question, the returned chunks, and the key in the ledger that asked it, if any.

    Args:
        scores: scores of the chunks.
        best_score: score of the first of these; None if no chunk was returned.
        milliseconds: duration of each stage until now.
    """

    id: UUID
    tenant: str
    collection_id: UUID
    question: str
    chunk_ids: Sequence[str]
    best_score: float | None = None
    key_id: UUID | None = None
    scores: Sequence[float] = ()
    milliseconds: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QueryOutcome:
    """The costs of a query, and the facts about its answer, as the log stores them.

    Args:
        milliseconds: duration of each stage and, with an answer, in total.
        form: form of the answer; None without an answer.
        incomplete_reason: why the answer is incomplete.
        cited: numbers of the passages that the answer cites, from 1.
        model: the language model; None without one.
        usage: tokens of the language model.
    """

    milliseconds: Mapping[str, float] = field(default_factory=dict)
    form: str | None = None
    incomplete_reason: str | None = None
    cited: Sequence[int] = ()
    model: str | None = None
    usage: Usage = Usage()

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read a stored outcome. Fields that an older release did not write have their defaults."""
        known = known_fields(values, cls.__dataclass_fields__)
        if "usage" in known:
            known["usage"] = Usage(**known_fields(known["usage"], Usage.__dataclass_fields__))
        return cls(**known)


@dataclass(frozen=True, slots=True)
class LoggedPassage:
    """A passage that a query returned.

    Args:
        number: its number in the answer, from 1.
        score: its score; None if unknown.
        source: its document and content; None if queries do not see it any more.
    """

    number: int
    chunk_id: UUID
    score: float | None
    source: PassageSource | None

    def without_text(self) -> Self:
        if self.source is None:
            return self
        content = self.source.content
        return replace(self, source=replace(self.source, content=content.with_text("", content.span)))


@dataclass(frozen=True, slots=True)
class PassageSource:
    """The document of a passage, and its content."""

    document_id: UUID
    external_id: str
    filename: str | None
    content: ChunkContent


@dataclass(frozen=True, slots=True)
class LoggedQuery:
    """A query in the log, with the documents of its passages as they are now.

    Args:
        collection: name of its collection.
        answer: text of its answer; None if it is not stored, or a passage that it cites changed or was deleted.
        certain: whether its answer was certain; None without an answer.
        key_name: name of the key that asked; None for a key of the settings, without keys, or if it was deleted.
        gap_id: the gap of its question; None if it is in none.
    """

    id: UUID
    collection: str
    question: str
    answer: str | None
    found: bool
    certain: bool | None
    helpful: bool | None
    helpful_chunk_id: UUID | None
    key_id: UUID | None
    key_name: str | None
    gap_id: UUID | None
    created_at: datetime
    outcome: QueryOutcome
    passages: Sequence[LoggedPassage]

    @property
    def state(self) -> QueryState:
        return _state(found=self.found, certain=self.certain)

    def without_texts(self) -> Self:
        """Return a copy without the answer and the texts of the passages."""
        return replace(self, answer=None, passages=[passage.without_text() for passage in self.passages])


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
        certain: whether the answer to its last query was certain; None without an answer.
        key_id: key in the ledger that sent its last query, if any.
        key_name: name of this key.
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
    certain: bool | None = None
    key_id: UUID | None = None
    key_name: str | None = None

    @property
    def state(self) -> QueryState:
        return _state(found=self.found, certain=self.certain)

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


def _state(*, found: bool, certain: bool | None) -> QueryState:
    if not found:
        return "none"
    if certain is None:
        return "passages"
    return "certain" if certain else "uncertain"


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
            "scores": ["{" + ",".join(map(str, entry.scores)) + "}" for entry in entries],
            "outcomes": [as_json({"milliseconds": entry.milliseconds}) for entry in entries],
        }
        await self._database.rows(SQL.insert, parameters)

    async def record(
        self,
        query_id: UUID,
        outcome: QueryOutcome,
        *,
        found: bool,
        certain: bool,
        digest: bytes | None = None,
        answer: str | None = None,
        chunk_ids: Sequence[str] = (),
    ) -> None:
        """Record the result of a query, for which the row assumes that only passages were returned.

        Args:
            query_id: the query.
            outcome: its costs, and facts about its answer.
            found: whether the documents answered it.
            certain: whether its answer is certain.
            digest: identifies its answer; None if it cannot be shared.
            answer: text of its answer; None: it is not stored.
            chunk_ids: chunks of which the answer was written. The text is stored only if the row still has all of them.
        """
        parameters = {
            "id": query_id,
            "found": found,
            "certain": certain,
            "outcome": as_json(asdict(outcome)),
            "digest": digest,
            "answer": answer,
            "chunks": list(chunk_ids),
        }
        async with self._database.begin() as connection:
            await connection.execute(SQL.record_outcome, parameters)

    async def find(self, tenant: str, query_id: UUID, age: timedelta) -> LoggedQuery:
        """Return a query.

        Args:
            tenant: its tenant.
            query_id: its id.
            age: age from which queries are not returned.

        Raises:
            NotFound: the query does not exist.
        """
        async with self._database.begin() as connection:
            row = (await connection.execute(SQL.find, {"id": query_id, "tenant": tenant, "age": age})).one_or_none()
            if row is None:
                raise NotFound(
                    f"The question {query_id} does not exist: questions are retained for FOREASK_QUERY_RETENTION_DAYS."
                )
            where = {"chunks": row["chunk_ids"], "tenant": tenant, "collection": row["collection"]}
            sources = {each["chunk_id"]: each for each in await connection.execute(SQL.passages, where)}
        return _logged_query(row, sources)

    async def asked(
        self,
        tenant: str,
        name: str,
        since: datetime,
        *,
        chunk_id: UUID | None = None,
        key_id: UUID | None = None,
        words: str | None = None,
    ) -> list[LoggedQuestion]:
        """Return the distinct questions to a collection, most recently asked first.

        Questions that differ in case, spacing or final punctuation are one question. The newest 10,000 queries that
        pass the filters are read.

        Args:
            tenant: owner of the collection.
            name: its name.
            since: time of the oldest query.
            chunk_id: only queries for which this chunk was the first result; None: all queries.
            key_id: only queries of this key in the ledger; None: all queries.
            words: only questions that contain this text in any case; None: all questions.
        """
        parameters = {
            "tenant": tenant,
            "name": name,
            "since": since,
            "limit": _MOST_GROUPED,
            "chunk": chunk_id,
            "key": key_id,
            "words": words,
        }
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
                certain=row.certain,
                key_id=row.key_id,
                key_name=row.key_name,
            )
        if last.helpful is None and row.helpful is not None:
            last.helpful, last.helpful_at, last.helpful_chunk_id = row.helpful, row.created_at, row.helpful_chunk_id
        last.query_ids.append(row.id)
        last.asked_at.append(row.created_at)
    return list(asked.values())


def _logged_query(row: Row, sources: Mapping[UUID, Row]) -> LoggedQuery:
    outcome = QueryOutcome.from_json(row["outcome"])
    chunk_ids, scores = row["chunk_ids"], row["scores"]
    passages = [
        LoggedPassage(
            number,
            chunk_id,
            scores[number - 1] if number <= len(scores) else None,
            _source(sources[chunk_id]) if chunk_id in sources else None,
        )
        for number, chunk_id in enumerate(chunk_ids, 1)
    ]
    cited = [passages[number - 1] for number in outcome.cited if number <= len(passages)]
    shown = row["answer"] if all(passage.source for passage in cited) else None
    given = LoggedQuery.__dataclass_fields__.keys() - {"answer", "outcome", "passages"}
    values = {name: row[name] for name in given}
    return LoggedQuery(**values, answer=shown, outcome=outcome, passages=passages)


def _source(row: Row) -> PassageSource:
    content = ChunkContent.from_json(row["content"])
    return PassageSource(row["document_id"], row["external_id"], row["filename"], content)
