"""The audit log: recorded by triggers in the transaction of a change, listed, and deleted by age.

The migration that creates the triggers decides which changes are recorded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from features.audit_log.domain import AuditEntry
from shared.domain.access.actors import Actor, ActorKind
from shared.ledger.erasure.erased_tables import ErasedTable
from shared.ledger.postgres import statements
from shared.ledger.postgres.connections import Row
from shared.ledger.postgres.database import Database

_SLICE = 1_000  # rows of one transaction
_STAFF = (ActorKind.OPERATOR, ActorKind.COMMAND_LINE)

SQL = statements.load(__file__)

ERASED_TABLES = (ErasedTable(name="audit_log", of_tenant=SQL.erase_of_tenant),)


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Conditions of a list of changes; None matches any value.

    Args:
        tenant: tenant of the objects; None: changes by operators and commands, of all tenants.
        object: kind of the object, such as `key`.
        object_name: name of the object.
        actor_name: name of the key or of the user that made the change.
    """

    tenant: str | None
    object: str | None = None
    object_name: str | None = None
    actor_name: str | None = None


class AuditLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def page(
        self, chosen: AuditFilter, *, after: tuple[datetime, UUID] | None = None, limit: int = 50
    ) -> Sequence[AuditEntry]:
        """List recorded changes, the newest first."""
        at, last = after or (None, None)
        parameters = {
            "tenant": chosen.tenant,
            "object": chosen.object,
            "object_name": chosen.object_name,
            "actor_name": chosen.actor_name,
            "actors": list(_STAFF),
            "at": at,
            "after": last,
            "limit": limit,
        }
        return [_entry(row) for row in await self._database.rows(SQL.page, parameters)]

    async def forget(self, age: timedelta) -> bool:
        """Delete some changes that are older; return whether more may be left."""
        return len(await self._database.rows(SQL.forget, {"age": age, "limit": _SLICE})) == _SLICE


def _entry(row: Row) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        tenant=row["tenant"],
        created_at=row["created_at"],
        actor=Actor(ActorKind(row["actor"]), row["actor_name"], row["actor_key_id"]),
        action=row["action"],
        object=row["object"],
        object_name=row["object_name"],
        changes={field: (before, after) for field, (before, after) in row["changes"].items()},
    )
