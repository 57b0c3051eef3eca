"""Demand: the rows that workers of each stage could work on now, and the number of workers wanted for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any

import orjson
from sqlalchemy import TextClause, text

from shared.domain.queues import WorkQueue
from shared.domain.states import ChunkState, DocumentState
from shared.ledger.model import counters, states
from shared.ledger.postgres.database import Database

_OF_MODEL = """CROSS JOIN (
        SELECT DISTINCT embedding_model AS name FROM collections
        WHERE CAST(:embeddings AS text[]) IS NULL OR embedding_model = ANY(CAST(:embeddings AS text[]))) m"""


def _rows(table: str, open_states: Sequence[Collection[StrEnum]], *, models: str = "") -> TextClause:
    """Return the statement that counts rows by tenant: due rows up to a limit, and leased rows.

    Args:
        table: table of the rows.
        open_states: states of the rows, one group for each index of open rows.
        models: joins the embedding models, by which an index is divided.
    """
    parts = []
    for number, group in enumerate(open_states):
        is_open = states.is_in(group, "w")
        of_model = "AND w.embedding_model = m.name" if models else ""
        parts.append(f"""
        SELECT * FROM (
            WITH RECURSIVE tenants(tenant) AS (
                SELECT min(w.tenant) FROM {table} w WHERE {is_open}
                UNION ALL
                SELECT (SELECT min(w.tenant) FROM {table} w WHERE {is_open} AND w.tenant > t.tenant)
                FROM tenants t WHERE t.tenant IS NOT NULL
            )
            SELECT t.tenant, d.due, 0::bigint AS leased
            FROM tenants t CROSS JOIN (VALUES (0), (1)) AS l(lane) {models} CROSS JOIN LATERAL (
                SELECT count(*) AS due FROM (
                    SELECT 1 FROM {table} w
                    WHERE {is_open} AND w.tenant = t.tenant AND w.lane = l.lane {of_model} AND w.due_at <= now()
                    LIMIT :most) r) d
            WHERE t.tenant IS NOT NULL AND t.tenant <> ALL(CAST(:held AS text[]))) due_{number}
        UNION ALL
        SELECT w.tenant, 0, count(*) FROM {table} w
        WHERE {is_open} AND w.leased_by IS NOT NULL AND w.due_at > now() GROUP BY w.tenant""")
    return text(f"""
    SELECT tenant, sum(due)::bigint AS due, sum(leased)::bigint AS leased
    FROM ({" UNION ALL ".join(parts)}) r GROUP BY tenant HAVING sum(due) + sum(leased) > 0
""")


# Count the rows of each stage by tenant.
_ROWS: Mapping[WorkQueue, TextClause] = {
    "parse": _rows("documents", [states.TO_PARSE]),
    "generate": _rows("chunks", [states.TO_GENERATE]),
    "index": _rows("chunks", [states.TO_INDEX_TEXT, states.TO_INDEX_QUESTIONS], models=_OF_MODEL),
}

# Count the rows that parse and index workers have finished recently. A chunk is indexed twice: its text, then its
# questions.
_FINISHED = text(f"""
    SELECT coalesce(sum(change) FILTER (WHERE counted = 'documents'), 0)::bigint AS parse,
           coalesce(sum(change) FILTER (WHERE counted = 'chunks'), 0)::bigint AS index
    FROM tally_changes
    WHERE at > now() - CAST(:window AS interval) AND change > 0
      AND (counted = 'documents' AND {states.is_in((DocumentState.INDEXING, DocumentState.FAILED))}
           OR counted = 'chunks' AND {states.is_in((ChunkState.GENERATING, ChunkState.INDEXED))})
""")

# Store the wanted numbers of workers.
_RECORD = text("UPDATE deployment SET wanted = CAST(:wanted AS jsonb)")

# Return the wanted numbers of workers.
_READ = text("SELECT wanted FROM deployment")


@dataclass(frozen=True, slots=True)
class OpenRows:
    """Rows of a stage that can be worked on now.

    Args:
        due: number of rows that can be claimed.
        leased: number of rows in progress.
    """

    due: int
    leased: int


class Demand:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def rows(
        self, stage: WorkQueue, most: int, *, held: Iterable[str] = (), embeddings: Sequence[str] | None = None
    ) -> dict[str, OpenRows]:
        """Count the rows of a stage by tenant.

        Args:
            stage: the stage.
            most: number after which the due rows of a tenant's lane are not counted further.
            held: tenants whose due rows are not counted.
            embeddings: embeddings whose chunks to index are counted; None: all.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        parameters: dict[str, Any] = {"most": most, "held": list(held)}
        if stage == "index":
            parameters["embeddings"] = None if embeddings is None else list(embeddings)
        found = await self._database.rows(_ROWS[stage], parameters)
        return {row["tenant"]: OpenRows(row["due"], row["leased"]) for row in found}

    async def finished_per_second(self) -> dict[WorkQueue, float]:
        """Return the rates at which rows were parsed and indexed in the last minute.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        window: timedelta = counters.RATE_WINDOW
        (row,) = await self._database.rows(_FINISHED, {"window": window})
        return {"parse": row["parse"] / window.total_seconds(), "index": row["index"] / window.total_seconds()}

    async def record(self, wanted: Mapping[WorkQueue, int]) -> None:
        """Store the wanted numbers of workers, for autoscalers.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        async with self._database.begin() as connection:
            await connection.execute(_RECORD, {"wanted": orjson.dumps(dict(wanted)).decode()})

    async def wanted(self) -> dict[WorkQueue, int] | None:
        """Return the wanted numbers of workers; None if no scheduler has computed them yet.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        (row,) = await self._database.rows(_READ)
        wanted: dict[WorkQueue, int] | None = row["wanted"]
        return wanted
