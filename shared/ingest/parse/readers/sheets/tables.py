"""Rows of a sheet as Markdown that can be cut into chunks: no row is longer than half of a chunk of the usual size."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from shared.ingest.parse.readers.sheets.references import column_letters

WIDE_HEADER_CHARS = 900
"""A table with a longer header is written as records, because a chunk does not repeat such a header."""

LONG_ROW_CHARS = 1_000
"""A longer row is written as several rows with the same key."""

_KEY_CHARS = 100
_LEAST_PIECE_CHARS = 80
_LONG_CELL_CHARS = 300
_SAMPLED_ROWS = 50
_MARKUP = re.compile(r"^([ \t]*)(?=#{1,6}(?:[ \t]|$)|\||```|~~~|(?:=+|-+)[ \t]*$)", re.MULTILINE)

Row = tuple[int, Mapping[int, str]]
"""A row's number from 0, and its cells by column."""


def one_line(text: str) -> str:
    """Return a text without line breaks."""
    return " ".join(text.split()) if "\n" in text or "\r" in text or "\t" in text else text.strip()


def paragraph(text: str) -> str:
    """Return a text as Markdown; its blank lines, headings and table rows become plain lines."""
    lines = "\n".join(stripped for line in text.splitlines() if (stripped := line.strip()))
    return _MARKUP.sub(r"\1\\", lines)


def table(columns: Sequence[int], names: Mapping[int, str], rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table as one block, or its records if most of its rows are longer than a chunk."""
    if names and _has_many_values(columns, rows):
        yield from records(columns, names, rows)
        return
    lines = [_line([names.get(column, "") for column in columns]), "| " + " | ".join(["---"] * len(columns)) + " |"]
    for _, cells in rows:
        line = _line([cells.get(column, "") for column in columns])
        if len(line) > LONG_ROW_CHARS:
            lines += [_line([part.get(column, "") for column in columns]) for part in _divided(cells)]
        else:
            lines.append(line)
    yield "\n".join(lines)


def records(columns: Sequence[int], names: Mapping[int, str], rows: Iterable[Row]) -> Iterator[str]:
    """Yield each row as paragraphs of `name: value` lines; the first line of each paragraph is the row's key.

    The last paragraph names columns without a value.
    """
    empty = {column: name for column, name in names.items() if one_line(name)}
    for number, cells in rows:
        named = [
            (names.get(column) or _reference(number, column), cells[column]) for column in columns if column in cells
        ]
        yield from _record(named)
        for column in cells:
            empty.pop(column, None)
    if empty:
        yield from _record([("Without values", "; ".join(map(one_line, empty.values())))])


def _record(named: Sequence[tuple[str, str]]) -> Iterator[str]:
    lines = [f"{name}: {piece}" for name, text in named for piece in pieces(one_line(text), LONG_ROW_CHARS // 2)]
    if not lines:
        return
    key = lines[0][:_KEY_CHARS]
    block, size = [lines[0]], len(lines[0])
    for line in lines[1:]:
        if size + len(line) > LONG_ROW_CHARS - _KEY_CHARS:
            yield paragraph("\n".join(block))
            block, size = [key], len(key)
        block.append(line)
        size += len(line) + 1
    yield paragraph("\n".join(block))


def pieces(text: str, room: int) -> list[str]:
    """Return a text in pieces that fit, cut after sentences or between words."""
    found = list[str]()
    while len(text) > room:
        end = max(text.rfind(mark, room // 2, room) for mark in (". ", "! ", "? ", "。")) + 1
        end = end or text.rfind(" ", room // 2, room) + 1 or room
        found.append(text[:end].rstrip())
        text = text[end:].lstrip()
    return [*found, text]


def _has_many_values(columns: Sequence[int], rows: Sequence[Row]) -> bool:
    """Return whether rows are too long for a chunk although none of their cells is."""
    sample = rows[:_SAMPLED_ROWS]
    long = 0
    for _, cells in sample:
        short = sum(len(text) + 3 for text in cells.values() if len(text) <= _LONG_CELL_CHARS)
        long += short + 3 * (len(columns) - len(cells)) > LONG_ROW_CHARS
    return long * 2 > len(sample)


def _line(texts: Iterable[str]) -> str:
    cells = list(texts)
    line = " | ".join(cells)
    if line.count("|") >= len(cells) or not line.isprintable():
        line = " | ".join(map(_cell, cells))
    return f"| {line} |"


def _cell(text: str) -> str:
    if "|" in text:
        text = text.replace("|", r"\|")
    return one_line(text)


def _divided(cells: Mapping[int, str]) -> Iterator[Mapping[int, str]]:
    """Yield the rows into which a long row is divided: pieces of its long cells, each row with the row's key."""
    long = [column for column, text in cells.items() if len(text) > _LONG_CELL_CHARS]
    if not long:
        yield cells
        return
    first = min(cells)
    key = {first: cells[first]} if len(cells[first]) <= _KEY_CHARS else {}
    room = max(_LEAST_PIECE_CHARS, (LONG_ROW_CHARS - 2 * _KEY_CHARS) // len(long))
    parts = {column: pieces(one_line(cells[column]), room) for column in long}
    for at in range(max(map(len, parts.values()))):
        kept = {column: part[at] for column, part in parts.items() if at < len(part)}
        others = key if at else {column: text for column, text in cells.items() if column not in parts}
        yield {**others, **kept}


def _reference(row: int, column: int) -> str:
    """Return the name of a cell, such as `C5`."""
    return f"{column_letters(column)}{row + 1}"
