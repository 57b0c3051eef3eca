"""The rows of a table or query of PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from tempfile import SpooledTemporaryFile
from typing import Any, Self

import asyncpg
import orjson

from shared.domain.errors import NotFound, TooLarge, Unreadable
from shared.sources.keys import TOO_LONG, is_too_long, shortened
from shared.sources.source import Entry, Item, Source
from shared.sources.table.connection import DatabaseConnection
from shared.sources.table.options import MEDIA_TYPES, TableOptions
from shared.sources.table.statements import TableStatements, statements_of

_PAGE = 1_000  # rows that the server sends at once
_SPOOL_BYTES = 16 << 20  # of a listing in memory; a longer one is stored in a temporary file
_NO_ID = "(no id)"  # key of the rows without one
# Errors of a key that is not a value of the id's type.
_NO_VALUE = (
    asyncpg.DatetimeFieldOverflowError,
    asyncpg.InvalidDatetimeFormatError,
    asyncpg.InvalidTextRepresentationError,
    asyncpg.NumericValueOutOfRangeError,
)
_DUPLICATE = "Several rows have this id: choose a column with unique values."


class TableSource(Source):
    """The rows of a table or query.

    A listing is one statement, which sees one state of the database. It is received completely before its first entry is
    returned, so that no transaction stays open while a sync works: an open one would keep the server from removing old
    rows. A listing that continues after a key sees a later state. A row that was inserted meanwhile in front of the key
    is then found by the next sync. A row in front of the key that was deleted meanwhile is still part of this listing,
    and of none afterwards. A row that exists all the time is part of every listing, so it is never missing from two
    complete listings.

    Args:
        uri: `postgresql://host:port/database`, without a user name or password.
        options: the table or query and its columns.
        secret: `password`, and optionally `username` and `ca`.

    Raises:
        InvalidInput: the address or the secret cannot be used.
    """

    def __init__(self, uri: str, options: TableOptions, secret: Mapping[str, str]) -> None:
        self._options = options
        self._connection = DatabaseConnection(uri, options, secret)
        self._statements: TableStatements | None = None
        self._alone = asyncio.Lock()  # a connection executes one statement at a time

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        with _Spool() as spool:
            async with self._reading() as (connection, statements):
                rows = connection.cursor(statements.listing, after, prefetch=_PAGE)
                async for entry in _entries(rows, after):
                    spool.add(entry)
            for entry in spool:
                yield entry

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        row = await self._row(entry.key, max_bytes)
        if row is None:
            raise NotFound("The row does not exist any more.")
        if row["size_bytes"] > max_bytes:
            raise TooLarge(f"The row has {row['size_bytes']:,} bytes of text; {max_bytes:,} are allowed.")
        metadata = {name: value for name, value in orjson.loads(row["metadata"]).items() if value is not None}
        return Item(
            (row["content"] or "").encode(),
            row["version"],
            filename=None,
            title=row["title"],
            media_type=MEDIA_TYPES[self._options.format],
            metadata=metadata,
        )

    async def find(self, key: str) -> Entry | None:
        try:
            row = await self._row(key, 0)
        except Unreadable as error:
            return Entry(key, "", refused=error.message)
        return row and Entry(key, row["version"], row["size_bytes"])

    async def aclose(self) -> None:
        await self._connection.aclose()

    @asynccontextmanager
    async def _reading(self) -> AsyncGenerator[tuple[Any, TableStatements]]:
        """Start a transaction, and return its connection and the statements for it."""
        async with self._alone, self._connection.reading() as connection:
            if self._statements is None:
                self._statements = await statements_of(connection, self._options)
            yield connection, self._statements

    async def _row(self, key: str, max_bytes: int) -> Mapping[str, Any] | None:
        """Return the row of a key, with its content if that has at most `max_bytes`; None if there is none.

        Raises:
            Unreadable: several rows have the key.
        """
        if "\0" in key:
            return None
        async with self._reading() as (connection, statements):
            try:
                rows = await connection.fetch(statements.row, key, max_bytes, *self._options.metadata)
            except asyncpg.DataError as error:
                if not isinstance(error, _NO_VALUE):
                    raise
                return None
        if len(rows) > 1:
            raise Unreadable(_DUPLICATE)
        return rows[0] if rows else None


async def _entries(rows: AsyncIterable[Mapping[str, Any]], after: str) -> AsyncIterator[Entry]:
    """Yield one entry for each key of a listing that follows `after`, in the order of the keys.

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


def _entry(row: Mapping[str, Any]) -> Entry:
    if is_too_long(row["id"]):
        return Entry(shortened(row["id"]), row["version"], refused=TOO_LONG)
    return Entry(row["id"], row["version"], row["size_bytes"])


def _refused_rows(count: int) -> Entry:
    return Entry(
        _NO_ID, str(count), refused=f"{count:,} rows have no id: give each row one, or filter them by a query."
    )


class _Spool:
    """Entries in their order: in memory, or in a temporary file if they are many."""

    def __init__(self) -> None:
        self._file = SpooledTemporaryFile(_SPOOL_BYTES, prefix="foreask-rows-")  # noqa: SIM115 - closed by __exit__

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def add(self, entry: Entry) -> None:
        self._file.write(orjson.dumps((entry.key, entry.version, entry.size_bytes, entry.refused)) + b"\n")

    def __iter__(self) -> Iterator[Entry]:
        self._file.seek(0)
        return (Entry(*orjson.loads(line)) for line in self._file)
