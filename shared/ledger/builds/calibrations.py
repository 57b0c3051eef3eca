"""Calibrations: the next collection to calibrate, the questions to measure with, and the result.

A claim is a time in the collection's row. Only one calibration runs at a time, because calibrations must not compete
with the ingest. The claim of a dead worker expires.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from shared.domain.corpus.collections import Collection
from shared.domain.corpus.questions import plain
from shared.ledger.model import states
from shared.ledger.model.collections import collection_of
from shared.ledger.model.rows.questions import QUESTIONS, passed_questions
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import AdvisoryLock, Database, lock

_TIMEOUT = timedelta(minutes=10)  # longest wait for a collection that is being loaded
_SOONEST = timedelta(seconds=10)
_MOST_PAIRS = 10_000
SQL = statements.load(
    __file__, states.FRAGMENTS, timeout=str(_TIMEOUT), shortest_pause=str(_SOONEST), questions=QUESTIONS
)


@dataclass(frozen=True, slots=True)
class CalibrationClaim:
    """A collection, claimed until a time by PostgreSQL's clock, and whether documents of it are being processed."""

    collection: Collection
    until: datetime
    is_loading: bool


@dataclass(frozen=True, slots=True)
class PassedQuestion:
    """A passed question of a chunk, with its index among the chunk's questions."""

    chunk_id: UUID
    version: int
    question: str
    number: int


class Calibrations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self) -> bool:
        """Return whether a collection may be claimed."""
        async with self._database.begin() as connection:
            return bool((await connection.execute(SQL.due)).scalar_one_or_none())

    async def claim(self, embeddings: Sequence[str], *, every: timedelta, lease: timedelta) -> CalibrationClaim | None:
        """Claim the collection of these embeddings that has waited longest; it is due again after `every`.

        Returns:
            None if no collection is due or another one is being calibrated. A collection that was calibrated with
            labelled questions is never claimed.
        """
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.CALIBRATION)
            row = (
                await connection.execute(SQL.claim, {"embeddings": list(embeddings), "every": every, "lease": lease})
            ).one_or_none()
        return CalibrationClaim(collection_of(row), row["calibrating_until"], row["is_loading"]) if row else None

    async def release(self, claim: CalibrationClaim) -> None:
        """End a claim. A later claim of another process is not affected."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.release, {"id": claim.collection.id, "until": claim.until})

    async def sample_chunks(self, collection: Collection, limit: int) -> list[UUID]:
        """Return up to `limit` chunks that queries see; the sample is stable while the chunks are unchanged."""
        async with self._database.begin() as connection:
            return list((await connection.execute(SQL.sample_chunks, {"id": collection.id, "limit": limit})).scalars())

    async def sample_questions(self, collection: Collection, limit: int) -> list[PassedQuestion]:
        """Return a passed question of each of up to `limit` chunks; the sample is stable while they are unchanged."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.sample, {"id": collection.id, "limit": limit})).all()
        return [_one_of(row["id"], row["version"], passed_questions(row)) for row in rows]

    async def accepted_questions(self, collection_id: UUID) -> list[tuple[str, list[str]]]:
        """Return each accepted question once, with the ids of the chunks that answer it, oldest first.

        The result covers the newest 10,000 pairs of question and chunk.
        """
        newest = {"collection": collection_id, "limit": _MOST_PAIRS}
        async with self._database.begin() as connection:
            rows = (await connection.execute(SQL.newest_accepted, newest)).all()
        questions: dict[str, tuple[str, list[str]]] = {}
        for row in rows:
            questions.setdefault(plain(row.question), (row.question, []))[1].append(str(row.chunk_id))
        return list(questions.values())

    async def save(
        self, collection: Collection, calibration: Mapping[str, Any] | None, *, replace_labelled: bool
    ) -> Collection:
        """Save the weights of a collection's channels with their measurements; None makes the weights equal again.

        Args:
            collection: the collection.
            calibration: `{"weights", "source", "baseline", ...}`, or None.
            replace_labelled: whether a calibration with labelled questions may be replaced.

        Returns:
            The collection after the change; unchanged if a calibration with labelled questions is retained.
        """
        parameters = {
            "id": collection.id,
            "tenant": collection.tenant,
            "calibration": None if calibration is None else json.dumps(calibration),
            "replace_labelled": replace_labelled,
        }
        async with self._database.begin() as connection:
            row = (await connection.execute(SQL.save, parameters)).one_or_none()
        return collection_of(row) if row else collection


def _one_of(chunk_id: UUID, version: int, questions: list[str]) -> PassedQuestion:
    number = chunk_id.int % len(questions)
    return PassedQuestion(chunk_id, version, questions[number], number)
