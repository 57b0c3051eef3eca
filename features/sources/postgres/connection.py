"""The connection to a database of rows. It needs the right SELECT only."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, get_args

import asyncpg

from features.sources.errors import COMPONENT
from features.sources.hosts import Hosts
from features.sources.postgres.bounded import REPLY_BYTES, Allowance, CountingLoop
from features.sources.postgres.options import DatabaseAddress, PostgresOptions, TlsMode
from shared.domain.errors import InvalidInput, Misconfigured, Unavailable
from shared.process.network import problem_of
from shared.process.network.certificates import new_ssl_context

_CONNECT_SECONDS = 10
_SESSION = Path(__file__).with_name("session.sql").read_text(encoding="utf-8")
_NO_TLS = "rejected SSL upgrade"  # words of asyncpg, whose error has no class of its own
# Errors that every attempt would get, a class before its base. The sentences of the server are about names; a sentence
# about values would quote a row.
_PROBLEMS = (
    (
        asyncpg.InvalidAuthorizationSpecificationError,
        "The server {host} rejects the login: check the secret of the source, or its option user.",
    ),
    (asyncpg.InvalidCatalogNameError, "The server {host} has no database {database}."),
    (asyncpg.InsufficientPrivilegeError, "The user of the source needs the right SELECT: {sentence}."),
    (
        asyncpg.UndefinedTableError,
        "In the database {database} {sentence}. The option schema names the schema of a table.",
    ),
    (asyncpg.ReadOnlySQLTransactionError, "The query must only read: {sentence}."),
    (asyncpg.FeatureNotSupportedError, "The query must be a single SELECT: {sentence}."),
    (asyncpg.SyntaxOrAccessError, "The database {database} rejects the statement: {sentence}."),
    (asyncpg.DataError, "The database {database} cannot compute a value of a row: {kind}."),
)
_FIELDS = {"username", "password", "ca", "sslmode"}
_MODES: tuple[TlsMode, ...] = get_args(TlsMode)  # each is safer than the one before


class DatabaseConnection:
    """One connection to a database, which is opened by its first use and again after a loss.

    A transaction sets its settings itself, and no statement is prepared for longer, so that poolers can be used.

    Args:
        uri: `postgresql://host:port/database`.
        options: user, TLS and timeout.
        secret: `password`, and optionally `username`, `ca`, the certificates of the authority as PEM, and `sslmode`,
            the least safe mode in which the password may be sent.
        hosts: hosts that may be reached.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    def __init__(self, uri: str, options: PostgresOptions, secret: Mapping[str, str], hosts: Hosts) -> None:
        self._hosts = hosts
        self._address = DatabaseAddress.parse(uri)
        self._timeout_seconds = options.timeout_seconds
        self._user, self._password = secret.get("username", options.user), secret.get("password", "")
        if self._user is None or secret.keys() - _FIELDS:
            raise InvalidInput(
                "The secret of a table has the fields username and password, and optionally ca (certificates as PEM)"
                " and sslmode.",
                field="secret",
            )
        if secret:
            _require_safe(options.sslmode, secret.get("sslmode", _MODES[-1]))
        self._tls = _tls(options.sslmode, secret.get("ca"), self._address.host)
        self._connection: Any = None
        self._allowance = Allowance()

    def expect(self, content_bytes: int = 0) -> None:
        """Expect the reply of the next statement, which may have contents of this size."""
        self._allowance.start(content_bytes)

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[Any]:
        """Start a transaction that cannot write. All its statements see the same state of the database.

        Raises:
            Misconfigured: the server refuses the login or a statement, or sends more than expected.
            Unavailable: the server cannot be reached, or is too slow.
        """
        self.expect()
        try:
            with self._errors():
                connection = await self._connected()
                async with connection.transaction(isolation="repeatable_read", readonly=True):
                    await connection.execute(_SESSION.format(timeout_milliseconds=self._timeout_seconds * 1_000))
                    yield connection
        except Unavailable:
            await self.aclose()  # asyncpg may not have noticed the loss yet
            raise

    async def aclose(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.terminate()  # a clean end would wait for the server

    async def _connected(self) -> Any:
        if self._connection is None or self._connection.is_closed():
            # Every argument is given, because asyncpg takes missing ones from PG* variables and files of the user.
            hosts = await self._hosts.addresses(self._address.host, self._address.port)
            self._connection = await asyncpg.connect(
                host=hosts,
                port=[self._address.port] * len(hosts),
                database=self._address.database,
                user=self._user,
                password=self._password,
                ssl=self._tls,
                direct_tls=False,
                target_session_attrs="any",
                krbsrvname="postgres",
                gsslib="gssapi",
                server_settings={"application_name": "foreask"},
                loop=CountingLoop(self._allowance),
                statement_cache_size=0,
                timeout=_CONNECT_SECONDS,
                command_timeout=self._timeout_seconds + _CONNECT_SECONDS,
            )
        return self._connection

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert the errors of asyncpg."""
        try:
            with self._too_much():
                yield
        except ssl.SSLCertVerificationError as error:
            raise _wrong(
                f"The certificate of {self._address.host} is not valid: {error.verify_message}. Add its authority to"
                " the secret as ca or to FOREASK_CA_FILE, or set sslmode=require in the options and the secret to"
                " encrypt without checking the server."
            ) from error
        except asyncpg.QueryCanceledError as error:
            raise self._unavailable(
                f"did not answer within {self._timeout_seconds} seconds: raise timeout_seconds, or add an index"
            ) from error
        except asyncpg.PostgresError as error:
            if problem := self._problem(error):
                raise _wrong(problem) from error
            raise self._unavailable(f"cannot be read: {type(error).__name__}") from None
        except (asyncpg.InterfaceError, asyncpg.InternalClientError, OSError, TimeoutError) as error:
            if _NO_TLS in str(error):
                raise _wrong(
                    f"The server {self._address.host} offers no TLS: set sslmode=disable in the options and the secret"
                    " if you trust its network."
                ) from error
            raise self._unavailable(f"cannot be reached: {problem_of(error) or type(error).__name__}") from error

    @contextmanager
    def _too_much(self) -> Iterator[None]:
        """Convert the loss of a connection that received too many bytes."""
        try:
            yield
        except (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError) as error:
            if not self._allowance.is_exceeded:
                raise
            raise _wrong(
                f"The server {self._address.host} sends more than the {REPLY_BYTES:,} bytes that a reply without"
                " contents may have, or more than a content may have."
            ) from error

    def _problem(self, error: asyncpg.PostgresError) -> str | None:
        """Return the problem that an operator must solve; None if another attempt may succeed."""
        problem = next((problem for kind, problem in _PROBLEMS if isinstance(error, kind)), None)
        return problem and problem.format(
            host=self._address.host,
            database=self._address.database,
            sentence=error.args[0],
            kind=type(error).__name__,
        )

    def _unavailable(self, problem: str) -> Unavailable:
        return Unavailable(f"The server {self._address.host} {problem}.", component=COMPONENT)


def _wrong(message: str) -> Misconfigured:
    return Misconfigured(message, component=COMPONENT)


def _require_safe(mode: TlsMode, least: str) -> None:
    """Check that a source sends the operator's password only as safely as the secret demands.

    Raises:
        InvalidInput: the mode is less safe, or the secret names no mode.
    """
    if least not in _MODES:
        raise InvalidInput(f"The field sslmode of the secret is one of {', '.join(_MODES)}.", field="secret")
    if _MODES.index(mode) < _MODES.index(least):
        raise InvalidInput(
            f"The secret may be used with sslmode={least} or a safer mode, and not with sslmode={mode}: ask the"
            f' operator to add the field "sslmode": "{mode}" to the secret.',
            field="options.sslmode",
        )


def _tls(mode: TlsMode, ca: str | None, host: str) -> ssl.SSLContext | bool:
    """Return the settings of TLS; False: none. There is no mode that falls back to an unencrypted connection."""
    if mode == "disable":
        return False
    try:
        context = new_ssl_context() if ca is None else ssl.create_default_context(cadata=ca)
    except (ssl.SSLError, ValueError):
        raise InvalidInput("The field ca of the secret does not contain certificates as PEM.", field="secret") from None
    context.check_hostname = mode == "verify-full"
    if mode == "require":
        context.verify_mode = ssl.CERT_NONE
    context.wrap_bio = partial(_wrap_named, context.wrap_bio, host)  # type: ignore[method-assign]
    return context


def _wrap_named(wrap: Callable[..., ssl.SSLObject], host: str, *arguments: Any, **options: Any) -> ssl.SSLObject:
    """Encrypt a connection to a host's address: its certificate has the name, and asyncpg knows the address only."""
    return wrap(*arguments, **options | {"server_hostname": host})
