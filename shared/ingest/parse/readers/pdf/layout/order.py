"""The order of reading of a page's lines."""

from __future__ import annotations

from collections.abc import Sequence

from shared.ingest.parse.readers.pdf.layout.aligned import add_tables
from shared.ingest.parse.readers.pdf.layout.columns import by_column, columns_of, runs, text_columns
from shared.ingest.parse.readers.pdf.layout.lines import Item, Line, Table, add_lines, is_right_to_left, rows_of

_MOST_DEPTH = 6


def arranged(lines: Sequence[Line], depth: int = 0) -> list[Item]:
    """Return the lines of a region in the order of reading: columns one after the other, and tables."""
    items = list[Item]()
    for run in runs(rows_of(lines)):
        columns = columns_of(line for row in run for line in row)
        if len(columns) == 1:
            add_lines(items, run)
        elif depth < _MOST_DEPTH and (texts := text_columns(run, columns)):
            parts = by_column(run, texts)
            for part in parts[::-1] if is_right_to_left([line for row in run for line in row]) else parts:
                items += arranged(part, depth + 1)
        else:
            add_tables(items, run)
    return items


def in_place_of(table: Table, box: tuple[float, float, float, float]) -> Line:
    """Return a line that represents a table with ruling lines."""
    left, bottom, right, top = box
    size = min(top - bottom, 12.0)
    return Line([], left, right, top - size, size, table=table)
