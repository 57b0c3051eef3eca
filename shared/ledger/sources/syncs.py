"""Syncs of sources. A sync is a job, and its listing is a run that a parse worker claims.

The job has the id of the run. It ends when the run has ended and its documents are processed.
"""

from __future__ import annotations

from datetime import datetime
from uuid import UUID

from shared.domain.sources import SyncState, Withheld
from shared.ledger.postgres.database import Database


class Syncs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def start(self, tenant: str, source: str) -> SyncState:
        """Queue a sync of a source; the caller wakes the queue `syncs`.

        A job that waits for approval ends, because this sync finds its withheld deletions again.

        Raises:
            NotFound: the tenant has no source of that name.
            JobIsOpen: a sync of this source is open; the error has the id of its job.
            Conflict: the tenant has the maximum number of open jobs, or the collection is being erased.
        """
        raise NotImplementedError

    async def approve(self, tenant: str, source: str, *, deletions: int) -> SyncState:
        """Approve withheld deletions: queue a sync that lists again; the waiting job ends.

        Args:
            tenant: tenant of the source.
            source: its name.
            deletions: upper bound. If the new listing lacks more items, nothing is deleted and all are withheld again,
                because their owner has approved other deletions than these.

        Raises:
            NotFound: the tenant has no source of that name.
            Conflict: no deletions of this source are withheld.
            JobIsOpen: a sync of this source is running.
        """
        raise NotImplementedError

    async def withheld(self, tenant: str, source: str) -> Withheld:
        """Return the deletions of a source that need approval.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        raise NotImplementedError

    async def page(
        self, tenant: str, source: str, *, after: tuple[datetime, UUID] | None = None, limit: int = 20
    ) -> list[SyncState]:
        """Return the syncs of a source, newest first, after `after`; the newest 50 are retained.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        raise NotImplementedError

    async def get(self, tenant: str, job_id: UUID) -> SyncState:
        """Return a sync by the id of its job.

        Raises:
            NotFound: the tenant has no sync of that id.
        """
        raise NotImplementedError
