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

from sqlalchemy import text

from shared.domain.builds import BuildState
from shared.domain.collections import Collection
from shared.domain.states import ChunkState
from shared.ledger.model import states
from shared.ledger.model.collections import collection_of
from shared.ledger.model.rows import QUESTIONS, passed_questions
from shared.ledger.postgres.database import AdvisoryLock, Database, lock

# The collection was never calibrated with labelled questions.
_UNLABELLED = "calibration ->> 'source' IS DISTINCT FROM 'labelled'"

# No document of a collection is being processed, or some have been for a while. A collection that is still being loaded
# would be calibrated again soon, and its calibration would compete with the load. The first calibration does not wait,
# so that scores have the same meaning from then on.
_TIMEOUT = timedelta(minutes=10)
_SOONEST = timedelta(seconds=10)
_IS_CALM = f"""
    (calibration IS NULL OR calibration_due_at <= now() - CAST('{_TIMEOUT}' AS interval)
     OR NOT EXISTS (SELECT 1 FROM documents d WHERE d.collection_id = collections.id
                    AND {states.is_in((*states.TO_PARSE, *states.OPEN_DOCUMENTS), "d")}))"""

# Collections that may be claimed; none while another one is claimed. A completely filled build is calibrated before it
# is live.
_CLAIMABLE = f"""
    FROM collections WHERE calibration_due_at <= now() AND {_UNLABELLED} AND {_IS_CALM}
      AND {states.build_is_in((BuildState.LIVE, BuildState.FOLLOWING))}
      AND NOT EXISTS (SELECT 1 FROM collections o WHERE o.calibrating_until > now())
"""

# The indexed chunks of a collection that queries see.
_LIVE = f"""
    FROM documents d JOIN chunks c ON c.document_id = d.id AND c.version = d.live_version
    WHERE d.collection_id = :id AND {states.exists("d")} AND c.state = '{ChunkState.INDEXED}'
"""

# Return whether a collection may be claimed.
_DUE = text(f"SELECT EXISTS (SELECT 1 {_CLAIMABLE})")

# Claim the collection that has waited longest, among those whose embedding the process serves. A collection without a
# calibration is due again when it is twice as old: a new one is measured soon, and an empty one costs little.
_CLAIM = text(f"""
    UPDATE collections SET calibrating_until = now() + :lease,
      calibration_due_at = now() + CASE WHEN calibration IS NOT NULL THEN CAST(:every AS interval)
        ELSE least(CAST(:every AS interval), greatest(now() - created_at, CAST('{_SOONEST}' AS interval))) END
    WHERE id = (SELECT id {_CLAIMABLE} AND embedding_model = ANY(CAST(:embeddings AS text[]))
                ORDER BY calibration_due_at LIMIT 1)
    RETURNING *
""")

# End a claim unless it has expired: `calibrating_until` is the claim's token.
_RELEASE = text("UPDATE collections SET calibrating_until = NULL WHERE id = :id AND calibrating_until = :until")

# Sample chunks with searchable texts, including those of documents in progress. Chunk ids are hashes, so their order is
# random.
_SAMPLE_CHUNKS = text(f"""
    SELECT c.id FROM documents d
    JOIN chunks c ON c.document_id = d.id AND c.version = coalesce(d.live_version, d.version)
    WHERE d.collection_id = :id AND {states.exists("d")} AND c.state <> '{ChunkState.PARSED}' ORDER BY c.id LIMIT :limit
""")

# Sample chunks that have questions.
_SAMPLE = text(f"""
    SELECT c.id, c.version, {QUESTIONS} AS questions, q.reasons
    FROM (SELECT c.id, c.version {_LIVE} AND c.questions_passed > 0 ORDER BY c.id LIMIT :limit) c
    JOIN chunk_questions q ON q.chunk_id = c.id AND q.version = c.version
    ORDER BY c.id
""")

# Write a calibration; a calibration by labelled questions stays unless it may be replaced.
_SAVE = text(f"""
    UPDATE collections SET calibration = CAST(:calibration AS jsonb)
    WHERE id = :id AND tenant = :tenant AND (CAST(:replace_labelled AS boolean) OR {_UNLABELLED})
    RETURNING *
""")


@dataclass(frozen=True, slots=True)
class CalibrationClaim:
    """A collection, claimed until a time by PostgreSQL's clock."""

    collection: Collection
    until: datetime


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
        """Whether a collection may be claimed."""
        async with self._database.begin() as connection:
            return bool((await connection.execute(_DUE)).scalar())

    async def claim(self, embeddings: Sequence[str], *, every: timedelta, lease: timedelta) -> CalibrationClaim | None:
        """Claim the collection of these embeddings that has waited longest; it is due again after `every`.

        Returns:
            None if no collection is due or another one is being calibrated. A collection that was calibrated with
            labelled questions is never claimed.
        """
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.CALIBRATION)
            row = (
                (await connection.execute(_CLAIM, {"embeddings": list(embeddings), "every": every, "lease": lease}))
                .mappings()
                .one_or_none()
            )
        return CalibrationClaim(collection_of(row), row["calibrating_until"]) if row else None

    async def release(self, claim: CalibrationClaim) -> None:
        """End a claim. A later claim of another process is not affected."""
        async with self._database.begin() as connection:
            await connection.execute(_RELEASE, {"id": claim.collection.id, "until": claim.until})

    async def sample_chunks(self, collection: Collection, limit: int) -> list[UUID]:
        """Return up to `limit` chunks that queries see; the same sample while the chunks are the same."""
        async with self._database.begin() as connection:
            return list((await connection.execute(_SAMPLE_CHUNKS, {"id": collection.id, "limit": limit})).scalars())

    async def sample_questions(self, collection: Collection, limit: int) -> list[PassedQuestion]:
        """Return one passed question of each of up to `limit` chunks; the same sample while the chunks are the same."""
        async with self._database.begin() as connection:
            rows = (await connection.execute(_SAMPLE, {"id": collection.id, "limit": limit})).mappings().all()
        return [_one_of(row["id"], row["version"], passed_questions(row)) for row in rows]

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
            row = (await connection.execute(_SAVE, parameters)).mappings().one_or_none()
        return collection_of(row) if row else collection


def _one_of(chunk_id: UUID, version: int, questions: list[str]) -> PassedQuestion:
    number = chunk_id.int % len(questions)
    return PassedQuestion(chunk_id, version, questions[number], number)
