"""Backlogs: waiting work, work in flight, and the numbers from which its remaining time is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from shared.domain.jobs import JobKind, JobState
from shared.domain.lanes import Lane
from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.time_left import MINUTES, RECENT, FinishedChunks, TimeLeft, Work, time_left
from shared.ledger.budgets import fragments
from shared.ledger.model import counters, lanes, states
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection, Row
from shared.ledger.postgres.database import Database

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
        recent: number of chunks that finished in the last minute.
        left: the time that it needs if nothing stops it.
        unserved: number of chunks waiting for a worker with their embedding, by embedding.
    """

    stages: Mapping[WorkQueue, Waiting]
    dead: int
    recent: int
    left: TimeLeft
    unserved: Mapping[str, int]

    @property
    def chunks_per_minute(self) -> float:
        """The pace of the last minutes, or until it is known the chunks of the last minute."""
        return float(self.recent) if self.left.per_second is None else self.left.per_second * 60


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
        """Count a tenant's open work and estimate its remaining time; `embeddings` are the served ones."""
        async with self._database.begin() as connection:
            stages = (await connection.execute(SQL.stages, {"tenant": tenant})).all()
            dead = (await connection.execute(SQL.dead, {"tenant": tenant, "most_dead": _MOST_DEAD})).scalar_one()
            unserved = await connection.execute(SQL.unserved, {"tenant": tenant, "embeddings": list(embeddings)})
            models = {row.model: row.chunks for row in unserved}
            finished = await _finished(connection, tenant)
            works = await _works(connection, tenant)
        waiting = {row.queue: Waiting(row.due, row.in_flight, row.delayed, row.oldest) for row in stages}
        left = time_left(works, finished)
        return Backlog({queue: waiting[queue] for queue in WORK_QUEUES}, dead, finished.recent, left, models)


async def _finished(connection: Connection, tenant: str) -> FinishedChunks:
    parameters = {"tenant": tenant, "recent": RECENT, "minutes": MINUTES}
    latest = (await connection.execute(SQL.finished, parameters)).one()
    earlier = (await connection.execute(SQL.finished_earlier, parameters)).all()
    return FinishedChunks(**latest, earlier={row["age_seconds"]: row["chunks"] for row in earlier})


async def _works(connection: Connection, tenant: str) -> list[Work]:
    """Return the work of each open job with documents, of each build that is being filled, and of all other documents.

    The documents of a build have no job, so only the documents that it lacks are its own work.
    """
    jobs = (await connection.execute(SQL.open_jobs, {"tenant": tenant})).all()
    numbers = [0, *(job["number"] for job in jobs)]
    parts = {
        "tenant": tenant,
        "jobs": [str(job["id"]) for job in jobs],
        "lanes": [str(lane) for number in numbers for lane in lanes.lanes_of(number)],
    }
    counts: dict[tuple[str, str], Counter[str]] = {}
    for row in await connection.execute(SQL.counted, parts):
        counts.setdefault((row.counted, row.part), Counter())[row.state] = row.rows
    of_jobs = [_of_job(job, counts) for job in jobs]
    unfilled = await connection.execute(SQL.unfilled, {"tenant": tenant})
    of_builds = [Work(row.id, row.created_at, Lane.BULK, unparsed=row.documents) for row in unfilled if row.documents]
    return [_of_others(of_jobs, counts), *of_jobs, *of_builds]


def _of_job(job: Row, counts: Mapping[tuple[str, str], Counter[str]]) -> Work:
    documents = counts.get(("jobs", str(job["id"])), Counter())
    by_lane = [counts.get(("lanes", str(lane)), Counter()) for lane in lanes.lanes_of(job["number"])]
    open_chunks, in_batches = _open(by_lane)
    waiting = [priority for priority, each in zip(Lane, by_lane, strict=True) if _sum(each, states.OPEN_CHUNKS)]
    return Work(
        job_id=job["id"],
        opened_at=job["created_at"],
        priority=max(waiting, default=Lane.BULK),
        chunks=sum(each.total() for each in by_lane),
        open_chunks=open_chunks,
        in_batches=in_batches,
        parsed=_sum(documents, states.PARSED_DOCUMENTS),
        unparsed=_unparsed(job, documents),
        is_paused=job["is_paused"],
    )


def _unparsed(job: Row, documents: Counter[str]) -> int:
    """Return the number of documents that will be parsed, with documents that are announced but not uploaded.

    If all uploaded documents are finished, the client may have stopped, so that no document is expected.
    """
    if job["state"] == JobState.CANCELLING:
        return 0
    missing = (job["expected"] or 0) - _sum(documents, states.EXISTING_DOCUMENTS)
    is_announced = _sum(documents, states.UNFINISHED_DOCUMENTS) or job["kind"] == JobKind.REINDEX
    return _sum(documents, states.UNPARSED_DOCUMENTS) + (max(0, missing) if is_announced else 0)


def _of_others(of_jobs: Sequence[Work], counts: Mapping[tuple[str, str], Counter[str]]) -> Work:
    """Return the work of documents without an open job: the rest of all numbers."""
    documents, chunks = (counts.get((counted, ""), Counter()) for counted in ("documents", "chunks"))
    in_batches = _open([counts.get(("lanes", str(lane)), Counter()) for lane in lanes.lanes_of(0)])[1]
    open_chunks = _sum(chunks, states.OPEN_CHUNKS) - in_batches
    of_counted = sum(work.open_chunks + work.in_batches for work in of_jobs)
    queued = sum(_sum(each, states.UNPARSED_DOCUMENTS) for (counted, _), each in counts.items() if counted == "jobs")
    return Work(
        chunks=max(0, chunks.total() - sum(work.chunks for work in of_jobs)),
        open_chunks=max(0, open_chunks - of_counted),
        in_batches=in_batches,
        parsed=max(0, _sum(documents, states.PARSED_DOCUMENTS) - sum(work.parsed for work in of_jobs)),
        unparsed=max(0, _sum(documents, states.UNPARSED_DOCUMENTS) - queued),
    )


def _open(by_lane: Sequence[Counter[str]]) -> tuple[int, int]:
    """Return the chunks for workers, and the chunks that wait for a batch, of lanes in the order of priority."""
    in_batches = _sum(by_lane[Lane.BATCH], states.TO_GENERATE)
    return sum(_sum(each, states.OPEN_CHUNKS) for each in by_lane) - in_batches, in_batches


def _sum(counts: Mapping[str, int], of_states: Iterable[str]) -> int:
    return max(0, sum(counts.get(state, 0) for state in of_states))
