"""Labelled sets of collections: questions with their relevant documents or chunks, for evaluations.

They belong to a collection's name, not to one of its builds, so that every build is measured with the same questions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, NotFound
from shared.ledger.documents import build_sync
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database

LabelKind = Literal["external_ids", "chunk_ids"]
MOST_SETS = 50  # of a collection
MOST_CHARS = 1024 * 1024  # of a set

SQL = statements.load(__file__, states.FRAGMENTS)

ERASED_TABLES = (
    ErasedTable(
        name="labelled_sets",
        of_tenant=SQL.erase_of_tenant,
        of_part=SQL.erase_of_part,
        under_name=SQL.count_under_name,
    ),
)


@dataclass(frozen=True, slots=True)
class LabelledSetSize:
    name: str
    questions: int
    changed_at: datetime


@dataclass(frozen=True, slots=True)
class StoredLabelledSet:
    """Questions as the API takes them: `{"question", "external_ids"}` or `{"question", "chunk_ids"}`."""

    name: str
    questions: Sequence[Mapping[str, Any]]
    changed_at: datetime


class LabelledSets:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def save_set(
        self, tenant: str, collection: str, name: str, questions: Sequence[Mapping[str, Any]]
    ) -> StoredLabelledSet:
        """Write a labelled set, replacing one of the same name. Repeated questions merge their answers.

        Raises:
            NotFound: there is no such collection.
            Conflict: the collection has the maximum number of sets, or the set is too large.
        """
        key = {"tenant": tenant, "collection": collection, "name": name}
        async with self._database.begin() as connection:
            await build_sync.hold_live(connection, tenant, collection)
            await connection.execute(SQL.lock_sets, {"tenant": tenant, "collection": collection})
            return await _saved(connection, key, _merged(questions))

    async def add_questions(
        self, tenant: str, collection: str, name: str, questions: Sequence[Mapping[str, Any]], *, most: int
    ) -> StoredLabelledSet:
        """Add questions to a set, which is created if missing; existing questions are relabelled.

        Raises:
            NotFound: there is no such collection.
            Conflict: there would be more than `most` questions or too many sets, or the set is labelled with the other
                kind of ids.
        """
        key = {"tenant": tenant, "collection": collection, "name": name}
        async with self._database.begin() as connection:
            await build_sync.hold_live(connection, tenant, collection)
            await connection.execute(SQL.lock_sets, {"tenant": tenant, "collection": collection})
            row = (await connection.execute(SQL.get_set, key)).first()
            stored = row["questions"] if row else []
            added = _merged(questions)
            for kind in ("external_ids", "chunk_ids"):
                if any(kind in question for question in stored) and not all(kind in question for question in added):
                    raise Conflict(f"The set '{name}' is labelled by {kind}: label by these, or create another set.")
            by_text = {question["question"]: question for question in (*stored, *added)}
            if len(by_text) > most:
                raise Conflict(f"The set '{name}' would have more than {most:,} questions.")
            return await _saved(connection, key, list(by_text.values()))

    async def set_of(self, tenant: str, collection: str, name: str) -> StoredLabelledSet:
        """Return a labelled set.

        Raises:
            NotFound: the collection has no such set.
        """
        rows = await self._database.rows(SQL.get_set, {"tenant": tenant, "collection": collection, "name": name})
        if not rows:
            raise _no_set(collection, name)
        return StoredLabelledSet(**rows[0])

    async def sets(self, tenant: str, collection: str) -> list[LabelledSetSize]:
        rows = await self._database.rows(SQL.list_sets, {"tenant": tenant, "collection": collection})
        return [LabelledSetSize(**row) for row in rows]

    async def delete_set(self, tenant: str, collection: str, name: str) -> None:
        """Delete a labelled set.

        Raises:
            NotFound: the collection has no such set.
        """
        if not await self._database.rows(SQL.delete_set, {"tenant": tenant, "collection": collection, "name": name}):
            raise _no_set(collection, name)

    async def count_known(self, collection: Collection, kind: LabelKind, ids: Sequence[str]) -> int:
        """Count the documents or chunks of these distinct ids that a build has."""
        statement = SQL.count_documents if kind == "external_ids" else SQL.count_chunks
        (row,) = await self._database.rows(statement, {"collection": collection.id, "ids": list(ids)})
        return int(row["count"])


async def _saved(
    connection: Connection, key: Mapping[str, str], questions: Sequence[Mapping[str, Any]]
) -> StoredLabelledSet:
    content = json.dumps(questions)
    if len(content) > MOST_CHARS:
        raise Conflict(f"The set '{key['name']}' would be larger than {MOST_CHARS:,} characters: create another set.")
    if (await connection.execute(SQL.count_other_sets, key)).scalar_one() >= MOST_SETS:
        raise Conflict(f"There are {MOST_SETS} labelled sets already: delete one first.")
    written = await connection.execute(SQL.save_set, {**key, "questions": content})
    return StoredLabelledSet(**written.one())


def _merged(questions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return each question once, with all its answers."""
    merged: dict[str, Mapping[str, Any]] = {}
    for question in questions:
        present = merged.get(question["question"], {})
        answers = {
            kind: list(dict.fromkeys([*present.get(kind, ()), *question.get(kind, ())]))
            for kind in ("external_ids", "chunk_ids")
            if kind in present or kind in question
        }
        merged[question["question"]] = {"question": question["question"], **answers}
    return list(merged.values())


def _no_set(collection: str, name: str) -> NotFound:
    return NotFound(f"The collection '{collection}' has no labelled set '{name}'.")
