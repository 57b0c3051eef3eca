"""The connections to PostgreSQL, advisory locks, and the conversion of PostgreSQL's errors."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from enum import IntEnum
from functools import partial
from typing import Any, Literal

import asyncpg
import orjson
import structlog
import tenacity
from sqlalchemy import Connection, RowMapping, TextClause, event, exc, text
from sqlalchemy.engine import make_url
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.pool import QueuePool

from shared.domain.errors import InvalidInput, Permanent, Unavailable
from shared.ledger.postgres import actors, driver, plans
from shared.ledger.postgres.addresses import connect_arguments
from shared.ledger.postgres.lending import lend_open_connections
from shared.process.network import problem_of
from shared.process.telemetry import metrics, traces

Pooler = Literal["none", "transaction"]
_RETRY_AFTER = timedelta(seconds=2)
_TIMEOUT = timedelta(seconds=20)
_SETTLEMENTS_FIRST_SECONDS = 1.0  # workers retry settlements every half second while the ledger is unavailable
_REPEATED_SECONDS = 3.0  # a read whose connection was lost within this time is sent again
_POLL_SECONDS = 0.1  # between two polls of an advisory lock
_LOST = (
    exc.OperationalError,
    exc.InterfaceError,
    exc.TimeoutError,  # no connection of the pool was free
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,  # no disk, no memory, no connection
    asyncpg.QueryCanceledError,  # the server's `statement_timeout`, or a person
    asyncpg.LockNotAvailableError,  # the server's `lock_timeout`
    asyncpg.ReadOnlySQLTransactionError,  # a standby, while another becomes the primary
    ConnectionError,
    OSError,
    asyncio.TimeoutError,
)
# Limit the duration of transactions and of pauses within them, for the session or for one transaction. A process may
# stall or lose its machine while it holds locks; a limit releases them. The limit on pauses misses a process that
# stalls while it prepares a statement; the limit on transactions, available from version 17 on, does not.
_SET_BOUNDS = """
SELECT set_config(name, value, $2)
FROM (VALUES ('transaction_timeout', $1), ('idle_in_transaction_session_timeout', '15s')) AS bound (name, value)
WHERE name <> 'transaction_timeout' OR current_setting('server_version_num')::int >= 170000
"""
# Raise fencing tokens above the clock on each new connection, so that tokens of lost commits are never drawn again:
# claims after a failover use connections that were opened after the failover. Before the migration there are no claims.
_RAISE_TOKENS = """
DO $$ BEGIN
    IF to_regprocedure('raise_tokens()') IS NOT NULL THEN
        PERFORM raise_tokens();
    END IF;
