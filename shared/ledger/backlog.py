"""Backlogs: how much work waits or is in flight, and how fast it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import text

from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.domain.records import ChunkState, DocumentState
from shared.ledger import states
from shared.ledger.database import Database

_RATE_WINDOW = timedelta(minutes=1)
_SHORTEST = timedelta(seconds=5)  # over a shorter time a rate says nothing

# The open work of one stage.
_STAGE = """
    SELECT '{queue}' AS queue,
           count(*) FILTER (WHERE due_at <= now()) AS due,
           count(*) FILTER (WHERE due_at > now() AND leased_by IS NOT NULL) AS in_flight,
           count(*) FILTER (WHERE due_at > now() AND leased_by IS NULL) AS later,
           now() - min(due_at) FILTER (WHERE due_at <= now()) AS oldest
    FROM {table} WHERE tenant = :tenant AND {is_open}"""

# Count the open work of every stage.
_STAGES = text(
    " UNION ALL ".join(
        _STAGE.format(queue=queue, table=table, is_open=states.is_in(open_states))
        for queue, table, open_states in (
            ("parse", "documents", states.TO_PARSE),
            ("generate", "chunks", states.TO_GENERATE),
            ("index", "chunks", states.TO_INDEX),
        )
    )
)

# Count the dead letters, and the chunks that ended within the last while.
_ENDED = text(f"""
    SELECT (SELECT count(*) FROM documents WHERE tenant = :tenant AND state = '{DocumentState.FAILED}')
           + (SELECT count(*) FROM chunks c JOIN documents d ON d.id = c.document_id AND d.version = c.version
              WHERE c.tenant = :tenant AND c.state = '{ChunkState.DEAD}') AS dead,
           count(*) AS ended, now() - min(settled_at) AS since
    FROM chunks WHERE tenant = :tenant AND settled_at > now() - CAST(:window AS interval)
""")


# Count the chunks that wait for a worker with another embedding model, by that model.
_UNSERVED = text(f"""
    SELECT embedding_model, count(*) AS chunks FROM chunks
    WHERE tenant = :tenant AND {states.is_in(states.TO_INDEX)} AND embedding_model <> :embedding_model
      AND due_at <= now()
    GROUP BY embedding_model ORDER BY embedding_model
""")


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stage's open work: documents to parse, chunks to generate questions for or to index.

    Args:
        due: rows that may be claimed now.
        in_flight: rows that a worker has leased.
        later: rows that were tried before, and are due at a time to come.
        oldest: for how long the row that has waited longest has been due; None where no row is due.
    """

    due: int
    in_flight: int
    later: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """A tenant's open work.

    Args:
        stages: each stage's open work, by its queue.
        dead: documents that failed and chunks that are dead.
        rate: chunks that ended in the last minute, in chunks a minute.
        eta: how long the open chunks take at that rate; None while nothing ends, or nothing is open.
        unserved: chunks that wait to be indexed by a worker with another embedding model, by that model.
    """

    stages: Mapping[WorkQueue, Waiting]
    dead: int
    rate: float
    eta: timedelta | None
    unserved: Mapping[str, int]


class Backlogs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def measure(self, tenant: str, embedding_model: str | None) -> Backlog:
        """Count a tenant's open work and estimate when it ends; `embedding_model` is the model that workers have."""
        async with self._database.begin() as connection:
            stages = (await connection.execute(_STAGES, {"tenant": tenant})).all()
            ended = (await connection.execute(_ENDED, {"tenant": tenant, "window": _RATE_WINDOW})).one()
            unserved = await connection.execute(_UNSERVED, {"tenant": tenant, "embedding_model": embedding_model})
            models = {row.embedding_model: row.chunks for row in unserved}
        waiting = {row.queue: Waiting(row.due, row.in_flight, row.later, row.oldest) for row in stages}
        minutes = max(ended.since or _SHORTEST, _SHORTEST) / timedelta(minutes=1)
        rate = ended.ended / minutes
        open_chunks = sum(w.due + w.in_flight + w.later for queue, w in waiting.items() if queue != "parse")
        eta = timedelta(minutes=open_chunks / rate) if open_chunks and rate else None
        return Backlog({queue: waiting[queue] for queue in WORK_QUEUES}, ended.dead, rate, eta, models)
