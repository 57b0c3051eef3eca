"""The connections to PostgreSQL, advisory locks, and the conversion of PostgreSQL's errors."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from datetime import timedelta
from enum import IntEnum
from typing import Any, Literal

import asyncpg
import orjson
import structlog
import tenacity

from shared.domain.errors import Permanent, Unavailable
from shared.ledger.postgres import actors, plans
from shared.ledger.postgres.addresses import connect_arguments
from shared.ledger.postgres.connections import Connection, DriverConnection, Row
from shared.ledger.postgres.pool import Pool
from shared.ledger.postgres.statements import Statement
from shared.process.identity import connection_name
from shared.process.network import problem_of
from shared.process.telemetry import metrics, traces

Pooler = Literal["none", "transaction"]
_RETRY_AFTER = timedelta(seconds=2)
_TIMEOUT = timedelta(seconds=20)
_SETTLEMENTS_FIRST_SECONDS = 1.0  # workers retry settlements every half second while the ledger is unavailable
_REPEATED_SECONDS = 3.0  # a read whose connection was lost within this time is sent again
_POLL_SECONDS = 0.1  # between two polls of an advisory lock
_LOST = (
    asyncpg.InterfaceError,
    asyncpg.PostgresConnectionError,
    asyncpg.CannotConnectNowError,
    asyncpg.AdminShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.InsufficientResourcesError,  # no disk, no memory, no connection
    asyncpg.QueryCanceledError,  # the server's `statement_timeout`, or a person
    asyncpg.LockNotAvailableError,  # the server's `lock_timeout`
    asyncpg.ReadOnlySQLTransactionError,  # a standby, while another becomes the primary
    OSError,  # also `TimeoutError`: no reply in time, or no connection of the pool was free
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
# Parameters are texts, and results values. The binary form of `jsonb` starts with its version.
_JSON: Mapping[str, tuple[Callable[[str], bytes], Callable[[bytes], Any]]] = {
    "json": (str.encode, orjson.loads),
    "jsonb": (lambda text: b"\x01" + text.encode(), lambda data: orjson.loads(data[1:])),
}
# A prepared statement belongs to a connection of the server. Without a cache the driver uses unnamed statements, which
# are parsed and planned again on each execution.
_WITHOUT_SESSION = {"statement_cache_size": 0}
_SESSION = {"statement_cache_size": 1_000, "max_cached_statement_lifetime": 0}
# Close a connection whose peer acknowledges nothing for five seconds: its machine or the network failed without a
# reset. Otherwise requests would wait for 25 seconds, and the leases of paid work would expire meanwhile. An idle
# connection is probed, so that it is closed before its next use. Systems without an option use their own times.
_DETECT_SILENCE = {
    "TCP_USER_TIMEOUT": 5_000,  # milliseconds; of sent data, and of probes
    "TCP_KEEPIDLE": 3,  # seconds without data before the first probe
    "TCP_KEEPINTVL": 1,
    "TCP_KEEPCNT": 3,
}
_ENDS = ("FATAL", "PANIC")  # severities of errors after which PostgreSQL closes the connection
_REJECTED = (asyncpg.InvalidAuthorizationSpecificationError, asyncpg.InvalidCatalogNameError)
log = structlog.get_logger()
_OK_SECONDS = metrics.LEDGER_SECONDS.labels("ok")  # bound once: each transaction takes them
_FAILED_SECONDS = metrics.LEDGER_SECONDS.labels("failed")
_COLLISIONS = (asyncpg.DeadlockDetectedError, asyncpg.SerializationError)
_POSTGRESQL = {"db.system.name": "postgresql"}

# Release the snapshot of the previous statement.
_NEEDS_NO_SNAPSHOT = Statement("SHOW lock_timeout")

# Take a lock if it is free; the end of the transaction releases it.
_LOCK = Statement("SELECT pg_try_advisory_xact_lock(:number)")

# Use every array type of the statements once: the first connection of a process looks them all up together.
_ELEMENTS = ("uuid", "text", "bytea", "bigint", "int", "float", "boolean", "timestamptz")
_ARRAYS = Statement(f"SELECT {', '.join(f'CAST(NULL AS {element}[])' for element in _ELEMENTS)}")

# Do nothing, but over a connection.
_PING = Statement("SELECT 1")


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


# For transactions that can be repeated. They are repeated for some seconds: the replacement of a document whose chunks
# were being settled collided in 28 of 68 attempts.
again_after_collision = tenacity.retry(
    retry=tenacity.retry_if_exception_type(TransactionConflict),
    stop=tenacity.stop_all(tenacity.stop_after_attempt(4), tenacity.stop_after_delay(3)),
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
        self._bound = 0.0 if timeout is None else timeout.total_seconds()
        self._keeps_session = pooler == "none"
        self._unavailable = False
        self._back_at = -_SETTLEMENTS_FIRST_SECONDS
        self._arguments = {
            **connect_arguments(url),
            "connection_class": DriverConnection,
            "record_class": Row,
            "timeout": 10,
            "command_timeout": self._bound + 5 if self._bound else None,
            **(_SESSION if self._keeps_session else _WITHOUT_SESSION),
            # for `pg_stat_activity` and the server's log; poolers pass it on
            "server_settings": {
                "application_name": connection_name(),
                **(plans.EACH_TIME if self._keeps_session else {}),
            },
        }
        self.pool = Pool(self._open, pool_size)

    @asynccontextmanager
    async def begin(self) -> AsyncIterator[Connection]:
        """Start a transaction: committed at the end of the block, rolled back by an exception.

        Raises:
            TransactionConflict: it conflicted with another transaction; nothing was committed.
            Unavailable: PostgreSQL cannot be reached or was lost. Nothing was committed, unless it was lost during the
                commit; therefore every statement of the ledger can be applied twice.
            Permanent: PostgreSQL cannot store a value, such as a NUL in a text.
        """
        with self._errors():
            async with self.transaction() as connection:
                await actors.name_author(connection)
                yield connection

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Connection]:
        """Start a transaction without an author, and without the conversion of errors."""
        async with self.pool.lend() as connection:
            await connection.begin()
            try:
                if not self._keeps_session:
                    await connection.execute_sql(_SET_BOUNDS, _interval(self._bound), True)  # noqa: FBT003
                yield connection
            except Exception:
                with suppress(Exception):  # a connection that was lost; its end is a rollback
                    await connection.rollback()
                raise
            await connection.commit()

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

    async def rows(self, statement: Statement, parameters: Mapping[str, Any] | None = None) -> list[Row]:
        """Execute one statement in its own transaction, and return its rows.

        If the connection is lost, a statement that only reads is sent again over another connection. A statement that
        changes rows is not, because it may have been executed.

        Raises:
            TransactionConflict, Unavailable, Permanent: as `begin`. PostgreSQL may have committed before it was lost.
        """
        with self._errors():
            started = time.monotonic()
            try:
                return await self._rows(statement, parameters)
            except (asyncpg.PostgresError, asyncpg.InterfaceError, OSError) as error:
                if not (_is_lost(error) and _only_reads(statement)):
                    raise
                if time.monotonic() - started > _REPEATED_SECONDS:  # the caller has waited long enough
                    raise
            return await self._rows(statement, parameters)

    async def _rows(self, statement: Statement, parameters: Mapping[str, Any] | None) -> list[Row]:
        # The name of the author, and without a session the limits, end with a transaction block. Otherwise a single
        # statement is sent without one: `BEGIN` and `COMMIT` would be two of three round trips.
        if actors.is_recorded() or not self._keeps_session:
            async with self.transaction() as connection:
                await actors.name_author(connection)
                return (await connection.execute(statement, parameters)).all()
        async with self.pool.lend() as connection:
            return (await connection.execute(statement, parameters)).all()

    async def warm(self, connections: int = 2) -> None:
        """Open the connections that a process needs first, because opening one takes 20 ms, and far more under load.

        An unavailable ledger is not an error here.
        """
        with suppress(Unavailable), self._errors():
            async with AsyncExitStack() as opened:
                for _ in range(min(connections, self.pool.size)):
                    connection = await opened.enter_async_context(self.pool.lend())
                    await connection.execute(_ARRAYS)

    async def ping(self) -> None:
        """Return when PostgreSQL has answered.

        Raises:
            Unavailable: PostgreSQL cannot be reached.
        """
        await self.rows(_PING)

    def connections(self) -> int:
        """Return the number of connections in use."""
        return self.pool.lent

    async def aclose(self) -> None:
        await self.pool.aclose()

    async def open_driver(self) -> DriverConnection:
        """Open a connection outside of the pool.

        Raises:
            OSError, asyncpg.PostgresError, asyncpg.InterfaceError: it could not be opened.
        """
        driver: DriverConnection = await asyncpg.connect(**self._arguments)
        try:
            await self._prepare(driver)
        except BaseException:
            driver.terminate()
            raise
        return driver

    async def _prepare(self, driver: DriverConnection) -> None:
        _detect_silence(driver)
        await driver.execute(_RAISE_TOKENS)
        for kind, (encode, decode) in _JSON.items():
            await driver.set_type_codec(kind, schema="pg_catalog", format="binary", encoder=encode, decoder=decode)
        if self._keeps_session:
            await driver.fetch(_SET_BOUNDS, _interval(self._bound), False)  # noqa: FBT003

    async def _open(self) -> Connection:
        return Connection(await self.open_driver(), keeps_plans=self._keeps_session)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the driver's errors, record whether PostgreSQL is available, and measure the time."""
        started, seconds = time.perf_counter(), _FAILED_SECONDS
        try:
            with traces.span("transaction", "client", _POSTGRESQL):
                yield
            seconds = _OK_SECONDS
        except (asyncpg.PostgresError, *_LOST) as error:
            _forget_values(error)
            converted = _converted(error)
            self._unavailable |= isinstance(converted, Unavailable) and not isinstance(converted, TransactionConflict)
            if converted is None:
                raise
            raise converted from error
        else:
            if self._unavailable:
                self._unavailable, self._back_at = False, time.monotonic()
        finally:
            seconds.observe(time.perf_counter() - started)


