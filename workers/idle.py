"""A worker that has no work, because OCR is off. It stays alive: a supervisor would restart a process that exits."""

from __future__ import annotations

import asyncio
import signal

import structlog

from shared.domain.queues import WorkQueue
from shared.process.telemetry import metrics
from shared.settings import Settings

log = structlog.get_logger()


async def idle(role: WorkQueue, settings: Settings, reason: str) -> None:
    """Answer health checks until the process is asked to stop.

    The process sends no heartbeats, so the status still reports that no worker of its role works.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with metrics.serving(role, settings.metrics_host, settings.metrics_port, works_as=()):
        log.info("worker.idle", queue=role, reason=f"{reason} Until it is started again with OCR, it reads no page.")
        await stopping.wait()