END $$
"""
_SESSION = {"server_settings": plans.EACH_TIME}
# A prepared statement belongs to a connection of the server. Without a cache the driver uses unnamed statements, which
# are parsed and planned again on each execution.
_WITHOUT_SESSION = {"statement_cache_size": 0}
# Close a connection whose peer acknowledges nothing for five seconds: its machine or the network failed without a
# reset. Otherwise requests would wait for 25 seconds, and the leases of paid work would expire meanwhile. An idle
# connection is probed, so that it is closed before its next use. Systems without an option use their own times.
_DETECT_SILENCE = {
    "TCP_USER_TIMEOUT": 5_000,  # milliseconds; of sent data, and of probes
    "TCP_KEEPIDLE": 3,  # seconds without data before the first probe
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": 3,
}
log = structlog.get_logger()
_OK_SECONDS = metrics.LEDGER_SECONDS.labels("ok")  # bound once: each transaction takes them
_FAILED_SECONDS = metrics.LEDGER_SECONDS.labels("failed")
_COLLISIONS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_POSTGRESQL = {"db.system.name": "postgresql"}

# Release the snapshot of the previous statement.
_NEEDS_NO_SNAPSHOT = text("SHOW lock_timeout")

# Take a lock if it is free; the end of the transaction releases it.
_LOCK = text("SELECT pg_try_advisory_xact_lock(:number)")

# Use every array type of the statements once: the first connection of a process looks them all up together.
_ELEMENTS = ("uuid", "text", "bytea", "bigint", "int", "float", "boolean", "timestamptz")
_ARRAYS = text(f"SELECT {', '.join(f'CAST(NULL AS {element}[])' for element in _ELEMENTS)}")

# Do nothing, but over a connection.
_PING = text("SELECT 1")


class AdvisoryLock(IntEnum):
    """Work that only one process does at a time. Any numbers work if all processes use the same ones."""

    MIGRATION = 7_065_011
    CALIBRATION = 7_065_012
    JOBS = 7_065_013
    PAGES = 7_065_014
    TOKENS = 7_065_015  # taken by the function `raise_tokens`
    SERVERS = 7_065_016


class TransactionConflict(Unavailable):
    """PostgreSQL ended this transaction because of a conflict; repeating the transaction will succeed."""


# For transactions that can be repeated.
again_after_collision = tenacity.retry(
    retry=tenacity.retry_if_exception_type(TransactionConflict),
    stop=tenacity.stop_after_attempt(4),
    wait=tenacity.wait_random(0, 0.1),
    reraise=True,
)


class Database:
    """A pool of connections.

    Args:
        url: `postgresql://user:password@host:port/name`, with libpq's parameters of TLS, such as `?sslmode=require`.
        pool_size: connections of one process.
        timeout: maximum duration of a transaction; None sets no limit.
        pooler: `transaction` if a pooler in front of PostgreSQL gives each transaction another connection of the
            server: no state that outlasts a transaction is used then.

    Raises:
        InvalidInput: the URL is invalid.
    """

    def __init__(
        self, url: str, *, pool_size: int = 10, timeout: timedelta | None = _TIMEOUT, pooler: Pooler = "none"
    ) -> None:
        bound = 0.0 if timeout is None else timeout.total_seconds()
        self._pool_size = pool_size
        self._unavailable = False
        self._back_at = -_SETTLEMENTS_FIRST_SECONDS
        try:
            address = make_url(url).set(drivername="postgresql+asyncpg")
        except (exc.ArgumentError, ValueError):  # the latter if the port is not a number
            raise InvalidInput(
                "FOREASK_DATABASE_URL must have the form postgresql://user:password@host:5432/name."
            ) from None
        parameters = connect_arguments(address)  # SQLAlchemy does not know them
        self.engine: AsyncEngine = create_async_engine(
            address.set(query={}),
            pool_size=pool_size,
            max_overflow=0,
            pool_use_lifo=True,  # the connection that was used last has the statements prepared
            pool_timeout=10,
            pool_recycle=1800,
            hide_parameters=True,  # an error is logged, and texts of documents must not be
            json_deserializer=orjson.loads,  # a claim reads one JSON value for each chunk
            connect_args={
                **parameters,
                "connection_class": driver.TypeCachingConnection,
                "timeout": 10,
                "command_timeout": bound + 5 if bound else None,
                **(_SESSION if pooler == "none" else _WITHOUT_SESSION),
            },
        )
        sync = self.engine.sync_engine
        event.listen(sync, "connect", _detect_silence)
        event.listen(sync, "connect", _raise_tokens)
        lend_open_connections(sync)
        if pooler == "none":
            event.listen(sync, "connect", partial(_bound_session, bound))
            plans.follow_statements(sync)
            # A single statement needs no transaction block: its `BEGIN` and `COMMIT` are two of three round trips.
            self._for_one = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        else:
            event.listen(sync, "begin", partial(_bound_transaction, bound))
            self._for_one = self.engine  # the limit applies to the transaction in which it is set

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[AsyncConnection]:
        """Start a transaction: committed at the end of the block, rolled back by an exception.

        Raises:
            TransactionConflict: it conflicted with another transaction; nothing was committed.
            Unavailable: PostgreSQL cannot be reached or was lost. Nothing was committed, unless it was lost during the
                commit; therefore every statement of the ledger can be applied twice.
            Permanent: PostgreSQL cannot store a value, such as a NUL in a text.
        """
        with self._errors():
            async with self.engine.begin() as connection:
                await actors.name_author(connection)
                yield connection

    async def settlements_first(self) -> None:
        """Wait until settlements have had a second after an outage, before claims are made.

        Leases expire during an outage while the paid replies wait in their workers. A claim of that work at once would
        pay for it again.

        Raises:
            Unavailable: PostgreSQL is still unavailable.
        """
        if self._unavailable:
            await self.ping()
        await asyncio.sleep(self._back_at + _SETTLEMENTS_FIRST_SECONDS - time.monotonic())

    async def rows(self, statement: TextClause, parameters: Mapping[str, Any] | None = None) -> Sequence[RowMapping]:
        """Execute one statement in its own transaction, and return its rows.

        If the connection is lost, a statement that only reads is sent again over another connection. A statement that
        changes rows is not, because it may have been executed.

        Raises:
            TransactionConflict, Unavailable, Permanent: as `begin`. PostgreSQL may have committed before it was lost.
        """
        with self._errors():
            # The name of the author ends with its transaction, so that it needs a transaction block.
            engine = self.engine if actors.is_recorded() else self._for_one
            started = time.monotonic()
            try:
                return await _rows(engine, statement, parameters)
            except exc.DBAPIError as error:
                if not (error.connection_invalidated and _only_reads(statement)):
                    raise
                if time.monotonic() - started > _REPEATED_SECONDS:  # the caller has waited long enough
                    raise
            return await _rows(engine, statement, parameters)

    async def warm(self, connections: int = 2) -> None:
        """Open the connections that a process needs first, because opening one takes 20 ms, and far more under load.

        An unavailable ledger is not an error here.
        """
        with suppress(Unavailable), self._errors():
            async with AsyncExitStack() as opened:
                for _ in range(min(connections, self._pool_size)):
                    connection = await opened.enter_async_context(self.engine.connect())
                    await connection.execute(_ARRAYS)

    async def ping(self) -> None:
        """Return when PostgreSQL has answered.

        Raises:
            Unavailable: PostgreSQL cannot be reached.
        """
        await self.rows(_PING)

    def connections(self) -> int:
        """Return the number of connections in use."""
        pool = self.engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    async def aclose(self) -> None:
        await self.engine.dispose()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the driver's errors, record whether PostgreSQL is available, and measure the time."""
        started, seconds = time.perf_counter(), _FAILED_SECONDS
        try:
            with traces.span("transaction", "client", _POSTGRESQL):
                yield
            seconds = _OK_SECONDS
        except _LOST as error:
            self._unavailable = True
            raise _unavailable(error) from error
        except exc.DBAPIError as error:
            _forget_values(error)
            cause = error.orig.__cause__ if error.orig else None
            if isinstance(cause, _COLLISIONS):
                raise TransactionConflict(
                    "another transaction of the ledger (PostgreSQL) conflicted with this one",
                    component="ledger",
                    retry_after=_RETRY_AFTER,
                ) from error
            if error.connection_invalidated or isinstance(cause, _LOST):
                self._unavailable = True
                raise _unavailable(error) from error
            if isinstance(cause, asyncpg.DataError):
                raise Permanent("the ledger (PostgreSQL) cannot store a value") from error
            raise
        else:
            if self._unavailable:
                self._unavailable, self._back_at = False, time.monotonic()
        finally:
            seconds.observe(time.perf_counter() - started)


