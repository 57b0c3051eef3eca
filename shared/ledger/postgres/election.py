"""The election of the working scheduler, which extends a lease; if it dies, another scheduler is elected."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from uuid import uuid4

from sqlalchemy import text

from shared.ledger.postgres.database import Database

LEASE = timedelta(seconds=5)  # the longest pause of the work after a scheduler dies

# Take the lease if it is free, or extend it.
_TAKE = text("""
    UPDATE deployment SET scheduler = :candidate, scheduler_until = now() + :lease
    WHERE scheduler = :candidate OR scheduler_until IS NULL OR scheduler_until <= now()
    RETURNING 1
""")

# End the lease.
_RESIGN = text("UPDATE deployment SET scheduler_until = NULL WHERE scheduler = :candidate")


class Election:
    """One candidate. It holds no lock, so after the loss of the lease two candidates may work for a moment."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._candidate = f"{socket.gethostname()}:{os.getpid()}:{uuid4().hex[:8]}"

    async def take(self) -> bool:
        """Take the lease or extend it; return whether this candidate has it now.

        Raises:
            Unavailable: the ledger cannot be reached.
        """
        async with self._database.begin() as connection:
            parameters = {"candidate": self._candidate, "lease": LEASE}
            return (await connection.execute(_TAKE, parameters)).one_or_none() is not None

    async def resign(self) -> None:
        """End this candidate's lease, so that the next one can take over at once.

        Raises:
            Unavailable: the ledger cannot be reached; the lease expires.
        """
        async with self._database.begin() as connection:
            await connection.execute(_RESIGN, {"candidate": self._candidate})
