"""The workers and schedulers of a deployment, read from its ledger."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from cli.tables import Table
from shared.domain.errors import Unavailable
from shared.domain.queues import STAGES
from shared.ledger.postgres.database import Database
from shared.ledger.work.heartbeats import Heartbeats
from shared.settings import load, require

_TIMEOUT = timedelta(seconds=5)


async def recent_processes() -> list[dict[str, Any]]:
    """Return the processes that are alive or died within the last hour, with times in seconds.

    Raises:
        Unavailable: the ledger is unavailable.
        InvalidInput: FOREASK_DATABASE_URL is not set.
    """
    async with _heartbeats() as heartbeats:
        return [
            {
                "role": process.role,
                "host": process.host,
                "pid": process.pid,
                "alive": process.alive,
                "in_progress": process.in_progress,
                "up_seconds": round(process.up.total_seconds()),
                "silent_seconds": round(process.silent.total_seconds()),
            }
            for process in await heartbeats.seen()
        ]


async def is_alive(role: str, host: str) -> bool:
    """Return whether a process of this role sends heartbeats on this host; also true if the ledger is unavailable.

    A worker of several stages sends the heartbeats of each.
    """
    async with _heartbeats() as heartbeats:
        try:
            return all([await heartbeats.beats(stage, host) for stage in STAGES.get(role, (role,))])
        except Unavailable:
            return True


def table(processes: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table("worker", "host", "pid", "state", "claimed", "up for (s)", "last heartbeat (s ago)")
    for process in processes:
        numbers = (process["in_progress"], process["up_seconds"], process["silent_seconds"])
        state = "alive" if process["alive"] else "silent"
        shown.add_row(process["role"], process["host"], str(process["pid"]), state, *map(str, numbers))
    return shown


@asynccontextmanager
async def _heartbeats() -> AsyncIterator[Heartbeats]:
    settings = load()
    url = require(settings.database_url, "FOREASK_DATABASE_URL").get_secret_value()
    database = Database(url, pool_size=1, timeout=_TIMEOUT, pooler=settings.database_pooler)
    try:
        yield Heartbeats(database)
    finally:
        await database.aclose()
