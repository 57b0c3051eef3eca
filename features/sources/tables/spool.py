"""Rows of a table in the order of their keys, in a temporary database on disk.

The rows of a table are in any order, and a sync needs them in the order of their keys and, for changed rows, in single
reads. SQLite sorts on disk with bounded memory and also answers single reads; sorted runs in files would have to be
merged, and would need an index, too. The texts are kept, because a row of a compressed file or of a row group of
Parquet cannot be read without the rows before it, and because a file may change between the listing and the reads.
"""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from features.sources.errors import too_much_space, unavailable
from features.sources.reading.frames import ReadRow
from features.sources.source import Entry

_LEVEL = 1  # of zlib: texts shrink to about half at 100 MB/s
_CACHE_KIB = 32 * 1024
_PAGE_BYTES = 4_096
_TABLES = """
    CREATE TABLE rows (number INTEGER PRIMARY KEY, key TEXT, version TEXT, size INTEGER, refused TEXT, location TEXT,
                       readers TEXT);
    CREATE TABLE contents (number INTEGER PRIMARY KEY, title TEXT, metadata TEXT, content BLOB);
"""
_ADD = "INSERT INTO rows (key, version, size, refused, location, readers) VALUES (?, ?, ?, ?, ?, ?)"
_FIRST = "SELECT key, version, size, refused, readers, count(*), min(number) FROM rows"
_PAGE = _FIRST + " WHERE key > ? GROUP BY key ORDER BY key LIMIT ?"
_FIND = _FIRST + " WHERE key = ? GROUP BY key"


@dataclass(frozen=True, slots=True)
class StoredRow:
    """The document of a row."""

    version: str
    title: str | None
    metadata: Mapping[str, Any]
    text: bytes


class Spool:
    """A temporary database of rows, which is deleted with the process.

    Its methods block, and may be called by any thread, but not by two at the same time.

    Args:
        most_bytes: its maximum size.

    Raises:
        Misconfigured: the rows need more than its maximum size.
        Unavailable: the disk of temporary files is full.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._stored_bytes = 0  # without the keys, to distinguish a full database from a full disk
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)  # a file without a name
        pages = max(1, most_bytes // _PAGE_BYTES)
        pragmas = f"PRAGMA page_size = {_PAGE_BYTES}; PRAGMA max_page_count = {pages};"
        pragmas += f"PRAGMA cache_size = -{_CACHE_KIB}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        self._database.executescript(pragmas + _TABLES)

    def add(self, rows: Iterable[ReadRow], label: str) -> None:
        """Add rows that have keys.

        Args:
            rows: the rows.
            label: start of a row's location in messages, such as `a.jsonl, line`.
        """
        with self._converted():
            for row in rows:
                self._add(row, f"{label} {row.number:,}")

    def index(self) -> None:
        """Sort the rows; needed once, after the last one is added."""
        with self._converted():
            self._database.execute("CREATE INDEX by_key ON rows (key, number)")

    def page(self, after: str, limit: int) -> list[Entry]:
        """Return the first entries whose keys follow `after`."""
        with self._converted():
            return [self._entry(found) for found in self._database.execute(_PAGE, (after, limit)).fetchall()]

    def find(self, key: str) -> Entry | None:
        with self._converted():
            found = self._database.execute(_FIND, (key,)).fetchone()
            return self._entry(found) if found else None

    def row(self, key: str) -> StoredRow | None:
        """Return the row of a key; None if there is none with a document."""
        with self._converted():
            statement = (
                "SELECT version, title, metadata, content FROM rows JOIN contents USING (number) WHERE key = ?"
                " ORDER BY number"
            )
            found = self._database.execute(statement, (key,)).fetchone()
            if found is None:
                return None
            version, title, metadata, content = found
            return StoredRow(version, title, orjson.loads(metadata), zlib.decompress(content))

    def close(self) -> None:
        self._database.close()

    def _add(self, row: ReadRow, location: str) -> None:
        refused = f"{location}: {row.problem}" if row.problem else None
        readers = None if row.readable_by is None else orjson.dumps(row.readable_by).decode()
        self._stored_bytes += len(readers or "")
        values = (row.key, row.version, row.size_bytes, refused, location, readers)
        number = self._database.execute(_ADD, values).lastrowid
        if refused is None:
            metadata = orjson.dumps(row.metadata or {}).decode()
            packed = zlib.compress(row.text, _LEVEL)
            self._stored_bytes += len(packed) + len(metadata)
            content = (number, row.title, metadata, packed)
            self._database.execute("INSERT INTO contents VALUES (?, ?, ?, ?)", content)

    def _entry(self, found: tuple[str, str, int | None, str | None, str | None, int, int]) -> Entry:
        """Return the entry of the first row with a key; `min(number)` makes SQLite return that row's values."""
        key, version, size, refused, readers, count, _ = found
        if count > 1:
            statement = "SELECT location FROM rows WHERE key = ? ORDER BY number LIMIT 2"
            (first,), (second,) = self._database.execute(statement, (key,)).fetchall()
            return Entry(key, version, refused=f"{second}: the id is also the id of {first}. Ids must be unique.")
        return Entry(key, version, size, refused, None if readers is None else tuple(orjson.loads(readers)))

    @contextmanager
    def _converted(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode == sqlite3.SQLITE_FULL and self._stored_bytes > self._most_bytes // 2:
                raise too_much_space("The rows need", self._most_bytes) from error
            raise unavailable(f"The rows cannot be sorted on disk: {error}.") from error
