"""The server of PostgreSQL that answers: its system identifier and its timeline.

The timeline changes when a standby is promoted and when a backup with its log is restored; the identifier changes when
a dump is restored. By default every role may call these functions; a managed service may refuse one of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import asyncpg

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

# Return both parts of a server.
_BOTH = Statement("""
    SELECT (SELECT CAST(system_identifier AS text) FROM pg_control_system()) AS system,
           left(pg_walfile_name(pg_current_wal_lsn()), 8) AS timeline
""")

# Return the identifier that `initdb` gave to the cluster and all its standbys.
_SYSTEM = Statement("SELECT CAST(system_identifier AS text) AS value FROM pg_control_system()")

# Return the timeline of the next change. `pg_control_checkpoint()` returns an older one until the first checkpoint.
_TIMELINE = Statement("SELECT left(pg_walfile_name(pg_current_wal_lsn()), 8) AS value")

_REFUSED = (
    asyncpg.InsufficientPrivilegeError,
    asyncpg.UndefinedFunctionError,
    asyncpg.FeatureNotSupportedError,
    asyncpg.ObjectNotInPrerequisiteStateError,
)


@dataclass(frozen=True, slots=True)
class Server:
    """A server of PostgreSQL; parts that the role may not read are missing."""

    system: str | None
    timeline: str | None

    @property
    def is_known(self) -> bool:
        return self.system is not None or self.timeline is not None

    def differs(self, other: Server) -> bool:
        """Return whether both know a part, and it is not the same."""
        parts = ((self.system, other.system), (self.timeline, other.timeline))
        return any(mine is not None and theirs is not None and mine != theirs for mine, theirs in parts)


async def current_server(database: Database) -> Server:
    """Return the server that answers now.

    Raises:
        Unavailable: PostgreSQL cannot be reached.
    """
    try:
        (row,) = await database.rows(_BOTH)
    except _REFUSED:  # the role may call one of the functions
        return Server(await _value(database, _SYSTEM), await _value(database, _TIMELINE))
    return Server(**row)


async def _value(database: Database, statement: Statement) -> str | None:
    try:
        (row,) = await database.rows(statement)
    except _REFUSED:
        return None
    value: str = row["value"]
    return value
