"""Rows of a table in the order of their keys, in a temporary database on disk.

The rows of a table are in any order, and a sync needs them in the order of their keys and, for changed rows, in single
reads. SQLite sorts on disk with bounded memory and also answers single reads; sorted runs in files would have to be
merged, and would need an index, too. The texts are kept, because a row of a compressed file or of a row group of
Parquet cannot be read without the rows before it, and because a file may change between the listing and the reads.
"""

from __future__ import annotations

import hashlib
import sqlite3
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import orjson

from shared.sources.files import unavailable
from shared.sources.keys import problem_of, stand_in
from shared.sources.source import Entry
from shared.sources.tables import Row

_LEVEL = 1  # of zlib: texts shrink to about half at 100 MB/s
_CACHE_KIB = 32 * 1024
_TABLES = """
    CREATE TABLE rows (number INTEGER PRIMARY KEY, key TEXT, version TEXT, size INTEGER, refused TEXT, place TEXT);
    CREATE TABLE contents (number INTEGER PRIMARY KEY, content BLOB);
"""
_ADD = "INSERT INTO rows (key, version, size, refused, place) VALUES (?, ?, ?, ?, ?)"
_FIRST = "SELECT key, version, size, refused, count(*), min(number) FROM rows"
_PAGE = _FIRST + " WHERE key > ? GROUP BY key ORDER BY key LIMIT ?"
_FIND = _FIRST + " WHERE key = ? GROUP BY key"


@dataclass(frozen=True, slots=True)
class StoredRow:
    """The document of a row in the form of the API, and its version."""

    document: Mapping[str, Any]
    version: str


class Spool:
    """A temporary database of rows, which is deleted with the process.

    Its methods block, and may be called by any thread, but not by two at the same time.

    Raises:
        Unavailable: the disk of temporary files is full.
    """

    def __init__(self) -> None:
        self._database = sqlite3.connect("", check_same_thread=False, isolation_level=None)  # a file without a name
        pragmas = f"PRAGMA cache_size = -{_CACHE_KIB}; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;"
        self._database.executescript(pragmas + _TABLES)

    def add(self, rows: Iterable[Row], label: str) -> int:
        """Add rows that have ids; return their number.

        Args:
            rows: the rows.
            label: start of a row's place in messages, such as `a.jsonl, line`.
        """
        added = 0
        with _converted():
            for row in rows:
                self._add(row, f"{label} {row.number:,}")
                added += 1
        return added

    def index(self) -> None:
        """Sort the rows; needed once, after the last one is added."""
        with _converted():
            self._database.execute("CREATE INDEX by_key ON rows (key, number)")

    def page(self, after: str, limit: int) -> list[Entry]:
        """Return the first entries whose keys follow `after`."""
        with _converted():
            return [self._entry(found) for found in self._database.execute(_PAGE, (after, limit)).fetchall()]

    def find(self, key: str) -> Entry | None:
        with _converted():
            found = self._database.execute(_FIND, (key,)).fetchone()
            return self._entry(found) if found else None

    def row(self, key: str) -> StoredRow | None:
        """Return the row of a key; None if there is none with a document."""
        with _converted():
            statement = "SELECT version, content FROM rows JOIN contents USING (number) WHERE key = ? ORDER BY number"
            found = self._database.execute(statement, (key,)).fetchone()
            return StoredRow(orjson.loads(zlib.decompress(found[1])), found[0]) if found else None

    def close(self) -> None:
        self._database.close()

    def _add(self, row: Row, place: str) -> None:
        assert row.id is not None
        problem, content = problem_of(row.id) or row.rejection, b""
        try:
            content = orjson.dumps(row.document, option=orjson.OPT_SORT_KEYS)
        except orjson.JSONEncodeError as error:
            problem = problem or f"Its metadata cannot be JSON: {error}."
        key = stand_in(row.id) if problem_of(row.id) else row.id
        version = "" if problem else hashlib.sha256(content).hexdigest()
        size = None if row.document is None else len(row.document["text"].encode())
        values = (key, version, size, f"{place}: {problem}" if problem else None, place)
        number = self._database.execute(_ADD, values).lastrowid
        if not problem:
            self._database.execute("INSERT INTO contents VALUES (?, ?)", (number, zlib.compress(content, _LEVEL)))

    def _entry(self, found: tuple[str, str, int | None, str | None, int, int]) -> Entry:
        """Return the entry of the first row with a key; `min(number)` makes SQLite return that row's values."""
        key, version, size, refused, count, _ = found
        if count > 1:
            statement = "SELECT place FROM rows WHERE key = ? ORDER BY number LIMIT 2"
            (first,), (second,) = self._database.execute(statement, (key,)).fetchall()
            return Entry(key, version, refused=f"{second}: the id is also the id of {first}. Ids must be unique.")
        return Entry(key, version, size, refused)


@contextmanager
def _converted() -> Iterator[None]:
    try:
        yield
    except sqlite3.OperationalError as error:
        raise unavailable(f"The rows cannot be sorted on disk: {error}.") from error
