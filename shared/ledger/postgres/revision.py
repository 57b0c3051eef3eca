"""The schema revision that this code requires, and the check that the ledger has it.

It is separate from `schema`, which migrates, so that servers do not need Alembic.
"""

from __future__ import annotations

import asyncpg
from sqlalchemy import exc, text

from shared.domain.errors import InvalidInput
from shared.ledger.postgres.database import Database

REVISION = "0001"

# Return the revision of the schema, as Alembic stores it.
_REVISION = text("SELECT version_num FROM alembic_version")


async def require_current(database: Database) -> None:
    """Check that the ledger's schema has the required revision.

    Raises:
        InvalidInput: it is older, newer or missing; the message contains the remedy.
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
            f"The ledger's schema is at revision {found} and this code supports {REVISION}: run the release that"
            " migrated it, or a newer one."
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
