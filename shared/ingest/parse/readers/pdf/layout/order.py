"""The lines of a page, and their order of reading."""

from __future__ import annotations

from collections.abc import Sequence

from shared.ingest.parse.readers.pdf.layout.aligned import add_tables
from shared.ingest.parse.readers.pdf.layout.cells import spaced_table
from shared.ingest.parse.readers.pdf.layout.columns import by_column, columns_of, runs, text_columns, with_notes_last
from shared.ingest.parse.readers.pdf.layout.lines import (
    LABEL,
    Item,
    Line,
    Table,
    add_lines,
    is_right_to_left,
    line_of,
    rows_of,
    whole,
)
from shared.ingest.parse.readers.pdf.layout.scripts import with_scripts
from shared.ingest.parse.readers.pdf.text.words import Word

_WIDE = 1.1  # of the font size: a wider gap divides a line, as between columns
_WIDE_AFTER_LABEL = 4.0  # of the font size: the same after the number or bullet of a list
_MOST_DEPTH = 6


def lines_of(words: Sequence[Word]) -> list[Line]:
    """Return the lines of a page, divided at wide gaps, from above."""
    chains = list[list[Word]]()
    for word in words:
        if word.glued and chains:
            chains[-1].append(word)
        else:
            chains.append([word])
    found = list[Line]()
    for row in rows_of(with_scripts([line_of(chain) for chain in chains])):
        found += _divided(row)
    return found


def _divided(row: list[Line]) -> list[Line]:
    """Join the neighbours of a row, except at wide gaps."""
    parts = list[list[Line]]()
    end = 0.0
    for chain in row:
        size = chain.size
        wide = _WIDE * (max(size, parts[-1][-1].size) if parts else size)
        if parts and len(parts[-1]) == 1 and LABEL.match(parts[-1][0].words[0].text):
            wide = _WIDE_AFTER_LABEL * size
        if parts and chain.x0 - end <= wide:
            parts[-1].append(chain)
        else:
            parts.append([chain])
            end = chain.x1
        end = max(end, chain.x1)
    return [whole(part) for part in parts]


def arranged(lines: Sequence[Line], depth: int = 0) -> list[Item]:
    """Return the lines of a region in the order of reading: columns one after the other, and tables."""
    items = list[Item]()
    for run in runs(rows_of(lines)):
        columns = columns_of(line for row in run for line in row)
        if len(columns) == 1:
            add_lines(items, run)
        elif found := spaced_table(run):
            first, table, last = found
            add_lines(items, run[:first])
            items.append(table)
            if last < len(run):
                items += arranged([line for row in run[last:] for line in row], depth)
        elif depth < _MOST_DEPTH and (texts := text_columns(run, columns)):
            parts = by_column(run, texts)
            if is_right_to_left([line for row in run for line in row]):
                parts = parts[::-1]
            for part in with_notes_last(parts):
                items += arranged(part, depth + 1)
        else:
            add_tables(items, run)
    return items


def in_place_of(table: Table, box: tuple[float, float, float, float]) -> Line:
    """Return a line that represents a table with ruling lines."""
    left, bottom, right, top = box
    size = min(top - bottom, 12.0)
    return Line([], left, right, top - size, size, table=table)
