"""Rows as documents, in messages: the part that all readers of tables share."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, BinaryIO

import orjson

from features.sources.keys import problem_of, substitute_key
from features.sources.reading.frames import MOST_PROBLEM_CHARS, MOST_TEXT_BYTES, ReadRow, RowWriter
from features.sources.tables.formats import READABLE_BY, Columns, TableRow, Truncated, Unfinished, shown
from shared.domain.errors import InvalidInput, Unreadable

WRONG_TABLE = "wrong table"
"""Detail of the error about a file whose rows are unknown, because it has another format or other columns."""

_HINT = "Name columns with the options id, text, title, url, metadata and readers_column."


def messages_of(rows_of: Callable[[], Iterator[TableRow]], options: Mapping[str, Any]) -> Generator[bytes]:
    """Yield the rows of a file as messages.

    Args:
        rows_of: starts to read the rows.
        options: `url`, the column of the address, and `metadata`, the columns of the metadata.

    Raises:
        Unreadable: the rest of the file cannot be read; the detail is `WRONG_TABLE` if none of it can.
    """
    writer = RowWriter()
    try:
        for row in rows_of():
            writer.add(_read(_with_url(row, options)))
            yield from writer.messages()
    except Truncated as error:
        yield from writer.messages(least=1)
        raise Unreadable("it is truncated") from error
    except Unfinished as error:
        yield from writer.messages(least=1)
        raise Unreadable(error.message) from error
    except MemoryError:
        yield from writer.messages(least=1)
        raise
    except InvalidInput as error:
        raise Unreadable(error.message, detail=WRONG_TABLE) from error
    yield from writer.messages(least=1)


def size_of(file: BinaryIO) -> int:
    """Return the size of a file, which is at its start. A confined process may not ask for its status."""
    size_bytes = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size_bytes


def columns_of(names: Sequence[str], options: Mapping[str, Any]) -> Columns:
    """Return the columns of a table that has columns with these names.

    Raises:
        InvalidInput: a column does not exist.
    """
    name = options["name"]
    given = {**options["columns"], "metadata": tuple(options["columns"]["metadata"])}
    found = Columns(**given).among(names, name, _HINT)
    if names and found.id is None:
        raise InvalidInput(f"{name} has no column _id, id or external_id; it has {shown(names)}. {_HINT}")
    return found


def _with_url(row: TableRow, options: Mapping[str, Any]) -> TableRow:
    """Return the row with its address in the metadata field `url`."""
    column, document = options["url"], row.document
    if column is None or document is None or column not in document.get("metadata", {}):
        return row
    kept = {name: value for name, value in document["metadata"].items() if name in options["metadata"]}
    return replace(row, document=document | {"metadata": kept | {"url": document["metadata"][column]}})


def _read(row: TableRow) -> ReadRow:
    if row.id is None:
        return ReadRow(row.number, problem=_short(row.rejection or ""))
    problem = problem_of(row.id)
    key = substitute_key(row.id) if problem else row.id
    problem = problem or row.rejection
    if row.document is None:
        return ReadRow(row.number, key, problem=_short(problem or ""))
    written = row.document["text"]
    text = written.encode() if len(written) <= MOST_TEXT_BYTES else b""
    if not 0 < len(text) <= MOST_TEXT_BYTES:
        problem = problem or f"Its text has more than {MOST_TEXT_BYTES:,} bytes."
    if problem:
        return ReadRow(row.number, key, problem=_short(problem))
    # The readers can change without a new version.
    content = {name: value for name, value in row.document.items() if name != READABLE_BY}
    version = hashlib.sha256(orjson.dumps(content, option=orjson.OPT_SORT_KEYS)).hexdigest()
    title, metadata = content.get("title"), content.get("metadata")
    return ReadRow(row.number, key, version, len(text), None, title, metadata, text, row.document.get(READABLE_BY))


def _short(problem: str) -> str:
    return problem[:MOST_PROBLEM_CHARS]
