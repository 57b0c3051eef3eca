"""The schema revision of this code, and the check that this code can run on the ledger's schema.

A newer schema records the oldest code that may run on it, so that two releases can run at the same time. This module is
separate from `schema`, which migrates, so that servers do not need Alembic.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from datetime import timedelta

import asyncpg

from shared.domain.errors import InvalidInput, Unavailable
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement

REVISION = "0001"

_POLL_EVERY = timedelta(seconds=1)
_RUN_SCHEMA = "run `foreask schema` (docker compose: the service `schema`)"
_CREATE_ROLE = f"If the role does not exist yet, {_RUN_SCHEMA} with its password."
_NEWER_RELEASE = "run the release that migrated it, or a newer one"
_MISSING = (asyncpg.UndefinedTableError, asyncpg.InsufficientPrivilegeError)
_REJECTED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)

# Return the revision of the schema, as Alembic stores it.
_REVISION = Statement("SELECT version_num FROM alembic_version")

# Return the revision of the oldest code that may run on the schema.
_MIN_REVISION = Statement("SELECT min_revision FROM schema_compat")


class SchemaOutdated(InvalidInput):
    """The ledger's schema is missing, older than this code, or not yet open to this role."""


class SchemaNewer(InvalidInput):
    """The ledger's schema requires newer code: neither a migration by this code nor waiting helps."""


async def require_schema(database: Database) -> bool:
    """Check that this code can run on the ledger's schema; return whether the schema is newer than this code.

    Raises:
        SchemaOutdated: the schema is older or missing; the message contains the remedy.
        SchemaNewer: the schema requires newer code.
        Unavailable: the ledger cannot be reached.
    """
    found = await _value(database, _REVISION)
    if found is None:
        raise SchemaOutdated(f"The ledger has no schema: {_RUN_SCHEMA}.")
    if found < REVISION:
        raise SchemaOutdated(
            f"The ledger's schema is at revision {found} and this code needs {REVISION}: {_RUN_SCHEMA}."
        )
    if found == REVISION:
        return False
    required = await _value(database, _MIN_REVISION)
    if required is None or required > REVISION:
        raise SchemaNewer(
            f"The ledger's schema is at revision {found}, which needs code of revision {required or found} or newer,"
            f" and this code has {REVISION}: {_NEWER_RELEASE}."
        )
    return True


async def wait_for_schema(
    database: Database, longest: timedelta, now: Callable[[], float] = time.monotonic, poll: timedelta = _POLL_EVERY
) -> None:
    """Return when this code can run on the ledger's schema; another process migrates it.

    Args:
        database: the ledger; it may be unavailable, and the role may not exist yet.
        longest: longest time to wait.
        now: clock in monotonic seconds.
        poll: pause between two checks.

    Raises:
        SchemaOutdated: the schema is still older or missing after that time.
        Unavailable: the ledger is still unavailable after that time.
        SchemaNewer: the schema requires newer code, so waiting would not help.
    """
    deadline = now() + longest.total_seconds()
    while True:
        try:
            await require_schema(database)
        except (SchemaOutdated, Unavailable):
            if now() >= deadline:
                raise
        else:
            return
        await asyncio.sleep(min(poll.total_seconds(), max(0.0, deadline - now())))


async def _value(database: Database, statement: Statement) -> str | None:
    """Return the single value; None if the table does not exist, or this role may not read it yet.

    Raises:
        SchemaOutdated: the role or the database does not exist yet, or the password is wrong.
    """
    try:
        async with database.begin() as connection:
            value: str | None = (await connection.execute(statement)).scalar_one_or_none()
    except _MISSING:
        return None
    except _REJECTED as error:
        raise SchemaOutdated(f"PostgreSQL rejects the connection: {error}. {_CREATE_ROLE}") from error
    return value
