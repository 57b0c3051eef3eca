"""Backlogs: waiting work, work in flight, and the rate at which it finishes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.ledger.budgets import fragments
from shared.ledger.model import counters, states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_SHORTEST = timedelta(seconds=5)  # a rate over a shorter time is meaningless
_OF_RATE = ("generate", "index")  # stages of chunks, whose rate is known
_MOST_DEAD = 1_000  # dead chunks whose documents are read: some milliseconds

SQL = statements.load(
    __file__,
    states.FRAGMENTS,
    document_counts=counters.of_tenant("documents"),
    page_counts=counters.of_tenant("pages"),
    chunk_counts=counters.of_tenant("chunks"),
)
DUE = statements.load(Path(__file__).with_name("claims_due.sql"), {**states.FRAGMENTS, **fragments.FRAGMENTS})


@dataclass(frozen=True, slots=True)
class Waiting:
    """The open work of a stage: documents to parse, pages to read, or chunks to generate or index.

    Args:
        due: rows that can be claimed now, or belong to a paused job.
        in_flight: rows leased by a worker, and lines of batches.
        delayed: retried rows that are due in the future.
        oldest: waiting time of the row that has been due longest; None if no row is due.
    """

    due: int
    in_flight: int
    delayed: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """A tenant's open work.

    Args:
        stages: open work of each stage, by queue.
        dead: number of failed documents, dead pages and dead chunks.
        rate: chunks per minute, over the last minute.
        eta: time for the open chunks at that rate; None if nothing finishes or nothing is open.
        unserved: number of chunks waiting for a worker with their embedding, by embedding.
    """

    stages: Mapping[WorkQueue, Waiting]
    dead: int
    rate: float
    eta: timedelta | None
    unserved: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class BacklogSurvey:
    """The rows of all tenants.

    Args:
        rows: number of documents, pages and chunks, by `documents`, `pages` or `chunks` and state.
        oldest: waiting time of the row that has been due longest, by stage and lane; missing if none is due.
    """

    rows: Mapping[tuple[str, str], int]
    oldest: Mapping[tuple[WorkQueue, int], timedelta]


class Backlogs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def due(self) -> list[WorkQueue]:
        """Return the queues of stages with due work."""
        (row,) = await self._database.rows(DUE.due)
        return [queue for queue in WORK_QUEUES if row[queue]]

    async def survey(self) -> BacklogSurvey:
        """Count the rows of all tenants from counters, and find the longest waiting times."""
        async with self._database.begin() as connection:
            counted = (await connection.execute(SQL.all_rows)).all()
            oldest = (await connection.execute(DUE.oldest)).all()
        return BacklogSurvey(
            {(row.counted, row.state): row.rows for row in counted},
            {(row.stage, row.lane): row.age for row in oldest},
        )

    async def measure(self, tenant: str, embeddings: Iterable[str]) -> Backlog:
        """Count a tenant's open work and estimate its completion time; `embeddings` are the served ones."""
        async with self._database.begin() as connection:
            stages = (await connection.execute(SQL.stages, {"tenant": tenant})).all()
            parameters = {"tenant": tenant, "window": counters.RATE_WINDOW, "most_dead": _MOST_DEAD}
            ended = (await connection.execute(SQL.finished, parameters)).one()
            unserved = await connection.execute(SQL.unserved, {"tenant": tenant, "embeddings": list(embeddings)})
            models = {row.model: row.chunks for row in unserved}
        waiting = {row.queue: Waiting(row.due, row.in_flight, row.delayed, row.oldest) for row in stages}
        minutes = max(ended.since or _SHORTEST, _SHORTEST) / timedelta(minutes=1)
        rate = ended.ended / minutes
        open_chunks = sum(w.due + w.in_flight + w.delayed for queue, w in waiting.items() if queue in _OF_RATE)
        eta = timedelta(minutes=open_chunks / rate) if open_chunks and rate else None
        return Backlog({queue: waiting[queue] for queue in WORK_QUEUES}, ended.dead, rate, eta, models)
