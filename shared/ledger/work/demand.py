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
_ALL = {"has_due": "TRUE", "has_leased": "TRUE", "has_room": "TRUE", "examined": ":most"}
_UNDIVIDED = _ALL | {"models": "", "of_model": "TRUE"}
_OF_MODEL = _ALL | {
    "table": "chunks",
    "models": """CROSS JOIN (
        SELECT DISTINCT embedding_model AS name FROM collections
        WHERE CAST(:embeddings AS text[]) IS NULL OR embedding_model = ANY(CAST(:embeddings AS text[]))) m""",
    "of_model": "w.embedding_model = m.name",
}
# Values of the placeholders `{INDEX_NAME}` of `demand.sql`, by index of open rows.
_INDEXES = {
    "documents": _UNDIVIDED | {"table": "documents", "is_open": "{TO_PARSE:w}"},
    "pages": _UNDIVIDED | {"table": "pages", "is_open": "{TO_READ:w}"},
    # More workers would not make a batch faster.
    "chunks": _UNDIVIDED
    | {
        "table": "chunks",
        "is_open": "{TO_GENERATE:w}",
        "has_due": "{is_live_lane:p} AND {lane_has_room:p}",
        "has_leased": "{is_live_lane:w}",
        "has_room": "{part_has_room:w}",
        "examined": str(_MOST_EXAMINED),
    },
    "texts": _OF_MODEL | {"is_open": "{TO_INDEX_TEXT:w}"},
    "questions": _OF_MODEL | {"is_open": "{TO_INDEX_QUESTIONS:w}"},
}
SQL = statements.load(
    __file__,
    {**states.FRAGMENTS, **fragments.FRAGMENTS},
    **{f"{index}_{name}": value for index, values in _INDEXES.items() for name, value in values.items()},
)
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
        async with self._database.begin() as connection:
            await connection.execute(SQL.record, {"wanted": orjson.dumps(dict(wanted)).decode()})

    async def wanted(self) -> dict[WorkQueue, int] | None:
        """Return the wanted numbers of workers; None if no scheduler has computed them yet.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        (row,) = await self._database.rows(SQL.wanted)
        wanted: dict[WorkQueue, int] | None = row["wanted"]
        return wanted
