"""The reconciler: rings for whatever is due, so that a lost message, a dead worker or an empty broker costs seconds."""

from __future__ import annotations

import asyncio
import signal
from datetime import timedelta

import structlog

from shared.domain.errors import ForeaskError
from shared.ingest.index.stage import clean
from shared.ledger.database import AdvisoryLock, try_lock
from shared.services import Services, build
from shared.settings import Settings

_ORPHAN_SECONDS = 24 * 3600
_TIDY_EVERY = 1800  # passes

log = structlog.get_logger()


async def run(settings: Settings) -> None:
    """Reconcile until the process is asked to end."""
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    async with build(settings) as services:
        passes = 0
        while not stopping.is_set():
            try:
                await reconcile(services)
                if passes % _TIDY_EVERY == 0:
                    await tidy(services)
            except ForeaskError as error:
                # One document's trouble must not end the rings for all others.
                log.warning("reconciler_waits", reason=error.message)
            passes += 1
            await _pause(stopping, settings.reconcile_every.total_seconds())


async def reconcile(services: Services) -> None:
    """Ring every queue on which something is due, and clean up. Of several schedulers one at a time does."""
    async with services.database.begin() as connection:
        if not await try_lock(connection, AdvisoryLock.RECONCILIATION):
            return
        for queue in await services.ledger.work.due():
            services.wakeups.wake(queue)
        if services.settings.calibrate and await services.ledger.calibrations.due():
            services.wakeups.wake("calibrate")
        await clean(services.indexer)


async def tidy(services: Services) -> None:
    """Remove uploads that a crash left without a document, and questions that were kept for long enough."""
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
