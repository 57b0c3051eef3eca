"""The rows of a table or query of PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import Any, Self

import asyncpg
import orjson

from features.sources.errors import not_found, too_large, too_much_space
from features.sources.hosts import Hosts
from features.sources.keys import problem_of, substitute_key, too_long
from features.sources.named_readers import MOST_BYTES, oversized, readers_in
from features.sources.postgres.connection import DatabaseConnection
from features.sources.postgres.options import MEDIA_TYPES, PostgresOptions
from features.sources.postgres.statements import TOO_LONG, PostgresStatements, statements_of
from features.sources.source import Entry, Item, Source
from shared.domain.corpus.document_fields import MOST_METADATA_BYTES
from shared.domain.errors import InvalidInput, Misconfigured, Unreadable
from shared.settings.temporary_bytes import TEMPORARY_BYTES

_PAGE = 1_000  # rows that the server sends at once
_SPOOL_BYTES = 16 << 20  # of a listing in memory; a longer one is stored in a temporary file
_ROWS_OF_KEY = 2  # that are received: a second one is an error
_BYTES_IN_UTF8 = 2  # at most, for each byte in the encoding of the database, in which contents are measured
_NO_ID = "(no id)"  # key of the rows without one
# Errors of a text that is not a value of its type.
_NO_VALUE = (
    asyncpg.DatetimeFieldOverflowError,
    asyncpg.InvalidDatetimeFormatError,
    asyncpg.InvalidTextRepresentationError,
    asyncpg.NumericValueOutOfRangeError,
)
_DUPLICATE = "Several rows have this id: choose a column with unique values."


class PostgresSource(Source):
    """The rows of a table or query.

    A listing is one statement, which sees one state of the database and sorts it once: a statement for each page would
    sort all rows each time. It is received completely before its first entry is returned, so that no transaction stays
    open while a sync works: an open one would keep the server from removing old rows.

    A listing that continues after a key sees a later state. It is safe, because an id is a key for ever: a row that
    exists from the start of the first part to the end of the second one is in one of them. A row that was inserted or
    deleted meanwhile may be in the listing or not, and the next listing decides. Therefore a row that is missing from
    two complete listings did not exist at some time during each of them.

    Args:
        uri: `postgresql://host:port/database`, without a user name or password.
        options: the table or query and its columns.
        secret: `password`, and optionally `username`, `ca` and `sslmode`.
        hosts: hosts that may be reached.
        temporary_bytes: maximum size of a listing on disk.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    def __init__(
        self,
        uri: str,
        options: PostgresOptions,
        secret: Mapping[str, str],
        hosts: Hosts,
        temporary_bytes: int = TEMPORARY_BYTES,
    ) -> None:
        self._options = options
        self._temporary_bytes = temporary_bytes
        self._connection = DatabaseConnection(uri, options, secret, hosts)
        self._statements: PostgresStatements | None = None
        self._alone = asyncio.Lock()  # a connection executes one statement at a time

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        with _Spool(self._temporary_bytes) as spool:
            async with self._reading() as (connection, statements):
                async for entry in _entries(self._listed(connection, statements, after), after):
                    spool.add(entry)
            for entry in spool:
                yield entry

    async def _listed(
        self, connection: Any, statements: PostgresStatements, after: str
    ) -> AsyncIterator[Mapping[str, Any]]:
        cursor = await connection.cursor(statements.listing, after)
        readers_bytes = _PAGE * MOST_BYTES * _BYTES_IN_UTF8 if self._options.readers_column else 0
        self._connection.expect(readers_bytes)
        while rows := await cursor.fetch(_PAGE):
            for row in rows:
                yield row
            self._connection.expect(readers_bytes)

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        row = await self._row(entry.key, max_bytes)
        if row is None:
            raise not_found(entry.key)
        if row["size_bytes"] > max_bytes:
            raise too_large(row["size_bytes"], max_bytes)
        return Item(
            (row["content"] or "").encode(),
            row["version"],
            filename=None,
            title=row["title"],
            media_type=MEDIA_TYPES[self._options.format],
            metadata=_metadata(row["metadata"]),
            readable_by=_readers(row),
        )

    async def find(self, key: str) -> Entry | None:
        try:
            row = await self._row(key, 0)
            return None if row is None else Entry(key, row["version"], row["size_bytes"], readable_by=_readers(row))
        except Unreadable as error:
            return Entry(key, "", refused=error.message)

    async def aclose(self) -> None:
        await self._connection.aclose()

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[tuple[Any, PostgresStatements]]:
        """Start a transaction, and return its connection and the statements for it."""
        async with self._alone, self._connection.reading() as connection:
            if self._statements is None:
                self._statements = await statements_of(connection, self._options)
            yield connection, self._statements

    async def _row(self, key: str, max_bytes: int) -> Mapping[str, Any] | None:
        """Return the row of a key, with its content if that has at most `max_bytes`; None if there is none.

        Raises:
            Unreadable: several rows have the key.
            Misconfigured: the row cannot be computed.
        """
        if not key or problem_of(key):
            return None
        try:
            async with self._reading() as (connection, statements):
                self._connection.expect(_ROWS_OF_KEY * _BYTES_IN_UTF8 * max_bytes)
                rows = await connection.fetch(statements.row, key, max_bytes, *self._options.metadata)
        except Misconfigured as error:
            if _is_about_a_value(error) and not await self._is_value(key):
                return None
            raise
        if len(rows) > 1:
            raise Unreadable(_DUPLICATE)
        return rows[0] if rows else None

    async def _is_value(self, key: str) -> bool:
        """Return whether a key is a value of the id's type. Otherwise no row can have it."""
        try:
            async with self._reading() as (connection, statements):
                await connection.fetch(statements.value, key)
        except Misconfigured as error:
            if _is_about_a_value(error):
                return False
            raise
        return True