def _converted(error: BaseException) -> Exception | None:
    """Return the error of the ledger for an error of the driver; None for a mistake in a statement."""
    if isinstance(error, _COLLISIONS):
        return TransactionConflict(
            "another transaction of the ledger (PostgreSQL) conflicted with this one",
            component="ledger",
            retry_after=_RETRY_AFTER,
        )
    if isinstance(error, _LOST) or _is_lost(error):
        return _unavailable(error)
    if isinstance(error, asyncpg.DataError):
        return Permanent("the ledger (PostgreSQL) cannot store a value")
    return None


def _is_lost(error: BaseException) -> bool:
    """Return whether an error means that the connection was lost, and not that PostgreSQL has refused something."""
    if isinstance(error, asyncpg.PostgresError) and not isinstance(error, asyncpg.PostgresConnectionError):
        return getattr(error, "severity_en", None) in _ENDS and not isinstance(error, _REJECTED)
    return isinstance(error, (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, OSError))


def _only_reads(statement: Statement) -> bool:
    """Return whether a statement changes no rows: PostgreSQL changes rows within a SELECT only after a `WITH`."""
    return statement.text.startswith("SELECT")


@asynccontextmanager
async def begin_alone(database: Database, which: AdvisoryLock) -> AsyncIterator[Connection]:
    """Start a transaction that holds a lock.

    While another transaction holds the lock, this waits without a transaction. Otherwise both could wait forever: an
    index that the holder builds `CONCURRENTLY` waits for the end of every transaction that has a snapshot at that
    moment, even if it only polls.
    """
    while True:
        async with database.transaction() as connection:
            if await _try_lock(connection, which):
                yield connection
                return
        await asyncio.sleep(_POLL_SECONDS)


