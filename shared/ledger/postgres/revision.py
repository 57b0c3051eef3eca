"""The revision of the schema that this code is written for, and the check that a ledger has it.

It stands apart from `schema`, which migrates: no server needs Alembic for it.
"""

from __future__ import annotations

import asyncpg
from sqlalchemy import exc, text

from shared.domain.errors import InvalidInput
from shared.ledger.postgres.database import Database

REVISION = "0001"

# Return the revision of the schema, as Alembic keeps it.
_REVISION = text("SELECT version_num FROM alembic_version")


async def require_current(database: Database) -> None:
    """Return where the ledger's schema is the one that this code is written for.

    Raises:
        InvalidInput: it is older, newer or not there; the message says what to do.
        Unavailable: the ledger cannot be reached.
    """
    found = await _revision(database)
    if found is None:
        raise InvalidInput("The ledger has no schema: run `foreask schema` (docker compose: the service `schema`).")
    if found < REVISION:
        raise InvalidInput(
            f"The ledger's schema is at revision {found} and this code needs {REVISION}: run `foreask schema`"
            " (docker compose: the service `schema`)."
        )
    if found > REVISION:
        raise InvalidInput(
            f"The ledger's schema is at revision {found} and this code knows {REVISION}: run the release that migrated"
            " it, or a newer one."
        )


async def _revision(database: Database) -> str | None:
    try:
        async with database.begin() as connection:
            revision: str | None = (await connection.execute(_REVISION)).scalar_one_or_none()
    except exc.ProgrammingError as error:
        if error.orig is not None and isinstance(error.orig.__cause__, asyncpg.UndefinedTableError):
            return None
        raise
    return revision
