"""Demand: the rows that workers of each stage could work on now, and the number of workers wanted for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import orjson

from shared.domain.queues import WorkQueue
from shared.ledger.budgets import fragments
from shared.ledger.model import counters, states
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import Database

_TIMED: tuple[WorkQueue, ...] = ("parse", "read", "index")  # stages whose rates are measured
_MOST_EXAMINED = 200_000  # oldest chunks of a lane whose budgets are looked up, if one is used up
SQL = statements.load(__file__, {**states.FRAGMENTS, **fragments.FRAGMENTS}, most_examined=str(_MOST_EXAMINED))
_ROWS = {"parse": SQL.parse, "read": SQL.read, "generate": SQL.generate, "index": SQL.index}


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
        self, stage: WorkQueue, most: int, *, embeddings: Sequence[str] | None = None
    ) -> dict[str, OpenRows]:
        """Count the rows of a stage by tenant.

        Args:
            stage: the stage.
            most: number after which the due rows of a tenant's lane are not counted further.
            embeddings: embeddings whose chunks to index are counted; None: all.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        parameters: dict[str, Any] = {"most": most}
        if stage == "index":
            parameters["embeddings"] = None if embeddings is None else list(embeddings)
        found = await self._database.rows(_ROWS[stage], parameters)
        return {row["tenant"]: OpenRows(row["due"], row["leased"]) for row in found}

    async def finished_per_second(self) -> dict[WorkQueue, float]:
        """Return the rates at which rows were parsed, read and indexed in the last minute.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        window: timedelta = counters.RATE_WINDOW
        (row,) = await self._database.rows(SQL.finished, {"window": window})
        return {stage: row[stage] / window.total_seconds() for stage in _TIMED}

    async def record(self, wanted: Mapping[WorkQueue, int]) -> None:
        """Store the wanted numbers of workers, for autoscalers.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        await self._database.rows(SQL.record, {"wanted": orjson.dumps(dict(wanted)).decode()})

    async def wanted(self) -> dict[WorkQueue, int] | None:
        """Return the wanted numbers of workers; None if no scheduler has computed them yet.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        (row,) = await self._database.rows(SQL.wanted)
        wanted: dict[WorkQueue, int] | None = row["wanted"]
        return wanted
