"""The workers and schedulers of a deployment, as its ledger knows them: for whoever has the ledger's address."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Any

from rich.table import Table

from shared.domain.errors import Unavailable
from shared.ledger.postgres.database import Database
from shared.ledger.work.heartbeats import Heartbeats
from shared.settings import load, require

_TIMEOUT = timedelta(seconds=5)


async def seen() -> list[dict[str, Any]]:
    """Return the processes that live or died within the last hour, with times in seconds.

    Raises:
        Unavailable: the ledger is away.
        InvalidInput: FOREASK_DATABASE_URL is not set.
    """
    async with _heartbeats() as heartbeats:
        return [
            {
                "role": one.role,
                "host": one.host,
                "pid": one.pid,
                "alive": one.alive,
                "in_work": one.in_work,
                "up_seconds": round(one.up.total_seconds()),
                "silent_seconds": round(one.silent.total_seconds()),
            }
            for one in await heartbeats.seen()
        ]


async def beats(role: str, host: str) -> bool:
    """Return whether a process of this role beats on this host; true also where the ledger is away."""
    async with _heartbeats() as heartbeats:
        try:
            return await heartbeats.beats(role, host)
        except Unavailable:
            return True


def table(processes: Sequence[Mapping[str, Any]]) -> Table:
    shown = Table("worker", "host", "pid", "state", "in work", "up for (s)", "last seen (s ago)")
    for one in processes:
        numbers = (one["in_work"], one["up_seconds"], one["silent_seconds"])
        state = "alive" if one["alive"] else "silent"
        shown.add_row(one["role"], one["host"], str(one["pid"]), state, *map(str, numbers))
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
