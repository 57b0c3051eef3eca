"""Heartbeats: each worker and scheduler records that its event loop is responsive, and the number of its items."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID, uuid4

import structlog

from shared.domain.errors import Unavailable
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

BEAT_EVERY = timedelta(seconds=10)
ALIVE_FOR = 3 * BEAT_EVERY  # one heartbeat may be late, and one may fail while the ledger is unavailable
_EXPIRY_SECONDS = 2
_FORGET_AFTER = timedelta(hours=1)
log = structlog.get_logger()

# Record a heartbeat.
_BEAT = Statement("""
    INSERT INTO workers (id, role, host, pid, in_progress) VALUES (:id, :role, :host, :pid, :in_progress)
    ON CONFLICT (id) DO UPDATE SET seen_at = now(), in_progress = excluded.in_progress
""")

# Record that a process has exited.
_DELETE = Statement("DELETE FROM workers WHERE id = :id")

# Delete processes that died long ago.
_FORGET = Statement("DELETE FROM workers WHERE seen_at < now() - CAST(:after AS interval)")

# List the processes that beat, or died within the last hour.
_LIST = Statement("""
    SELECT role, host, pid, in_progress, now() - started_at AS up, now() - seen_at AS silent,
           seen_at > now() - CAST(:alive_for AS interval) AS alive
    FROM workers ORDER BY role, host, pid, started_at
""")

# Return whether a process of a role is alive, on a host or anywhere.
_BEATS = Statement("""
    SELECT EXISTS (SELECT FROM workers
                   WHERE role = :role AND (host = :host OR CAST(:host AS text) IS NULL)
                     AND seen_at > now() - CAST(:alive_for AS interval)) AS alive
""")


@dataclass(frozen=True, slots=True)
class SeenProcess:
    """A worker or scheduler.

    Args:
        role: a queue, or `scheduler`.
        host: its machine or container.
        pid: its process id there.
        in_progress: items in progress at its last heartbeat.
        up: time since its start.
        silent: time since its last heartbeat.
        alive: whether its last heartbeat is recent.
    """

    role: str
    host: str
    pid: int
    in_progress: int
    up: timedelta
    silent: timedelta
    alive: bool


class Heartbeats:
    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def beating(self, role: str, in_progress: Callable[[], int]) -> AsyncIterator[None]:
        """Send heartbeats while the block runs. An unavailable ledger does not stop them."""
        me = uuid4()
        task = asyncio.create_task(self._beat_repeatedly(me, role, in_progress), name="heartbeat")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            with suppress(Unavailable, TimeoutError):
                async with asyncio.timeout(_EXPIRY_SECONDS):
                    await self._execute(_DELETE, {"id": me})

    async def seen(self) -> Sequence[SeenProcess]:
        """Return live processes, and processes that died within the last hour, by role and host."""
        found = await self._database.rows(_LIST, {"alive_for": ALIVE_FOR})
        return [SeenProcess(**row) for row in found]

    async def beats(self, role: str, host: str | None = None) -> bool:
        """Return whether a process of this role sends heartbeats, on this host or on any."""
        (row,) = await self._database.rows(_BEATS, {"role": role, "host": host, "alive_for": ALIVE_FOR})
        return bool(row["alive"])

    async def forget(self) -> None:
        """Delete the rows of processes that died long ago."""
        await self._execute(_FORGET, {"after": _FORGET_AFTER})

    async def _beat_repeatedly(self, me: UUID, role: str, in_progress: Callable[[], int]) -> None:
        process = {"id": me, "role": role, "host": socket.gethostname(), "pid": os.getpid()}
        while True:
            try:
                await self._execute(_BEAT, process | {"in_progress": in_progress()})
            except Unavailable as error:
                log.warning("heartbeat.missed", role=role, reason=error.message)
            except Exception as error:  # noqa: BLE001 - the process must stay visible after any error
                log.warning("heartbeat.missed", role=role, reason=type(error).__name__)
            await asyncio.sleep(BEAT_EVERY.total_seconds())

    async def _execute(self, statement: Statement, parameters: Mapping[str, Any]) -> None:
        await self._database.rows(statement, parameters)
