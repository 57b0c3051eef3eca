"""Backlogs: waiting work, work in flight, and the rate at which it finishes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from sqlalchemy import text

from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.states import ChunkState, DocumentState
from shared.ledger.model import counters, states
from shared.ledger.postgres.database import Database
from shared.ledger.work import claims

_SHORTEST = timedelta(seconds=5)  # a rate over a shorter time is meaningless
_MOST_DEAD = 1_000  # dead chunks whose documents are read: some milliseconds

# A tenant's counters, and the parts of the indexes of open chunks.
_TALLIES = f"""
    WITH documents_tally AS (
        SELECT state, sum(rows)::bigint AS rows FROM {counters.of_tenant("documents")} t GROUP BY state
    ), chunks_tally AS (
        SELECT part AS model, state, sum(rows)::bigint AS rows
        FROM {counters.of_tenant("chunks")} t GROUP BY part, state
    ), lanes(lane) AS (VALUES (0), (1)),
    models AS (SELECT DISTINCT model FROM chunks_tally)"""


def _open_work(queue: WorkQueue, table: str, open_states: Collection[StrEnum], *, of_model: bool) -> str:
    """Return the query for the open work in one index: its number, and the rows that are not due yet."""
    is_open = states.is_in(open_states)
    lanes = "(SELECT lane, model FROM lanes, models) p" if of_model else "lanes p"
    is_in_lane = f"{is_open} AND tenant = :tenant AND lane = p.lane" + " AND embedding_model = p.model" * of_model
    return f"""
    SELECT '{queue}' AS queue, (SELECT coalesce(sum(rows), 0) FROM {table}_tally WHERE {is_open}) AS open,
           ahead.in_flight, ahead.later, first.due_at AS oldest
    FROM (SELECT count(*) FILTER (WHERE leased_by IS NOT NULL) AS in_flight,
                 count(*) FILTER (WHERE leased_by IS NULL) AS later
          FROM {lanes} CROSS JOIN LATERAL (
              SELECT leased_by FROM {table} WHERE {is_in_lane} AND due_at > now() ORDER BY due_at OFFSET 0) w) ahead,
         (SELECT min(w.due_at) AS due_at
          FROM {lanes} CROSS JOIN LATERAL (
              SELECT due_at FROM {table} WHERE {is_in_lane} AND due_at <= now() ORDER BY due_at LIMIT 1) w) first"""


_OPEN_WORK = " UNION ALL ".join(
    [
        _open_work("parse", "documents", states.TO_PARSE, of_model=False),
        _open_work("generate", "chunks", states.TO_GENERATE, of_model=False),
        _open_work("index", "chunks", states.TO_INDEX_TEXT, of_model=True),
        _open_work("index", "chunks", states.TO_INDEX_QUESTIONS, of_model=True),
    ]
)

# Count the open work of every stage. Rows that are due are not read: there may be millions.
_STAGES = text(f"""
    {_TALLIES}
    SELECT queue, greatest(sum(open) - sum(in_flight) - sum(later), 0)::bigint AS due,
           sum(in_flight)::bigint AS in_flight, sum(later)::bigint AS later, now() - min(oldest) AS oldest
    FROM ({_OPEN_WORK}) w GROUP BY queue
""")

# Count dead letters and recently finished chunks. Dead chunks of a version that an edit is replacing are not letters;
# this is not checked if there are very many dead chunks.
_ENDED = text(f"""
    {_TALLIES}
    SELECT coalesce((SELECT rows FROM documents_tally WHERE state = '{DocumentState.FAILED}'), 0)
           + CASE WHEN dead.tallied > :most_dead THEN dead.tallied ELSE (
               SELECT count(*) FROM chunks c
               WHERE c.tenant = :tenant AND c.state = '{ChunkState.DEAD}'
                 AND c.version = (SELECT d.version FROM documents d WHERE d.id = c.document_id)) END AS dead,
           ended.ended, ended.since
    FROM (SELECT coalesce(sum(rows), 0)::bigint AS tallied FROM chunks_tally WHERE state = '{ChunkState.DEAD}') dead,
         (SELECT coalesce(sum(change), 0)::bigint AS ended, now() - min(at) AS since FROM tally_changes
          WHERE tenant = :tenant AND counted = 'chunks' AND state IN ('{ChunkState.INDEXED}', '{ChunkState.DEAD}')
            AND change > 0 AND at > now() - CAST(:window AS interval)) ended
""")

# Count the rows of all tenants by state.
_ALL_ROWS = text("""
    SELECT counted, state, sum(rows)::bigint AS rows FROM (
        SELECT counted, state, rows FROM tallies UNION ALL SELECT counted, state, change FROM tally_changes) t
    GROUP BY counted, state
""")

# Count the chunks that wait for a worker that serves their embedding, by its name.
_UNSERVED = text(f"""
    {_TALLIES}
    SELECT model, sum(rows)::bigint AS chunks FROM chunks_tally
    WHERE {states.is_in(states.TO_INDEX)} AND model <> ALL(CAST(:embeddings AS text[]))
    GROUP BY model HAVING sum(rows) > 0 ORDER BY model
""")


@dataclass(frozen=True, slots=True)
class Waiting:
    """The open work of a stage: documents to parse, or chunks to generate or index.

    Args:
        due: rows that can be claimed now.
        in_flight: rows leased by a worker.
        later: retried rows that are due in the future.
        oldest: waiting time of the row that has been due longest; None if no row is due.
    """

    due: int
    in_flight: int
    later: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """A tenant's open work.

    Args:
        stages: open work of each stage, by queue.
        dead: number of failed documents and dead chunks.
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
class Survey:
    """The rows of the whole deployment.

    Args:
        rows: number of documents and chunks, by `documents` or `chunks` and state.
        oldest: waiting time of the row that has been due longest, by stage and lane; missing if none is due.
    """

    rows: Mapping[tuple[str, str], int]
    oldest: Mapping[tuple[WorkQueue, int], timedelta]


class Backlogs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def survey(self) -> Survey:
        """Count the rows of all tenants from counters, and find the longest waiting times."""
        async with self._database.begin() as connection:
            counted = (await connection.execute(_ALL_ROWS)).all()
            oldest = (await connection.execute(claims.OLDEST)).all()
        return Survey(
            {(row.counted, row.state): row.rows for row in counted},
            {(row.stage, row.lane): row.age for row in oldest},
        )

    async def measure(self, tenant: str, embeddings: Iterable[str]) -> Backlog:
        """Count a tenant's open work and estimate its end; `embeddings` are the served ones."""
        async with self._database.begin() as connection:
            stages = (await connection.execute(_STAGES, {"tenant": tenant})).all()
            parameters = {"tenant": tenant, "window": counters.RATE_WINDOW, "most_dead": _MOST_DEAD}
            ended = (await connection.execute(_ENDED, parameters)).one()
            unserved = await connection.execute(_UNSERVED, {"tenant": tenant, "embeddings": list(embeddings)})
            models = {row.model: row.chunks for row in unserved}
        waiting = {row.queue: Waiting(row.due, row.in_flight, row.later, row.oldest) for row in stages}
        minutes = max(ended.since or _SHORTEST, _SHORTEST) / timedelta(minutes=1)
        rate = ended.ended / minutes
        open_chunks = sum(w.due + w.in_flight + w.later for queue, w in waiting.items() if queue != "parse")
        eta = timedelta(minutes=open_chunks / rate) if open_chunks and rate else None
        return Backlog({queue: waiting[queue] for queue in WORK_QUEUES}, ended.dead, rate, eta, models)
