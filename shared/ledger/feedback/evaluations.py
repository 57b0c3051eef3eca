"""Labelled sets of collections, and evaluations with them.

Both belong to a collection's name, not to one of its builds, so that every build is measured with the same questions. A
run has a row from its start. Its process writes progress there; a run whose progress stops has died with its process.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import RowMapping, text
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.collections import Collection
from shared.domain.errors import Conflict, NotFound
from shared.ledger.documents import build_sync
from shared.ledger.model import states
from shared.ledger.postgres.database import Database

LabelKind = Literal["external_ids", "chunk_ids"]
MOST_SETS = 50  # of a collection
MOST_CHARS = 1024 * 1024  # of a set
_KEPT_RUNS = 100  # runs of a collection; older ones are deleted when another starts
_SILENT_AFTER = timedelta(seconds=60)  # the process writes every second

_SET = "name, questions, changed_at"

# Lock the labelled sets of a collection until the transaction ends.
_LOCK = text("SELECT pg_advisory_xact_lock(hashtextextended('labelled:' || :tenant || '/' || :collection, 0))")

# Count the other labelled sets of a collection.
_COUNT_OTHERS = text("""
    SELECT count(*) FROM labelled_sets WHERE tenant = :tenant AND collection = :collection AND name <> :name
""")

# Write a labelled set, replacing one of the same name.
_SAVE = text(f"""
    INSERT INTO labelled_sets (tenant, collection, name, questions)
    VALUES (:tenant, :collection, :name, CAST(:questions AS jsonb))
    ON CONFLICT (tenant, collection, name) DO UPDATE SET questions = excluded.questions, changed_at = now()
    RETURNING {_SET}
""")

# Read a labelled set.
_GET = text(f"SELECT {_SET} FROM labelled_sets WHERE tenant = :tenant AND collection = :collection AND name = :name")

# List the labelled sets of a collection, without their questions.
_LIST = text("""
    SELECT name, jsonb_array_length(questions) AS questions, changed_at FROM labelled_sets
    WHERE tenant = :tenant AND collection = :collection ORDER BY name
""")

# Delete a labelled set.
_DELETE = text("""
    DELETE FROM labelled_sets WHERE tenant = :tenant AND collection = :collection AND name = :name RETURNING name
""")

# Count documents of a build by their names.
_COUNT_DOCUMENTS = text(f"""
    SELECT count(*) FROM documents
    WHERE collection_id = :collection AND external_id = ANY(CAST(:ids AS text[])) AND {states.exists()}
""")

# Count chunks of a build that queries see.
_COUNT_CHUNKS = text(f"""
    SELECT count(*) FROM chunks c JOIN documents d ON d.id = c.document_id AND d.live_version = c.version
    WHERE c.id = ANY(CAST(CAST(:ids AS text[]) AS uuid[])) AND d.collection_id = :collection AND {states.exists("d")}
""")

_RUN = """
    id, labelled_set, questions, phase AS state, strategy, done, total, error, created_at, ended_at,
    phase = 'running' AND seen_at < now() - CAST(:silent AS interval) AS silent
"""
_OF_COLLECTION = "tenant = :tenant AND collection = :collection"

# Insert a run that starts.
_BEGIN = text(f"""
    INSERT INTO evaluations (id, tenant, collection, labelled_set, questions)
    VALUES (:id, :tenant, :collection, :labelled_set, :questions) RETURNING {_RUN}, NULL AS results
""")

# Forget the oldest runs of a collection that have ended.
_FORGET = text(f"""
    DELETE FROM evaluations WHERE id IN (
        SELECT id FROM evaluations WHERE {_OF_COLLECTION} ORDER BY created_at DESC, id DESC OFFSET :kept
    ) AND (phase <> 'running' OR seen_at < now() - CAST(:silent AS interval))
""")

# Write down how far a run is; no row: it was deleted.
_SEEN = text("""
    UPDATE evaluations SET strategy = :strategy, done = :done, total = :total, seen_at = now()
    WHERE id = :id AND phase = 'running' RETURNING id
""")

# End a run.
_END = text("""
    UPDATE evaluations
    SET phase = CAST(:state AS text), error = :error, results = CAST(:results AS json), rows = CAST(:rows AS json),
        done = coalesce(:queries, done), total = coalesce(:queries, total), ended_at = now(), seen_at = now()
    WHERE id = :id AND phase = 'running' RETURNING id