def _is_about_a_value(error: Misconfigured) -> bool:
    """Return whether a text is not a value of its type: a key, or a text that a row computes with."""
    return isinstance(error.__cause__, _NO_VALUE)


async def _entries(rows: AsyncIterable[Mapping[str, Any]], after: str) -> AsyncIterator[Entry]:
    """Yield one entry for each key of a listing that follows `after`, in the order of the keys.

    An id that is too long for a key is replaced. It is left out if an id with the same first thousand bytes precedes it
    and its replacement does not follow.

    Args:
        rows: the rows without an id, and then the rows in the order of their ids.
        after: the key that the entries follow.
    """
    previous = None
    async for entry in _entries_of_rows(rows):
        if previous is not None and entry.key == previous.key:
            previous = replace(previous, refused=previous.refused or _DUPLICATE)
            continue
        if previous is not None and previous.key.encode() > after.encode():
            yield previous
            after = previous.key
        previous = entry
    if previous is not None and previous.key.encode() > after.encode():
        yield previous


async def _entries_of_rows(rows: AsyncIterable[Mapping[str, Any]]) -> AsyncIterator[Entry]:
    """Yield an entry for each row with an id, and one for all rows without an id."""
    without_id = 0
    async for row in rows:
        if not row["id"]:
            without_id += 1
            continue
        if without_id and row["id"].encode() >= _NO_ID.encode():
            yield _refused_rows(without_id)
            without_id = 0
        yield _entry(row)
    if without_id:
        yield _refused_rows(without_id)


def _metadata(text: str | None) -> Mapping[str, Any]:
    """Return the metadata of a row; raise Unreadable if it is too large, or JSON has no such value."""
    if text is None:
        raise Unreadable(f"Metadata may have at most {MOST_METADATA_BYTES:,} bytes as JSON.")
    try:
        values = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise Unreadable(f"The metadata cannot be read: {error.msg}.") from error
    return {name: value for name, value in values.items() if value is not None}


def _entry(row: Mapping[str, Any]) -> Entry:
    if problem := too_long(row["id_bytes"]) or problem_of(row["id"]):
        return Entry(substitute_key(row["id"], digest=row["id_hash"]), row["version"], refused=problem)
    try:
        return Entry(row["id"], row["version"], row["size_bytes"], readable_by=_readers(row))
    except Unreadable as error:
        return Entry(row["id"], row["version"], refused=error.message)


def _readers(row: Mapping[str, Any]) -> tuple[str, ...] | None:
    """Return who reads the document of a row; None if no column names them.

    Raises:
        Unreadable: the column does not name readers.
    """
    if row["readers"] is None:
        return None
    try:
        if row["readers"] == TOO_LONG:
            raise oversized()
        return readers_in(orjson.loads(row["readers"]))
    except InvalidInput as error:
        raise Unreadable(f"The column of the readers cannot be used: {error.message}") from error
    except orjson.JSONDecodeError as error:  # JSON of PostgreSQL may have numbers that are too large
        raise Unreadable(f"The column of the readers cannot be read: {error.msg}.") from error


def _refused_rows(count: int) -> Entry:
    return Entry(
        _NO_ID, str(count), refused=f"{count:,} rows have no id: give each row one, or filter them by a query."
    )


class _Spool:
    """Entries in their order: in memory, or in a temporary file if they are many.

    Args:
        most_bytes: maximum size of the file.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._file = SpooledTemporaryFile(_SPOOL_BYTES, prefix="foreask-rows-")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, entry: Entry) -> None:
        """Add an entry; raise Misconfigured if the file would be too large."""
        fields = (entry.key, entry.version, entry.size_bytes, entry.refused, entry.readable_by)
        self._file.write(orjson.dumps(fields) + b"\n")
        if self._file.tell() > self._most_bytes:
            raise too_much_space("The listing needs", self._most_bytes)

    def __iter__(self) -> Iterator[Entry]:
        self._file.seek(0)
        return (_stored(*orjson.loads(line)) for line in self._file)


def _stored(
    key: str, version: str, size_bytes: int | None, refused: str | None, readers: Sequence[str] | None
) -> Entry:
    return Entry(key, version, size_bytes, refused, None if readers is None else tuple(readers))
