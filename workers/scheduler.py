"""The scheduler: it wakes workers for whatever is due, so that a lost wake-up or a dead worker costs seconds."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from datetime import timedelta
from functools import partial

import structlog

from shared.domain.errors import ForeaskError
from shared.ledger.database import AdvisoryLock, try_lock
from shared.services import build
from shared.services.scheduler import SchedulerServices
from shared.services.start import begin
from shared.settings import Settings

_TIDY_EVERY = timedelta(hours=1)
_NUDGE_EVERY = timedelta(minutes=1)
_COSTS_BY_DAY_AFTER = timedelta(hours=1)  # a settlement is repeated within seconds
_FORGET_REPLIES_AFTER = timedelta(days=7)

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Reconcile and tidy until the process is asked to end.

    Raises:
        InvalidInput: a setting that the scheduler needs is missing, or the ledger's schema is not this code's.
    """
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with build("scheduler", settings) as services:
        await begin(settings, "scheduler")
        # Side by side: a network file system or a Qdrant that hangs must not end the wake-ups.
        beside = [
            asyncio.create_task(_repeat(stopping, _TIDY_EVERY, partial(tidy, services))),
            asyncio.create_task(_repeat(stopping, _NUDGE_EVERY, services.cleaner.nudge_optimizers)),
        ]
        await _repeat(stopping, settings.tuning.reconcile_every, partial(reconcile, services))
        for task in beside:
            task.cancel()


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
    """Delete what is needed no more, and add older costs up by day.

    Needed no more are questions whose retention is over, replies whose content nobody asked for again, and uploads that
    a crash left without a document.

    Raises:
        ForeaskError: it was not finished; the next time makes up for it.
        OSError: the folder of uploads cannot be read or written.
    """
    await services.ledger.query_log.purge(timedelta(days=services.settings.query_retention_days))
    await services.ledger.work.forget_replies(_FORGET_REPLIES_AFTER)
    await services.ledger.costs.fold(_COSTS_BY_DAY_AFTER)
    await services.orphans.tidy()


async def _repeat(stopping: asyncio.Event, every: timedelta, work: Callable[[], Awaitable[object]]) -> None:
    """Do something again and again; where it fails once, the next time makes up for it."""
    while not stopping.is_set():
        try:
            await work()
        except (ForeaskError, OSError) as error:
            log.warning("pass.failed", reason=str(error))
        await _pause(stopping, every.total_seconds())


async def _pause(stopping: asyncio.Event, seconds: float) -> None:
    try:
        await asyncio.wait_for(stopping.wait(), timeout=seconds)
    except TimeoutError:
        return
