"""The election of the working scheduler, which extends a lease; if it dies, another scheduler is elected."""

from __future__ import annotations

import os
import socket
from datetime import datetime, timedelta
from uuid import uuid4

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

LEASE = timedelta(seconds=5)  # the longest pause of the work after a scheduler dies

# Take the lease if it is free, or extend it; return its earlier end, too. Fencing tokens are raised above the clock.
_TAKE = Statement("""
    WITH before AS (SELECT id, scheduler_until FROM deployment FOR UPDATE)
    UPDATE deployment d SET scheduler = :candidate, scheduler_until = now() + :lease FROM before
    WHERE d.id = before.id
      AND (d.scheduler = :candidate OR d.scheduler_until IS NULL OR d.scheduler_until <= now())
    RETURNING before.scheduler_until AS earlier, d.scheduler_until AS until, raise_tokens()
""")

# End the lease.
_RESIGN = Statement("UPDATE deployment SET scheduler_until = NULL WHERE scheduler = :candidate")


class Election:
    """One candidate. It holds no lock, so after the loss of the lease two candidates may work for a moment.

    The end of the lease never moves back while PostgreSQL keeps its commits. If it does, a failover or a crash has lost
    commits: this is noticed even if PostgreSQL does not say which server answers.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._candidate = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"
        self._until: datetime | None = None
        self.lost_commits = False  # the scheduler clears it when it has recorded the loss

    async def take(self) -> bool:
        """Take the lease or extend it; return whether this candidate has it now.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        rows = await self._database.rows(_TAKE, {"candidate": self._candidate, "lease": LEASE})
        if not rows:
            return False
        (row,) = rows
        if self._until is not None and row.earlier is not None and row.earlier < self._until:
            self.lost_commits = True
        self._until = row.until
        return True

    async def resign(self) -> None:
        """End this candidate's lease, so that the next one can take over at once.

        Raises:
            Unavailable: the ledger cannot be reached; the lease expires.
        """
        await self._database.rows(_RESIGN, {"candidate": self._candidate})