async def _rows(
    engine: AsyncEngine, statement: TextClause, parameters: Mapping[str, Any] | None
) -> Sequence[RowMapping]:
    async with engine.begin() as connection:
        await actors.name_author(connection)
        return (await connection.execute(statement, parameters)).mappings().all()


def _only_reads(statement: TextClause) -> bool:
    """Return whether a statement changes no rows: PostgreSQL changes rows within a SELECT only after a `WITH`."""
    return statement.text.startswith("SELECT")


@asynccontextmanager
async def begin_alone(engine: AsyncEngine, which: AdvisoryLock) -> AsyncIterator[AsyncConnection]:
    """Start a transaction that holds a lock.

    While another transaction holds the lock, this waits without a transaction. Otherwise both could wait forever: an
    index that the holder builds `CONCURRENTLY` waits for the end of every transaction that has a snapshot at that
    moment, even if it only polls.
    """
    while True:
        async with engine.begin() as connection:
            if await _try_lock(connection, which):
                yield connection
                return
        await asyncio.sleep(_POLL_SECONDS)


async def lock(connection: AsyncConnection, which: AdvisoryLock) -> None:
    """Wait for a lock and hold it until the transaction ends; not for `MIGRATION`, which needs `begin_alone`."""
    while not await _try_lock(connection, which):  # noqa: ASYNC110  another process releases it
        await asyncio.sleep(_POLL_SECONDS)


