"""Migration of a database to the newest schema."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import asyncpg
from alembic import command
from alembic.config import Config
from sqlalchemy import Connection, event, exc
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine
from sqlalchemy.pool import NullPool

from shared.domain.errors import Unavailable
from shared.ledger.postgres.database import AdvisoryLock, Database, begin_alone
from shared.ledger.postgres.statements import Statement

_MIGRATIONS = Path(__file__).with_name("migrations")
_LOCK_TIMEOUT = "4s"
_RETRY_AFTER = timedelta(seconds=30)

# Draw larger fencing tokens than every process has drawn from this ledger, as each connection does.
_RAISE_TOKENS = Statement("SELECT raise_tokens()")

# Allow this transaction to be idle as long as migrations take. A SELECT would leave a snapshot, for which an index that
# is built `CONCURRENTLY` waits.
_ALLOW_IDLE = Statement("SET LOCAL idle_in_transaction_session_timeout = 0")


async def migrate(database: Database) -> None:
    """Apply missing migrations; concurrent and repeated calls are safe.

    Each migration is applied completely or not at all, except a migration that builds an index `CONCURRENTLY`, which
    may be applied again. Later claims draw larger fencing tokens than earlier ones, even after a restore.

    Raises:
        Unavailable: a migration waited too long for a lock. Earlier migrations are applied.
    """
    async with migrating_alone(database):
        async with connected(database) as alembic:
            await alembic.run_sync(_upgrade)
        # In a new transaction: this one may remember that the function did not exist when it started.
        async with database.transaction() as connection:
            await connection.execute(_RAISE_TOKENS)


@asynccontextmanager
async def migrating_alone(database: Database) -> AsyncIterator[None]:
    """Hold the lock of the migrations.

    The lock has its own transaction, because a migration that builds an index ends the transaction in which migrations
    started.
    """
    async with begin_alone(database, AdvisoryLock.MIGRATION) as lock_connection:
        await lock_connection.execute(_ALLOW_IDLE)
        yield


@asynccontextmanager
async def connected(database: Database) -> AsyncIterator[AsyncConnection]:
    """Yield a connection for Alembic, whose waits for locks are limited.

    Raises:
        Unavailable: a migration waited too long for a lock. Earlier migrations are applied.
    """
    engine = create_async_engine("postgresql+asyncpg://", async_creator=database.open_driver, poolclass=NullPool)
    async with engine.connect() as connection:
        event.listen(connection.sync_connection, "begin", _bound_waits)
        try:
            yield connection
        except exc.DBAPIError as error:
            if error.orig is None or not isinstance(error.orig.__cause__, asyncpg.LockNotAvailableError):
                raise
            raise Unavailable(
                f"a migration waited {_LOCK_TIMEOUT} for a lock that another transaction holds: run it again",
                component="ledger",
                retry_after=_RETRY_AFTER,
            ) from error


def _upgrade(connection: Connection) -> None:
    config = Config(_MIGRATIONS / "alembic.ini")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def _bound_waits(connection: Connection) -> None:
    """Limit the lock waits of the starting transaction: later statements queue up while it waits.

    An index that is built `CONCURRENTLY` is not in a transaction: it waits long, and nothing queues up.
    """
    connection.exec_driver_sql("SELECT set_config('lock_timeout', $1, true)", (_LOCK_TIMEOUT,))
