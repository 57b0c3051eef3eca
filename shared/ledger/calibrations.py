"""Calibrations: which collection is due for one, what there is to measure, and what came of it.

A claim is a time in the collection's row. While one holds, no other begins: calibrations must not take the engines from
the ingest. A worker that dies leaves a claim that ends by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from sqlalchemy import null, text

from shared.domain.records import Collection
from shared.ledger import tables as t
from shared.ledger.collections import collection_of
from shared.ledger.database import Database

_LOCK = 7_065_013  # any number, the same for all: one claim at a time


@dataclass(frozen=True, slots=True)
class PassedQuestion:
    """A kept question of a chunk, and its number among the chunk's kept questions, from 0."""

    chunk_id: UUID
    question: str
    number: int


class Calibrations:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self) -> bool:
        """Whether a collection may be claimed."""
        async with self._database.begin() as connection:
            return bool((await connection.execute(_DUE)).scalar())

    async def claim(self, *, every: timedelta, lease: timedelta) -> Collection | None:
        """Take the collection that has waited longest to be looked at; it is due again after `every`.

        Returns:
            None where none is due, or another is being calibrated; never one that was calibrated by labelled questions.
        """
        async with self._database.begin() as connection:
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            row = (await connection.execute(_CLAIM, {"every": every, "lease": lease})).mappings().one_or_none()
        return collection_of(row) if row else None

    async def release(self, collection: Collection) -> None:
        """End a claim."""
        async with self._database.begin() as connection:
            await connection.execute(_RELEASE, {"id": collection.id})

    async def chunks(self, collection: Collection) -> int:
        """Count the indexed chunks that queries see."""
        async with self._database.begin() as connection:
            return int((await connection.execute(_CHUNKS, {"id": collection.id})).scalar_one())

    async def questions(self, collection: Collection, limit: int) -> list[PassedQuestion]:
        """Return one kept question of each of so many chunks, the same ones as long as the chunks are the same.

        Ids of chunks are hashes, so that their order is a random one.
        """
        async with self._database.begin() as connection:
            rows = (await connection.execute(_QUESTIONS, {"id": collection.id, "limit": limit})).all()
        return [_one_of(row.id, [question["text"] for question in row.questions if question["passed"]]) for row in rows]

    async def keep(
        self, collection: Collection, calibration: Mapping[str, Any] | None, *, over_labelled: bool
    ) -> Collection:
        """Keep the weights of a collection's channels with what speaks for them; None makes them equal again.

        One by labelled questions stays, unless `over_labelled` says that it may be replaced.
        """
        c = t.collections.c
        value = null() if calibration is None else calibration
        statement = t.collections.update().where(c.id == collection.id, c.tenant == collection.tenant)
        if not over_labelled:
            statement = statement.where(text(_UNLABELLED))
        async with self._database.begin() as connection:
            changed = await connection.execute(statement.values(calibration=value).returning(t.collections))
            row = changed.mappings().one_or_none()
        return collection_of(row) if row else collection


def _one_of(chunk_id: UUID, questions: list[str]) -> PassedQuestion:
    number = chunk_id.int % len(questions)
    return PassedQuestion(chunk_id, questions[number], number)


# Calibrations of earlier releases do not say what they are by: it was labelled questions.
_UNLABELLED = "(calibration IS NULL OR coalesce(calibration ->> 'source', 'labelled') <> 'labelled')"

_OPEN = f"""
    FROM collections WHERE calibration_due_at <= now() AND {_UNLABELLED}
      AND NOT EXISTS (SELECT 1 FROM collections o WHERE o.calibrating_until > now())
"""

_DUE = text(f"SELECT EXISTS (SELECT 1 {_OPEN})")

_CLAIM = text(f"""
    UPDATE collections SET calibration_due_at = now() + :every, calibrating_until = now() + :lease
    WHERE id = (SELECT id {_OPEN} ORDER BY calibration_due_at LIMIT 1)
    RETURNING *
""")

_RELEASE = text("UPDATE collections SET calibrating_until = NULL WHERE id = :id")

_LIVE = """
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
    WHERE d.collection_id = :id AND d.state <> 'deleting' AND c.state = 'indexed'
"""

_CHUNKS = text(f"SELECT count(*) {_LIVE}")

_QUESTIONS = text(f"SELECT c.id, c.questions {_LIVE} AND c.questions_passed > 0 ORDER BY c.id LIMIT :limit")
