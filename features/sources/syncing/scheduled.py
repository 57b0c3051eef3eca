"""Scheduled syncs: the scheduler starts the syncs whose time has come."""

from __future__ import annotations

import structlog

from features.sources.domain import SourceDefinition
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from shared.broker.wakeups import Wakeups
from shared.domain.errors import ForeaskError, JobIsOpen, Rejected
from shared.ledger.ledger import Ledger

log = structlog.get_logger()


async def start_due_syncs(ledger: Ledger, wakeups: Wakeups) -> bool:
    """Start syncs whose scheduled time has come; return whether there were any.

    Several missed times lead to one sync. A source whose sync cannot be started has the reason, and delays no other.
    """
    sources = await ledger[Sources].due()
    for source in sources:
        try:
            refused = await _start_due_sync(ledger, wakeups, source)
            await ledger[Sources].schedule_next(source, refused)
        except Exception as error:  # this source alone; if the ledger is unavailable, it cannot be postponed either
            expected = isinstance(error, ForeaskError)
            log.warning("sync.postponed", source=source.name, tenant=source.tenant, exc_info=not expected)
            reason = error.message if isinstance(error, ForeaskError) else "The scheduler's log has the reason."
            await ledger[Sources].postpone(source, reason)
    return bool(sources)


async def _start_due_sync(ledger: Ledger, wakeups: Wakeups, source: SourceDefinition) -> str | None:
    """Start the sync of a source unless one is open; return why it cannot be started before its next time."""
    names = {"source": source.name, "tenant": source.tenant}
    try:
        sync = await ledger[Syncs].start(source.tenant, source.name)
    except Rejected as error:
        log.info("sync.skipped", **names, reason=error.message)
        return None if isinstance(error, JobIsOpen) else error.message
    log.info("sync.started", **names, job=str(sync.id))
    wakeups.wake("syncs")
    return None
