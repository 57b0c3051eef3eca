"""Labelled sets of collections, and evaluations with them.

Both belong to a collection's name, not to one of its builds, so that every build is measured with the same questions. A
run is queued with a copy of its questions, so that a later change of the set does not change it. Workers claim it: see
`shared.ledger.runs.run_claims`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal
from uuid import UUID, uuid4

from sqlalchemy import RowMapping
from sqlalchemy.ext.asyncio import AsyncConnection

from shared.domain.collections import Collection
from shared.domain.errors import Conflict, LeaseLost, NotFound
from shared.domain.runs import RunClaim, RunKind, RunPhase
from shared.domain.stored import known_fields
from shared.ledger.documents import build_sync
from shared.ledger.model import states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database
from shared.ledger.runs import run_claims

LabelKind = Literal["external_ids", "chunk_ids"]
MOST_SETS = 50  # of a collection
MOST_CHARS = 1024 * 1024  # of a set
_RETAINED_RUNS = 100  # runs of a collection; older ones are deleted when another is queued

SQL = statements.load(__file__, {**states.FRAGMENTS, **run_claims.PHASES}, ended=run_claims.ENDED)


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
class EvaluationRequest:
    """The work of a run.

    Args:
        questions: labelled questions, in the form of a set.
        strategies: names of strategies.
        baseline: name of the strategy with which the others are compared.
        notes: sentences about the labels, for the results.
    """

    questions: Sequence[Mapping[str, Any]]
    strategies: Sequence[str]
    baseline: str
    notes: Sequence[str] = ()


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
    state: RunPhase
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
            await build_sync.hold_live(connection, tenant, collection)
            await connection.execute(SQL.lock_sets, {"tenant": tenant, "collection": collection})
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
            await build_sync.hold_live(connection, tenant, collection)
            await connection.execute(SQL.lock_sets, {"tenant": tenant, "collection": collection})
            row = (await connection.execute(SQL.get_set, of)).mappings().first()
            stored = row["questions"] if row else []
            added = _merged(questions)
            for kind in ("external_ids", "chunk_ids"):
                if any(kind in question for question in stored) and not all(kind in question for question in added):
                    raise Conflict(f"The set '{name}' is labelled by {kind}: label by these, or create another set.")
            by_text = {question["question"]: question for question in (*stored, *added)}
            if len(by_text) > most:
                raise Conflict(f"The set '{name}' would have more than {most:,} questions.")
            return await _saved(connection, of, list(by_text.values()))

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

    async def start(
        self, collection: Collection, labelled_set: str | None, request: EvaluationRequest
    ) -> EvaluationRun:
        """Queue a run, and delete the oldest finished ones.

        Raises:
            NotFound: there is no such collection any more.
            Conflict: the tenant has the maximum number of queued runs.
        """
        tenant, name, embeddings = collection.tenant, collection.name, [collection.embedding_model]
        of = {"tenant": tenant, "collection": name}
        run = run_claims.NewRun(uuid4(), RunKind.EVALUATION, tenant, name, embeddings)
        row = {
            "id": run.id,
            "labelled_set": labelled_set,
            "questions": len({question["question"] for question in request.questions}),
            "request": json.dumps(asdict(request)),
        }
        async with self._database.begin() as connection:
            await build_sync.hold_live(connection, tenant, name)
            await run_claims.enqueue(connection, run)
            queued = (await connection.execute(SQL.insert_run, of | row)).mappings().one()
            await connection.execute(SQL.delete_oldest_runs, of | {"retained": _RETAINED_RUNS})
        return _run(queued)

    async def request_of(self, claim: RunClaim) -> EvaluationRequest:
        """Return the work of a claimed run.

        Raises:
            LeaseLost: the run was deleted, or another worker has claimed it.
        """
        rows = await self._database.rows(SQL.get_request, run_claims.of(claim))
        if not rows:
            raise LeaseLost
        return EvaluationRequest(**known_fields(rows[0]["request"], EvaluationRequest.__dataclass_fields__))

    async def save_progress(self, claim: RunClaim, strategy: str, done: int, total: int) -> None:
        """Save the progress of a claimed run; without effect if it was deleted or another worker has claimed it."""
        async with self._database.begin() as connection:
            await connection.execute(
                SQL.save_progress, run_claims.of(claim) | {"strategy": strategy, "done": done, "total": total}
            )

    async def finish(self, claim: RunClaim, results: Mapping[str, Any]) -> None:
        """Save the results of a claimed run; without effect if it was deleted or another worker has claimed it."""
        row = {
            "queries": sum(map(len, results["per_query"].values())),
            "results": await asyncio.to_thread(json.dumps, results),
            "rows": json.dumps(results["rows"]),  # lists read them alone: to parse a hundred results would take seconds
        }
        async with self._database.begin() as connection:
            await connection.execute(SQL.finish_run, run_claims.of(claim) | row)

    async def run_of(self, tenant: str, collection: str, run: UUID) -> EvaluationRun:
        """Return a run.

        Raises:
            NotFound: the collection has no such run.
        """
        rows = await self._database.rows(SQL.get_run, {"tenant": tenant, "collection": collection, "id": run})
        if not rows:
            raise _no_run(run)
        return _run(rows[0])

    async def runs(self, tenant: str, collection: str) -> list[EvaluationRun]:
        """List the runs of a collection, the newest first."""
        of = {"tenant": tenant, "collection": collection}
        return [_run(row) for row in await self._database.rows(SQL.list_runs, of)]

    async def delete_run(self, tenant: str, collection: str, run: UUID) -> None:
        """Delete a run.

        Raises:
            NotFound: the collection has no such run.
        """
        async with self._database.begin() as connection:
            await run_claims.withdraw(connection, run, tenant, collection)
            of = {"tenant": tenant, "collection": collection, "id": run}
            if not (await connection.execute(SQL.delete_run, of)).all():
                raise _no_run(run)


async def _saved(
    connection: AsyncConnection, of: Mapping[str, str], questions: Sequence[Mapping[str, Any]]
) -> StoredLabelledSet:
    content = json.dumps(questions)
    if len(content) > MOST_CHARS:
        raise Conflict(f"The set '{of['name']}' would be larger than {MOST_CHARS:,} characters: create another set.")
    if (await connection.execute(SQL.count_other_sets, of)).scalar_one() >= MOST_SETS:
        raise Conflict(f"There are {MOST_SETS} labelled sets already: delete one first.")
    written = await connection.execute(SQL.save_set, {**of, "questions": content})
    return StoredLabelledSet(**written.mappings().one())


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


def _no_run(run: UUID) -> NotFound:
    return NotFound(f"There is no evaluation {run}.")


def _run(row: RowMapping) -> EvaluationRun:
    values = {name: row[name] for name in EvaluationRun.__dataclass_fields__}
    state = RunPhase(row["state"])
    results = row["results"] if state is RunPhase.DONE else None
    return EvaluationRun(**values | {"state": state, "results": results})
