"""Damaged collections: their points may differ from the ledger, so the scheduler repairs them by itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from uuid import UUID

from shared.domain.corpus.collections import Collection, DamageCause
from shared.domain.jobs import JobState
from shared.ledger.documents.audit import DocumentSnapshot
from shared.ledger.model import states
from shared.ledger.model.collections import collection_of
from shared.ledger.postgres import statements
from shared.ledger.postgres.database import AdvisoryLock, Database, lock
from shared.ledger.postgres.servers import Server

_CHANGES = 1_000  # documents of a tenant among which the newest of a collection are found

SQL = statements.load(__file__, states.FRAGMENTS, **{cause.name: cause.value for cause in DamageCause})


@dataclass(frozen=True, slots=True)
class EndedRepair:
    """A verification with repair that has ended.

    Args:
        state: its end; None if it was deleted.
        is_last: whether it started after the last late writer.
        pause: time until the next repair may be the last one.
        counts: its counts.
    """

    collection_id: UUID
    verification_id: UUID
    tenant: str
    name: str
    damage: DamageCause
    state: JobState | None
    is_last: bool
    pause: timedelta
    counts: Mapping[str, int]

    @property
    def is_complete(self) -> bool:
        """Whether every difference was repaired."""
        found = sum(self.counts.get(kind, 0) for kind in ("missing", "stale", "orphaned"))
        return self.state is JobState.DONE and found <= self.counts.get("repaired", 0)


class Repairs:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def noted_server(self) -> Server | None:
        """Return the server that answered when one was last noted."""
        rows = await self._database.rows(SQL.noted_server)
        return Server(**rows[0]) if rows else None

    async def note_server(self, server: Server, *, lost_commits: bool, late: timedelta) -> bool:
        """Record the server that answers now; return whether it may lack commits, so that all collections are damaged.

        Args:
            server: the server.
            lost_commits: whether it is known to lack commits.
            late: time after which no worker writes points of a lost claim any more.
        """
        async with self._database.begin() as connection:
            await lock(connection, AdvisoryLock.SERVERS)
            row = (await connection.execute(SQL.get_server, {"late": late})).one_or_none()
            changed = row is not None and server.differs(Server(row.system, row.timeline))
            lost_commits = lost_commits and not (row is not None and row.is_new)  # it is known from the new server
            if row is None or changed:
                await connection.execute(SQL.insert_server, {"system": server.system, "timeline": server.timeline})
            if changed or lost_commits:
                await connection.execute(SQL.suspect_all, {"late": late})
        return changed or lost_commits

    async def mark_lost(self, collections: Sequence[UUID]) -> list[tuple[str, str]]:
        """Record that collections have lost points; return the tenants and names of those not known as damaged."""
        rows = await self._database.rows(SQL.mark_lost, {"ids": list(collections)})
        return [(row["tenant"], row["name"]) for row in rows]

    async def due(self, limit: int) -> list[Collection]:
        """Return collections whose repair is due."""
        return [collection_of(row) for row in await self._database.rows(SQL.due, {"limit": limit})]

    async def note_start(self, collection: UUID, verification_id: UUID) -> None:
        """Record the verification that repairs a collection."""
        await self._database.rows(SQL.note_start, {"id": collection, "verification": verification_id})

    async def postpone(self, collection: UUID, pause: timedelta, verification_id: UUID | None = None) -> None:
        """Start the repair of a collection after a pause, unless a later failover has changed it."""
        await self._database.rows(SQL.postpone, {"id": collection, "pause": pause, "verification": verification_id})

    async def ended(self, limit: int) -> list[EndedRepair]:
        """Return ended repairs whose points are written."""
        return [
            EndedRepair(
                row["id"],
                row["repair_id"],
                row["tenant"],
                row["name"],
                DamageCause(row["damage"]),
                JobState(row["state"]) if row["state"] else None,
                bool(row["is_last"]),
                row["pause"],
                row["counts"] or {},
            )
            for row in await self._database.rows(SQL.ended, {"limit": limit})
        ]

    async def clear(self, ended: EndedRepair, pause: timedelta) -> None:
        """Forget the damage of a repaired collection, and do not check its points before a pause is over.

        The damage of a later failover stays.
        """
        await self._database.rows(
            SQL.clear, {"id": ended.collection_id, "verification": ended.verification_id, "pause": pause}
        )

    async def count(self) -> int:
        """Return the number of damaged collections of all tenants."""
        (row,) = await self._database.rows(SQL.count)
        count: int = row["count"]
        return count

    async def of_tenant(self, tenant: str) -> list[Collection]:
        """Return a tenant's damaged collections in order of their names."""
        return [collection_of(row) for row in await self._database.rows(SQL.of_tenant, {"tenant": tenant})]

    async def builds_after(self, after: UUID | None, limit: int) -> list[Collection]:
        """Return some undamaged collections in order of their ids, after an id."""
        rows = await self._database.rows(SQL.builds_after, {"after": after, "limit": limit})
        return [collection_of(row) for row in rows]

    async def newest(self, collection: Collection, limit: int) -> list[DocumentSnapshot]:
        """Return the finished documents of a collection that changed last, as far as the tenant changed few others."""
        parameters = {"tenant": collection.tenant, "collection": collection.id, "most": _CHANGES, "limit": limit}
        return [DocumentSnapshot(**row) for row in await self._database.rows(SQL.newest, parameters)]
