"""The scheduler: it wakes workers for whatever is due, so that a lost wake-up or a dead worker costs seconds."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta

import structlog

from shared.domain.errors import ForeaskError
from shared.ledger.database import AdvisoryLock, try_lock
from shared.services import build
from shared.services.scheduler import SchedulerServices
from shared.settings import Settings

_ORPHAN_SECONDS = 24 * 3600
_TIDY_EVERY = 1800  # passes
_NUDGE_EVERY = 30  # passes

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Reconcile until the process is asked to end.

    Raises:
        InvalidInput: a setting that the scheduler needs is missing.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with build("scheduler", settings) as services:
        passes = 0
        while not stopping.is_set():
            try:
                await reconcile(services)
                if passes % _NUDGE_EVERY == 0:
                    await services.cleaner.nudge_optimizers()
                if passes % _TIDY_EVERY == 0:
                    await tidy(services)
            except ForeaskError as error:
                # A document that fails must not end the wake-ups for all others.
                log.warning("pass.failed", reason=error.message)
            passes += 1
            await _pause(stopping, settings.tuning.reconcile_every.total_seconds())


async def reconcile(services: SchedulerServices) -> None:
    """Wake a worker of every queue on which something is due, and clean up. Of several schedulers one does, at a time.

    Raises:
        ForeaskError: the pass was not finished; the next one makes up for it.
    """
    async with services.database.begin() as connection:
        if not await try_lock(connection, AdvisoryLock.RECONCILIATION):
            return
        for queue in await services.ledger.work.due():
            services.wakeups.wake(queue)
        if services.settings.calibrate and await services.ledger.calibrations.due():
            services.wakeups.wake("calibrate")
        await services.cleaner.clean()


async def tidy(services: SchedulerServices) -> None:
    """Delete uploads that a crash left without a document, and questions whose retention is over."""
    await services.ledger.query_log.purge(timedelta(days=services.settings.query_retention_days))
    old = list(services.uploads.older_than(_ORPHAN_SECONDS))
    in_use = await services.ledger.documents.uploads_in_use(old)
    for name in set(old) - in_use:
        services.uploads.remove(name)


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), timeout=seconds)
    except TimeoutError:
        return