async def lock(connection: Connection, which: AdvisoryLock) -> None:
    """Wait for a lock and hold it until the transaction ends; not for `MIGRATION`, which needs `begin_alone`."""
    while not await _try_lock(connection, which):  # noqa: ASYNC110  another process releases it
        await asyncio.sleep(_POLL_SECONDS)


async def _try_lock(connection: Connection, which: AdvisoryLock) -> bool:
    """Take a lock until the transaction ends, or return false if another transaction holds it.

    This releases the statement's snapshot, for which an index that is built `CONCURRENTLY` waits. PostgreSQL would keep
    it until the connection's next statement.
    """
    locked: bool = (await connection.execute(_LOCK, {"number": which})).scalar_one()
    await connection.execute(_NEEDS_NO_SNAPSHOT)
    return locked


def _forget_values(error: BaseException) -> None:
    """Reduce an error of PostgreSQL to its first sentence, which names tables and columns.

    PostgreSQL's details quote rows, and messages about values quote the values. Unexpected errors are logged with their
    tracebacks.
    """
    if isinstance(error, asyncpg.PostgresError):
        error.args = ("a value does not fit" if isinstance(error, asyncpg.DataError) else str(error.args[0]),)
        error.detail = error.hint = None


def _unavailable(error: BaseException) -> Unavailable:
    if isinstance(error, asyncpg.InsufficientResourcesError):
        # The server's message quotes no row of ours, but names files and roles of the server: only the log gets it.
        log.warning("ledger.answered", kind=type(error).__name__, words=str(error)[:300])
    problem = f"is not available: {_reason_of(error)}"
    if isinstance(error, asyncpg.ClientConfigurationError):  # a parameter of the URL, or a file that it names
        problem = f"cannot be reached with FOREASK_DATABASE_URL: {str(error).partition(chr(10))[0]}"
    if "rejected SSL" in str(error):
        problem = "offers no TLS, which sslmode in FOREASK_DATABASE_URL requires"
    if isinstance(error, asyncpg.TooManyConnectionsError):
        problem = "has no connection left: raise its max_connections, or let processes hold fewer"
    return Unavailable(f"the ledger (PostgreSQL) {problem}", component="ledger", retry_after=_RETRY_AFTER)


def _reason_of(error: BaseException) -> str:
    """Return the reason of a failed connection, else the kind of the error: its words may quote rows."""
    kind = type(error).__name__
    if isinstance(error, asyncpg.PostgresError):
        return kind
    problem = problem_of(error)
    return f"{problem} ({kind})" if problem else kind


def _detect_silence(driver: DriverConnection) -> None:
    """Close a connection as soon as its peer is silent."""
    peer = driver._transport.get_extra_info("socket")  # noqa: SLF001 - no public way
    if peer.family not in (socket.AF_INET, socket.AF_INET6):
        return
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in _DETECT_SILENCE.items():
        if hasattr(socket, name):
            peer.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def _interval(seconds: float) -> str:
    return f"{seconds:g}s"