""")

# Read a run.
_RUN_OF = text(f"SELECT {_RUN}, results FROM evaluations WHERE {_OF_COLLECTION} AND id = :id")

# List the runs of a collection, newest first, with their summary rows.
_RUNS = text(f"""
    SELECT {_RUN}, json_build_object('rows', rows) AS results FROM evaluations
    WHERE {_OF_COLLECTION} ORDER BY created_at DESC, id DESC
""")

# Delete a run; the process that does it stops at its next progress.
_DELETE_RUN = text(f"DELETE FROM evaluations WHERE {_OF_COLLECTION} AND id = :id RETURNING id")


class RunState(StrEnum):
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    INTERRUPTED = "interrupted"  # its process has ended


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


@dataclass(frozen=True, slots=True)
class EvaluationRun:
    """A run with its progress and results.

    Args:
        labelled_set: name of the set; None if the questions were part of the request.
        questions: number of questions.
        strategy: strategy of the last query.
        done: finished queries out of `total`; both are 0 before the first query.
        error: reason of the failure.
        results: see `shared.query.evaluate.results`; lists contain `rows` only. None until the run ends.
    """

    id: UUID
    labelled_set: str | None
    questions: int
    state: RunState
    strategy: str | None
    done: int
    total: int
    error: str | None
    created_at: datetime
    ended_at: datetime | None
    results: Mapping[str, Any] | None


class Evaluations:
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
        of = {"tenant": tenant, "collection": collection, "name": name}
        async with self._database.begin() as connection:
            await _hold(connection, tenant, collection)
            await connection.execute(_LOCK, {"tenant": tenant, "collection": collection})
            return await _saved(connection, of, _merged(questions))

    async def add_questions(
        self, tenant: str, collection: str, name: str, questions: Sequence[Mapping[str, Any]], *, most: int
    ) -> StoredLabelledSet:
        """Add questions to a set, which is created if missing; existing questions are relabelled.

        Raises:
            NotFound: there is no such collection.
            Conflict: there would be more than `most` questions or too many sets, or the set is labelled with the other
                kind of ids.
        """
        of = {"tenant": tenant, "collection": collection, "name": name}
        async with self._database.begin() as connection:
            await _hold(connection, tenant, collection)
            await connection.execute(_LOCK, {"tenant": tenant, "collection": collection})
            row = (await connection.execute(_GET, of)).mappings().first()
            stored = row["questions"] if row else []
            added = _merged(questions)
            for kind in ("external_ids", "chunk_ids"):
                if any(kind in question for question in stored) and not all(kind in question for question in added):
                    raise Conflict(f"The set '{name}' is labelled by {kind}: label by these too, or in another set.")
            by_text = {question["question"]: question for question in (*stored, *added)}
            if len(by_text) > most:
                raise Conflict(f"The set '{name}' would have more than {most:,} questions.")
            return await _saved(connection, of, list(by_text.values()))

    async def set_of(self, tenant: str, collection: str, name: str) -> StoredLabelledSet:
        """Raises: NotFound."""
        rows = await self._database.rows(_GET, {"tenant": tenant, "collection": collection, "name": name})
        if not rows:
            raise _no_set(collection, name)
        return StoredLabelledSet(**rows[0])

    async def sets(self, tenant: str, collection: str) -> list[LabelledSetSize]:
        rows = await self._database.rows(_LIST, {"tenant": tenant, "collection": collection})
        return [LabelledSetSize(**row) for row in rows]

    async def delete_set(self, tenant: str, collection: str, name: str) -> None:
        """Raises: NotFound."""
        if not await self._database.rows(_DELETE, {"tenant": tenant, "collection": collection, "name": name}):
            raise _no_set(collection, name)

    async def count_known(self, collection: Collection, kind: LabelKind, ids: Sequence[str]) -> int:
        """Count the documents or chunks of these distinct ids that a build has."""
        statement = _COUNT_DOCUMENTS if kind == "external_ids" else _COUNT_CHUNKS
        (row,) = await self._database.rows(statement, {"collection": collection.id, "ids": list(ids)})
        return int(row["count"])

    async def begin(self, tenant: str, collection: str, labelled_set: str | None, questions: int) -> EvaluationRun:
        """Insert a run that starts, and delete the oldest finished ones.

        Raises:
            NotFound: there is no such collection.
        """
        of = {"tenant": tenant, "collection": collection}
        row = {"id": uuid4(), "labelled_set": labelled_set, "questions": questions, "silent": _SILENT_AFTER}
        async with self._database.begin() as connection:
            await _hold(connection, tenant, collection)
            begun = (await connection.execute(_BEGIN, of | row)).mappings().one()
            await connection.execute(_FORGET, of | {"kept": _KEPT_RUNS, "silent": _SILENT_AFTER})
        return _run(begun)

    async def seen(self, run: UUID, strategy: str, done: int, total: int) -> bool:
        """Write down how far a run is; return whether it is still wanted. No strategy: none has been tried."""
        row = {"id": run, "strategy": strategy or None, "done": done, "total": total}
        return bool(await self._database.rows(_SEEN, row))

    async def end(
        self, run: UUID, state: RunState, *, results: Mapping[str, Any] | None = None, error: str | None = None
    ) -> None:
        queries = sum(map(len, results["per_query"].values())) if results else None
        row = {"id": run, "state": state, "error": error, "queries": queries, "results": None, "rows": None}
        if results is not None:  # lists read the rows alone: to parse a hundred results would take seconds
            row |= {"results": await asyncio.to_thread(json.dumps, results), "rows": json.dumps(results["rows"])}
        await self._database.rows(_END, row)

    async def run_of(self, tenant: str, collection: str, run: UUID) -> EvaluationRun:
        """Raises: NotFound."""
        of = {"tenant": tenant, "collection": collection, "id": run, "silent": _SILENT_AFTER}
        rows = await self._database.rows(_RUN_OF, of)
        if not rows:
            raise _no_run(run)
        return _run(rows[0])

    async def runs(self, tenant: str, collection: str) -> list[EvaluationRun]:
        """List the runs of a collection, the newest first."""
        of = {"tenant": tenant, "collection": collection, "silent": _SILENT_AFTER}
        return [_run(row) for row in await self._database.rows(_RUNS, of)]

    async def delete_run(self, tenant: str, collection: str, run: UUID) -> None:
        """Raises: NotFound."""
        if not await self._database.rows(_DELETE_RUN, {"tenant": tenant, "collection": collection, "id": run}):
            raise _no_run(run)


async def _hold(connection: AsyncConnection, tenant: str, collection: str) -> None:
    """Lock a collection until the transaction ends, so that a concurrent erasure finds the written rows."""
    await build_sync.hold(connection, tenant, collection)
    builds = await build_sync.builds_of(connection, tenant, collection)
    if not builds or not builds[0]["is_live"]:
        raise NotFound(f"There is no collection '{collection}'. GET /v1/collections lists those that exist.")


async def _saved(
    connection: AsyncConnection, of: Mapping[str, str], questions: Sequence[Mapping[str, Any]]
) -> StoredLabelledSet:
    content = json.dumps(questions)
    if len(content) > MOST_CHARS:
        raise Conflict(f"The set '{of['name']}' would be larger than {MOST_CHARS:,} characters: make another one.")
    if (await connection.execute(_COUNT_OTHERS, of)).scalar_one() >= MOST_SETS:
        raise Conflict(f"There are {MOST_SETS} labelled sets already: delete one first.")
    written = await connection.execute(_SAVE, {**of, "questions": content})
    return StoredLabelledSet(**written.mappings().one())


def _merged(questions: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each question once, with all its answers."""
    merged: dict[str, Mapping[str, Any]] = {}
    for question in questions:
        known = merged.get(question["question"], {})
        answers = {
            kind: list(dict.fromkeys([*known.get(kind, ()), *question.get(kind, ())]))
            for kind in ("external_ids", "chunk_ids")
            if kind in known or kind in question
        }
        merged[question["question"]] = {"question": question["question"], **answers}
    return list(merged.values())


def _no_set(collection: str, name: str) -> NotFound:
    return NotFound(f"The collection '{collection}' has no labelled set '{name}'.")


def _no_run(run: UUID) -> NotFound:
    return NotFound(f"There is no evaluation {run}.")


def _run(row: RowMapping) -> EvaluationRun:
    values = {name: row[name] for name in EvaluationRun.__dataclass_fields__}
    state = RunState.INTERRUPTED if row["silent"] else RunState(row["state"])
    results = row["results"] if state is RunState.DONE else None
    return EvaluationRun(**values | {"state": state, "results": results})
