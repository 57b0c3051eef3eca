"""Rows of dlt as entries of a source. This module does not need dlt."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from typing import Any

from foreask_client import EntryResult, PushedEntry

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Columns:
    """Names of columns.

    Args:
        text: the column of the text.
        id: the column of the key; None: the columns with the hint `primary_key`.
        version: a column that changes with the text, such as a time; None: the text is compared.
        title: the column of the title; it may be missing.
        url: the column of the address; it may be missing.
        readable_by: the column of the readers; it may be missing.
        metadata: columns of the metadata.
    """

    text: str = "text"
    id: str | None = None
    version: str | None = None
    title: str = "title"
    url: str = "url"
    readable_by: str = "readable_by"
    metadata: Sequence[str] = ()


class RefusedRows(Exception):
    """The server refused some rows; the documents of the others are saved."""

    def __init__(self, refused: Sequence[EntryResult]) -> None:
        first = refused[0]
        super().__init__(f"{len(refused)} rows were refused; the first one is {first.key}: {first.reason}")


def entries_of(rows: Iterable[Row], table: Mapping[str, Any], columns: Columns) -> Iterator[PushedEntry]:
    """Yield the entries of rows.

    Args:
        rows: rows of one table.
        table: its name and its columns with their hints, as dlt passes them.
        columns: names of columns.

    Raises:
        ValueError: the table has no primary key, or a row has no value in a column of the key.
    """
    keys = [columns.id] if columns.id else _with_hint(table, "primary_key")
    if not keys:
        raise ValueError(f"The table {table['name']} has no primary key: name the column of the key with `id`.")
    deletions = _with_hint(table, "hard_delete")
    for row in rows:
        parts = [row.get(name) for name in keys]
        if any(part is None for part in parts):
            raise ValueError(f"A row of the table {table['name']} has no value in {', '.join(keys)}.")
        key = "/".join([table["name"], *map(str, parts)])
        if any(row.get(name) not in (None, False) for name in deletions):
            yield {"key": key, "deleted": True}
        else:
            yield _entry(key, row, columns)


def _entry(key: str, row: Row, columns: Columns) -> PushedEntry:
    entry: PushedEntry = {"key": key, "text": str(row.get(columns.text) or "")}
    if columns.version is not None and row.get(columns.version) is not None:
        entry["version"] = str(row[columns.version])
    if row.get(columns.title) is not None:
        entry["title"] = str(row[columns.title])
    if row.get(columns.url) is not None:
        entry["url"] = str(row[columns.url])
    if row.get(columns.readable_by) is not None:
        entry["readable_by"] = _readers(row[columns.readable_by])
    if columns.metadata:
        entry["metadata"] = {name: _plain(row[name]) for name in columns.metadata if row.get(name) is not None}
    return entry


def _readers(value: Any) -> list[str]:
    """Return readers of a list, or of a text with commas."""
    names = value.split(",") if isinstance(value, str) else value
    return [str(name).strip() for name in names if str(name).strip()]


def _plain(value: Any) -> Any:
    """Return a value as JSON represents it."""
    return json.loads(json.dumps(value, default=_text))


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime | date | time) else str(value)


def _with_hint(table: Mapping[str, Any], hint: str) -> list[str]:
    return [name for name, column in table["columns"].items() if column.get(hint)]
