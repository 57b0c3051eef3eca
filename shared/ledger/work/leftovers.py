"""Leftovers: deleted documents whose points may remain, obsolete versions, and points that differ from the ledger."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Self

from shared.domain.corpus.documents import DeletableDocument
from shared.domain.stages.indexing import ChunkToIndex
from shared.domain.stages.sweeps import POINTS_STAY, Sweep
from shared.ledger.documents import versions
from shared.ledger.ledger import StoreTerms
from shared.ledger.model import states
from shared.ledger.model.rows.indexing import late_rows
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Connection
from shared.ledger.postgres.database import Database
from shared.ledger.work.leases import all_expired_after

SQL = statements.load(__file__, states.FRAGMENTS)


class Leftovers:
    """The leftovers of all tenants.

    Args:
        database: the ledger.
        lease: duration of a claim without extension, of every worker.
    """

    def __init__(self, database: Database, lease: timedelta) -> None:
        self._database = database
        self.leases_expire_after = all_expired_after(lease)

    @classmethod
    def of_process(cls, database: Database, terms: StoreTerms) -> Self:
        return cls(database, terms.lease)

    async def deletable(self, limit: int = 100) -> list[DeletableDocument]:
        """Return deleted documents whose versions are deleted; points may remain."""
        async with self._database.begin() as connection:
            documents = (await connection.execute(SQL.deletable, {"limit": limit})).all()
        return [DeletableDocument(**row) for row in documents]

    async def finish_deletion(self, documents: Sequence[DeletableDocument]) -> None:
        """Delete the rows of documents whose points are deleted."""
        async with self._database.begin() as connection:
            inserted = await versions.insert_sweeps(connection, [(d.id, d.version) for d in documents])
            again = {"ids": inserted, "after": self.leases_expire_after}
            await connection.execute(SQL.repeat_sweeps, again)
            await connection.execute(SQL.delete_documents, {"ids": [d.id for d in documents]})

    async def postpone_deletion(self, documents: Sequence[DeletableDocument]) -> None:
        """Postpone the deletion of these documents."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.postpone_deletion, {"ids": [d.id for d in documents]})

    async def purge_versions(self) -> list[str]:
        """Delete some versions that are neither live nor newest; return unreferenced uploads."""
        return await versions.purge(self._database)

    async def due_sweeps(self, limit: int = 100) -> list[Sweep]:
        """Return due sweeps, longest due first."""
        async with self._database.begin() as connection:
            sweeps = (await connection.execute(SQL.due_sweeps, {"limit": limit})).all()
        return [Sweep(**row) for row in sweeps]

    async def postpone_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """Postpone these sweeps."""
        async with self._database.begin() as connection:
            await connection.execute(SQL.postpone_sweeps, {"ids": [s.id for s in sweeps]})

    async def settle_sweeps(self, sweeps: Sequence[Sweep]) -> None:
        """Record sweeps as done; some are repeated when all leases of late writers have expired."""
        again = [sweep.id for sweep in sweeps if sweep.again]
        async with self._database.begin() as connection:
            await connection.execute(SQL.delete_sweeps, {"ids": [s.id for s in sweeps if not s.again]})
            await connection.execute(SQL.repeat_sweeps, {"ids": again, "after": self.leases_expire_after})


async def sweep_late(
    connection: Connection,
    lease: timedelta,
    stale: Sequence[ChunkToIndex],
    taken_over: Sequence[ChunkToIndex] = (),
) -> None:
    """Sweep chunks that a late writer has written, and later the chunks that another worker may write."""
    late = [(chunk, False) for chunk in stale] + [(chunk, True) for chunk in taken_over]
    if late:
        parameters = late_rows(late) | {"after": all_expired_after(lease), "points_stay": POINTS_STAY}
        await connection.execute(SQL.insert_late_sweeps, parameters)
