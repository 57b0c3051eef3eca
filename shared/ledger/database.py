"""The connection to PostgreSQL, and its failures turned into ours."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import asyncpg
from sqlalchemy import exc
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine

from shared.errors import Permanent, Unavailable

_RETRY_AFTER = timedelta(seconds=2)
_LOST = (
    exc.OperationalError,
    exc.InterfaceError,
    exc.TimeoutError,  # no connection came free in the pool
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.InsufficientResourcesError,  # no disk, no memory, no connection
    asyncpg.ReadOnlySQLTransactionError,  # a standby, while another becomes the primary
    asyncpg.DeadlockDetectedError,
    asyncpg.SerializationError,
    ConnectionError,
    OSError,
    asyncio.TimeoutError,
)


class Database:
    """A pool of connections.

    Args:
        url: `postgresql://user:password@host:port/name`.
        pool_size: connections that one process may hold.
    """

    def __init__(self, url: str, *, pool_size: int = 10) -> None:
        self.engine: AsyncEngine = create_async_engine(
            make_url(url).set(drivername="postgresql+asyncpg"),
            pool_size=pool_size,
            max_overflow=0,
            pool_timeout=10,
            pool_recycle=1800,
            # Plans depend on how many rows are due, which changes by orders of magnitude within minutes.
            connect_args={
                "timeout": 10,
                "command_timeout": 60,
                "server_settings": {"plan_cache_mode": "force_custom_plan"},
            },
        )

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """One transaction: committed at the end of the block, rolled back by an exception.

        Raises:
            Unavailable: PostgreSQL cannot be reached or went away; nothing was committed, unless it went away during
                the commit itself, which is why every statement of the ledger can be applied twice.
            Permanent: PostgreSQL has no place for a value, such as a NUL in a text.
        """
        try:
            async with self.engine.begin() as connection:
                yield connection
        except _LOST as error:
            raise _unavailable(error) from error
        except exc.DBAPIError as error:
            if error.connection_invalidated or isinstance(error.orig.__cause__ if error.orig else None, _LOST):
                raise _unavailable(error) from error
            if isinstance(error.orig.__cause__ if error.orig else None, asyncpg.DataError):
                raise Permanent("the ledger (PostgreSQL) cannot keep a value that it was given") from error
            raise

    async def aclose(self) -> None:
        await self.engine.dispose()


def _unavailable(error: BaseException) -> Unavailable:
    cause = error.orig.__cause__ if isinstance(error, exc.DBAPIError) and error.orig else None
    if isinstance(cause, asyncpg.InsufficientResourcesError):
        message = f"the ledger (PostgreSQL) is short of something: {cause}"  # no row of ours stands in these
    else:
        message = f"the ledger (PostgreSQL) is not available: {type(cause or error).__name__}"
    return Unavailable(message, component="ledger", retry_after=_RETRY_AFTER)
