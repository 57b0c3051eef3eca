"""The pool of connections to PostgreSQL.

Load balancers, poolers and NAT close connections without traffic. A connection that was idle for a second is therefore
tested before it is lent, so that no statement of the ledger is ever in doubt because of an idle connection.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from shared.ledger.postgres.connections import Connection

_WAIT_SECONDS = 10.0  # for a free connection
_FRESH_SECONDS = 1.0  # no network closes a connection so soon; a busy process tests none
_TEST_SECONDS = 5.0  # PostgreSQL may be that busy
_OLDEST_SECONDS = 1800.0
_CLOSE_SECONDS = 2.0


class Pool:
    """Lends connections: first the newest returned one, because it has the statements prepared.

    Args:
        open_connection: opens a connection.
        size: number of connections.
    """

    def __init__(self, open_connection: Callable[[], Awaitable[Connection]], size: int) -> None:
        self.size = size
        self._open = open_connection
        self._free = asyncio.Semaphore(size)
        self._idle = deque[Connection]()
        self._lent = 0
        self._is_closed = False

    @property
    def lent(self) -> int:
        """The number of connections in use."""
        return self._lent

    @property
    def idle(self) -> int:
        """The number of open connections that are not in use."""
        return len(self._idle)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        """Lend a connection. If the block is cancelled while it waits for PostgreSQL, the connection is closed.

        Raises:
            TimeoutError: no connection was free for ten seconds.
            OSError, asyncpg.PostgresError, asyncpg.InterfaceError: no connection could be opened.
        """
        async with asyncio.timeout(_WAIT_SECONDS):
            await self._free.acquire()
        self._lent += 1
        try:
            connection, is_usable = await self._take(), False
            try:
                yield connection
                is_usable = True
            except Exception:
                is_usable = not connection.is_closed
                if not is_usable:
                    self.close_idle()  # the idle connections are probably lost, too
                raise
            finally:
                await self._return(connection, is_usable=is_usable and not connection.is_in_transaction)
        finally:
            self._lent -= 1
            self._free.release()

    async def _take(self) -> Connection:
        while self._idle:
            connection, is_usable = self._idle.pop(), False
            try:
                is_usable = await _is_usable(connection)
            finally:
                if not is_usable:
                    connection.driver.terminate()
            if is_usable:
                return connection
        return await self._open()

    async def _return(self, connection: Connection, *, is_usable: bool) -> None:
        if is_usable and not self._is_closed:
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            await asyncio.shield(_close(connection))

    def close_idle(self) -> None:
        """Close the idle connections at once."""
        while self._idle:
            self._idle.pop().driver.terminate()

    async def aclose(self) -> None:
        """Close the idle connections now, and each other one when it is returned."""
        self._is_closed = True
        while self._idle:
            await _close(self._idle.pop())


async def _is_usable(connection: Connection) -> bool:
    now = time.monotonic()
    if connection.is_closed or now - connection.opened_at > _OLDEST_SECONDS:
        return False
    if now - connection.idle_since < _FRESH_SECONDS:
        return True
    try:
        await asyncio.wait_for(connection.driver.execute("SELECT"), _TEST_SECONDS)
    except Exception:  # noqa: BLE001 - whatever it is: another connection is opened
        return False
    return True


async def _close(connection: Connection) -> None:
    try:
        await connection.driver.close(timeout=_CLOSE_SECONDS)
    except Exception:  # noqa: BLE001 - it is closed anyway
        connection.driver.terminate()