async def _try_lock(connection: AsyncConnection, which: AdvisoryLock) -> bool:
    """Take a lock until the transaction ends, or return false if another transaction holds it.

    This releases the statement's snapshot, for which an index that is built `CONCURRENTLY` waits. PostgreSQL would keep
    it until the connection's next statement.
    """
    locked: bool = (await connection.execute(_LOCK, {"number": which})).scalar_one()
    await connection.execute(_NEEDS_NO_SNAPSHOT)
    return locked


def _forget_values(error: exc.DBAPIError) -> None:
    """Reduce an error to its kind and its first sentence, which names tables and columns.

    PostgreSQL's details quote rows, and messages about values quote the values. Unexpected errors are logged with their
    tracebacks.
    """
    cause = error.orig.__cause__ if error.orig else None
    if error.orig is None or not isinstance(cause, (asyncpg.PostgresError, asyncpg.InterfaceError)):
        return
    sentence = "a value does not fit" if isinstance(cause, (asyncpg.DataError, ValueError)) else str(cause.args[0])
    cause.args = (sentence,)
    cause.detail = cause.hint = None
    error.args = error.orig.args = (f"{type(cause).__name__}: {sentence}",)


def _unavailable(error: BaseException) -> Unavailable:
    cause = error.orig.__cause__ if isinstance(error, exc.DBAPIError) and error.orig else None
    reason = cause or error
    if isinstance(reason, asyncpg.InsufficientResourcesError):
        # The server's message quotes no row of ours, but names files and roles of the server: only the log gets it.
        log.warning("ledger.answered", kind=type(reason).__name__, words=str(reason)[:300])
    problem = f"is not available: {_reason_of(error, reason)}"
    if isinstance(reason, asyncpg.ClientConfigurationError):  # a parameter of the URL, or a file that it names
        problem = f"cannot be reached with FOREASK_DATABASE_URL: {str(reason).partition(chr(10))[0]}"
    if "rejected SSL" in str(reason):
        problem = "offers no TLS, which sslmode in FOREASK_DATABASE_URL requires"
    if isinstance(reason, asyncpg.TooManyConnectionsError):
        problem = "has no connection left: raise its max_connections, or let processes hold fewer"
    return Unavailable(f"the ledger (PostgreSQL) {problem}", component="ledger", retry_after=_RETRY_AFTER)


def _reason_of(error: BaseException, reason: BaseException) -> str:
    """Return the reason of a failed connection, else the kind of the error: its words may quote rows."""
    kind = type(reason).__name__
    if isinstance(reason, asyncpg.PostgresError):
        return kind
    problem = problem_of(error)
    return f"{problem} ({kind})" if problem else kind


def _detect_silence(connection: Any, _: object) -> None:
    """Close a new connection as soon as its peer is silent."""
    peer = connection.driver_connection._transport.get_extra_info("socket")  # noqa: SLF001 - no public way
    if peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _DETECT_SILENCE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _raise_tokens(connection: Any, _: object) -> None:
    connection.run_async(lambda opened: opened.execute(_RAISE_TOKENS))


def _bound_session(seconds: float, connection: Any, _: object) -> None:
    """Limit the duration of the transactions of a new connection."""
    cursor = connection.cursor()
    cursor.execute(_SET_BOUNDS, (_interval(seconds), False))
    cursor.close()
    connection.commit()


def _bound_transaction(seconds: float, connection: Connection) -> None:
    """Limit the duration of the starting transaction."""
    connection.exec_driver_sql(_SET_BOUNDS, (_interval(seconds), True))


def _interval(seconds: float) -> str:
    return f"{seconds:g}s"
