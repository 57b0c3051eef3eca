"""Shared answers: users' answers that other users of the tenant open by a link.

The question and the passages of an answer belong to a logged query, with a digest of the text and the passages, so that
only text that this server has written can be shared. A shared answer contains no passages. They are read whenever it is
opened, and the answer cannot be opened if one of them has changed or was deleted. Such answers are deleted soon.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

from features.shared_answers.domain import SharedAnswer, SharedSource
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.errors import Conflict, InvalidInput, NotFound
from shared.ledger.erasure.erased_tables import ErasedTable, TextStatements
from shared.ledger.feedback.query_log import digest_of
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database, again_after_collision
from shared.ledger.postgres.statements import Statement

_MOST, _MOST_OF_KEY = 10_000, 1_000  # shared answers of a tenant, and of a key
_CHECK_EVERY = timedelta(minutes=10)
_SLICE = 100

SQL = statements.load(__file__, states.FRAGMENTS)

ERASED_TABLES = (
    ErasedTable(
        name="shared_answers",
        of_tenant=SQL.erase_of_tenant,
        of_part=SQL.erase_of_part,
        under_name=SQL.count_under_name,
        by_document=SQL.count_by_document,
        texts=TextStatements(SQL.count_texts, SQL.erase_texts),
    ),
)


@dataclass(frozen=True, slots=True)
class AnswerToShare:
    """An answer to a logged query.

    Args:
        query_id: id of the query.
        text: the answer, unchanged.
        numbers: the cited passages of the query, from 1, in the order of the answer.
        form: form of the server's answers, such as `extractive`.
        lasts: time until it expires.
        key_id: the key or the person that shares it, and must have sent the query; None: any query of the tenant.
        key_name: name of this key for readers.
        principals: the readers that a person matches, who must read each cited passage; None: a key.
    """

    query_id: UUID
    text: str
    numbers: Sequence[int]
    form: str
    lasts: timedelta
    key_id: UUID | None
    key_name: str | None
    principals: Sequence[str] | None = None


class SharedAnswers:
    def __init__(self, database: Database) -> None:
        self._database = database

    @again_after_collision
    async def share(self, tenant: str, new: AnswerToShare) -> SharedAnswer:
        """Share an answer; return the existing one if the key has shared it already.

        Raises:
            NotFound: the tenant or its key has no such query.
            InvalidInput: the text is not the answer to this query, or cites no passage.
            Conflict: the answer was not recorded, a cited passage has changed or was deleted, or the tenant or the key
                has the maximum number.
        """
        async with self._database.begin() as connection:
            query = await _logged_answer(connection, tenant, new)
            numbers = [number for number in new.numbers if number <= len(query.chunk_ids)]
            if not numbers:
                raise InvalidInput("An answer that cites no passage cannot be shared.", field="answer")
            chunks = [query.chunk_ids[number - 1] for number in numbers]
            where = _where(chunks, tenant, query.collection, new.principals)
            found = await _passages(connection, SQL.lock_passages, where)
            if found is None or not await _are_readable(connection, tenant, query.document_ids, new.principals):
                raise Conflict("A document that this answer quotes has changed or was deleted: ask the question again.")
            values = where | {
                "id": uuid4(),
                "question": query.question,
                "answer": new.text,
                "form": new.form,
                "numbers": numbers,
                "key": new.key_id,
                "key_name": new.key_name,
                "lasts": new.lasts,
                "most": _MOST,
                "most_of_key": _MOST_OF_KEY,
            }
            if (same := (await connection.execute(SQL.same, values)).one_or_none()) is not None:
                return _answer(same, found)
            # Of all passages, because the model may have used one without citing it: an erasure deletes the answer.
            values["documents"] = query.document_ids
            row = (await connection.execute(SQL.insert, values)).one_or_none()
        if row is None:
            raise Conflict(f"A tenant may share {_MOST:,} answers, and a key {_MOST_OF_KEY:,}: wait until some expire.")
        return _answer(row, found)

    async def get(
        self, tenant: str, answer_id: UUID, *, oldest: timedelta, principals: Sequence[str] | None
    ) -> SharedAnswer:
        """Return a shared answer whose cited passages are unchanged.

        Args:
            tenant: its tenant.
            answer_id: its id.
            oldest: age from which no answer is returned.
            principals: the readers that a person matches, who must read the documents of all passages that the query
                found, because the model may have used one without citing it; None: a key.

        Raises:
            NotFound: there is no such answer.
        """
        async with self._database.begin() as connection:
            names = None if principals is None else list(principals)
            parameters = {"id": answer_id, "tenant": tenant, "age": oldest, "principals": names}
            row = (await connection.execute(SQL.find, parameters)).one_or_none()
            if row is None:
                raise not_shared(answer_id)
            where = _where(row["chunk_ids"], tenant, row["collection"], principals)
            found = await _passages(connection, SQL.passages, where)
        if found is None:
            raise not_shared(answer_id)
        return _answer(row, found)

    async def delete(self, tenant: str, answer_id: UUID, *, key: UUID | None) -> None:
        """Delete a shared answer.

        Args:
            tenant: its tenant.
            answer_id: its id.
            key: the key that must have shared it; None: any key.

        Raises:
            NotFound: there is no such answer.
        """
        if not await self._database.rows(SQL.delete, {"id": answer_id, "tenant": tenant, "key": key}):
            raise not_shared(answer_id)

    async def forget(self, oldest: timedelta) -> bool:
        """Delete some answers that cannot be opened any more; return whether more may be due.

        Args:
            oldest: age from which answers are deleted.
        """
        async with self._database.begin() as connection:
            due = {"every": min(_CHECK_EVERY, oldest), "limit": _SLICE}
            ids = (await connection.execute(SQL.lock_due, due)).scalars()
            await connection.execute(SQL.delete_expired, {"ids": ids, "age": oldest})
            await connection.execute(SQL.record_check, {"ids": ids})
        return len(ids) == _SLICE


async def _logged_answer(connection: Connection, tenant: str, new: AnswerToShare) -> Row:
    """Return the logged query of an answer.

    Raises:
        NotFound, InvalidInput, Conflict: as `SharedAnswers.share`.
    """
    parameters = {"query": new.query_id, "tenant": tenant, "key": new.key_id}
    query = (await connection.execute(SQL.logged_answer, parameters)).one_or_none()
    if query is None:
        raise NotFound(
            f"This key has sent no query {new.query_id}: use `metadata.query_id` of a reply to this key, within"
            " FOREASK_QUERY_RETENTION_DAYS.",
            field="query_id",
        )
    if query.answer_sha256 is None:
        raise Conflict(
            "This answer cannot be shared: it was not recorded, or one of its passages was erased. Ask the question"
            " again with POST /v1/query."
        )
    if query.answer_sha256 != digest_of(new.text, query.chunk_ids):
        raise InvalidInput(
            "The text is not the answer that this server wrote to this query: send `answer` unchanged.", field="answer"
        )
    return query


def _where(chunks: Sequence[UUID], tenant: str, collection: str, principals: Sequence[str] | None) -> dict[str, Any]:
    names = None if principals is None else list(principals)
    return {"chunks": chunks, "tenant": tenant, "collection": collection, "principals": names}


async def _passages(connection: Connection, statement: Statement, where: Mapping[str, Any]) -> dict[UUID, Row] | None:
    """Return passages by the ids of their chunks; None if queries do not see one of them."""
    found = {row["chunk_id"]: row for row in (await connection.execute(statement, where))}
    return found if found.keys() >= set(where["chunks"]) else None


async def _are_readable(
    connection: Connection, tenant: str, document_ids: Sequence[UUID], principals: Sequence[str] | None
) -> bool:
    """Return whether principals read the documents of all passages: the model may have used one without citing it."""
    if principals is None:
        return True
    parameters = {"documents": list(document_ids), "tenant": tenant, "principals": list(principals)}
    count: int = (await connection.execute(SQL.count_readable, parameters)).scalar_one()
    return count == len(document_ids)


def not_shared(answer_id: UUID) -> NotFound:
    """Return the error for every reason, because it must not reveal whether the answer exists."""
    return NotFound(
        f"There is no shared answer {answer_id} that this key may open. It may have expired, or a document that it"
        " quotes was changed or deleted: ask the question again."
    )


def _answer(row: Row, found: Mapping[UUID, Row]) -> SharedAnswer:
    names = SharedAnswer.__dataclass_fields__.keys() - {"sources"}
    sources = [_source(number, found[chunk]) for number, chunk in zip(row["numbers"], row["chunk_ids"], strict=True)]
    return SharedAnswer(**{name: row[name] for name in names}, sources=sources)


def _source(number: int, row: Row) -> SharedSource:
    names = ("chunk_id", "document_id", "external_id", "filename")
    content = ChunkContent.from_json(row["content"])
    return SharedSource(number, **{name: row[name] for name in names}, content=content)
