"""The drains of one stage of a worker: one at a time, each with a limited time for claims."""

from __future__ import annotations

import asyncio
from typing import Any

import structlog

from shared.domain.errors import Transient
from shared.ingest.drain import Drain, DrainLimits, Exclusion, Stage, SuspectPolls

log = structlog.get_logger()


class StageRunner:
    """Runs the drains of a stage.

    Args:
        stage: the stage.
        limits: time limits of its drains.
        stopping: set when the process is asked to stop.
        exclusion: keeps the suspects of all stages of the process alone.
    """

    def __init__(
        self, stage: Stage[Any, Any], limits: DrainLimits, stopping: asyncio.Event, exclusion: Exclusion
    ) -> None:
        self._stage = stage
        self._limits = limits
        self._stopping = stopping
        self._exclusion = exclusion
        self._polls = SuspectPolls()
        self._drain: Drain[Any, Any] | None = None  # the newest one, whose items may run between two tasks
        self._runs = False
        self._is_woken = False

    @property
    def in_progress(self) -> int:
        """The number of running items."""
        return self._drain.in_progress if self._drain else 0

    async def run(self) -> bool:
        """Drain the stage; return whether more work is due than the drain could finish in its time.

        After a wake-up while a drain runs, another drain follows.
        """
        self._is_woken = True
        if self._runs:
            return False
        self._runs = True
        try:
            more = False
            while self._is_woken and not more:
                self._is_woken = False
                more = await self._run()
            return more
        finally:
            self._runs = False

    async def close(self) -> None:
        """End the newest drain, whose items have the grace."""
        if self._drain is not None:
            await self._drain.close()

    async def _run(self) -> bool:
        if self._drain is None or self._drain.has_ended:
            self._drain = Drain(self._stage, self._limits, self._stopping, self._polls, exclusion=self._exclusion)
        try:
            return await self._drain.run()
        except Transient as error:
            # The scheduler wakes the worker again; until then the worker has nothing better to do than to wait.
            log.warning("drain.interrupted", stage=self._stage.name, reason=error.message)
            return False
