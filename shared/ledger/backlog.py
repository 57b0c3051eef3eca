"""What waits, what is in work, and how fast it goes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import text

from shared.domain.queues import WORK_QUEUES, WorkQueue
from shared.ledger.database import Database

_RATE_WINDOW = timedelta(minutes=1)
_SHORTEST = timedelta(seconds=5)  # over less than this a rate says nothing


@dataclass(frozen=True, slots=True)
class Waiting:
    """A stage's open work: documents to parse, chunks to ask or to index.

    Args:
        due: may be claimed now.
        in_flight: leased by a worker.
        later: tried before, and due again at a time to come.
        oldest: for how long the one that has waited longest has been due.
    """

    due: int
    in_flight: int
    later: int
    oldest: timedelta | None


@dataclass(frozen=True, slots=True)
class Backlog:
    """A tenant's open work.

    Args:
        stages: by the queue that works on it.
        dead: documents that failed and chunks that are dead.
        rate: chunks ended in the last minute, in chunks a minute.
        eta: how long the open chunks take at that rate; None while nothing ends, or nothing is open.
    """

    stages: Mapping[WorkQueue, Waiting]
    dead: int
    rate: float
    eta: timedelta | None


_STAGE = """
    SELECT '{queue}' AS queue,
           count(*) FILTER (WHERE due_at <= now()) AS due,
           count(*) FILTER (WHERE due_at > now() AND leased_by IS NOT NULL) AS in_flight,
           count(*) FILTER (WHERE due_at > now() AND leased_by IS NULL) AS later,
           now() - min(due_at) FILTER (WHERE due_at <= now()) AS oldest
    FROM {table} WHERE tenant = :tenant AND {open}"""

_STAGES = text(
    " UNION ALL ".join(
        _STAGE.format(queue=queue, table=table, open=open_)
        for queue, table, open_ in (
            ("parse", "documents", "state IN ('queued', 'parsing')"),
            ("generate", "chunks", "state = 'generating'"),
            ("index", "chunks", "state = 'generated'"),
        )
    )
)

_ENDED = text("""
    SELECT (SELECT count(*) FROM documents WHERE tenant = :tenant AND state = 'failed')
           + (SELECT count(*) FROM chunks c JOIN documents d ON d.id = c.document_id AND d.version = c.version
              WHERE c.tenant = :tenant AND c.state = 'dead') AS dead,
           count(*) AS settled, now() - min(settled_at) AS since
    FROM chunks WHERE tenant = :tenant AND settled_at > now() - CAST(:window AS interval)
""")


class Backlogs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of(self, tenant: str) -> Backlog:
        async with self._database.begin() as connection:
            stages = (await connection.execute(_STAGES, {"tenant": tenant})).all()
            ended = (await connection.execute(_ENDED, {"tenant": tenant, "window": _RATE_WINDOW})).one()
        waiting = {row.queue: Waiting(row.due, row.in_flight, row.later, row.oldest) for row in stages}
        minutes = max(ended.since or _SHORTEST, _SHORTEST) / timedelta(minutes=1)
        rate = ended.settled / minutes
        to_do = sum(w.due + w.in_flight + w.later for queue, w in waiting.items() if queue != "parse")
        eta = timedelta(minutes=to_do / rate) if to_do and rate else None
        return Backlog({queue: waiting[queue] for queue in WORK_QUEUES}, ended.dead, rate, eta)
