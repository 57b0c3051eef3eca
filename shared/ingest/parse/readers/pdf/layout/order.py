"""The lines of a page, and their order of reading."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise

from shared.ingest.parse.readers.pdf.layout.aligned import add_tables
from shared.ingest.parse.readers.pdf.layout.cells import spaced_table
from shared.ingest.parse.readers.pdf.layout.columns import (
    by_column,
    columns_of,
    runs,
    text_columns,
    with_first_lines,
    with_notes_last,
)
from shared.ingest.parse.readers.pdf.layout.lines import (
    LABEL,
    Item,
    PageLine,
    PageTable,
    add_lines,
    is_right_to_left,
    line_of,
    rows_of,
    whole,
)
from shared.ingest.parse.readers.pdf.layout.scripts import with_scripts
from shared.ingest.parse.readers.pdf.text.words import Word

_WIDE = 1.1  # of the font size: a wider gap divides a line, as between columns
_NARROW = 0.7  # of the font size: the same where most lines have a gap
_LEAST_LEVEL = 8  # lines with a narrow gap
_TEXT_CHARS = 18  # in front of a narrow gap; labels are shorter
_MOSTLY = 0.6
_MOST_STARTS = 10  # of columns of a page
_WIDE_AFTER_LABEL = 4.0  # of the font size: the same after the number or bullet of a list
_MOST_DEPTH = 6


def lines_of(words: Sequence[Word]) -> list[PageLine]:
    """Return the lines of a page, divided at wide gaps, from above."""
    chains = list[list[Word]]()
    for word in words:
        if word.glued and chains:
            chains[-1].append(word)
        else:
            chains.append([word])
    found = list[PageLine]()
    rows = rows_of(with_scripts([line_of(chain) for chain in chains]))
    starts = _narrow_columns(rows) if len(rows) >= _LEAST_LEVEL else frozenset()
    for row in rows:
        found += _divided(row, starts)
    return found


def _narrow_columns(rows: Sequence[Sequence[PageLine]]) -> frozenset[int]:
    """Return the left ends, in points, of columns of text whose distance is smaller than a wide gap.

    Many lines start there, or have more than a space there, and few lines cross.
    """
    gaps, lengths, first = Counter[int](), Counter[int](), Counter[int]()
    for row in rows:
        chars = 0
        first[round(row[0].x0)] += 1
        for last, chain in pairwise(row):
            chars += last.chars
            if chain.x0 - last.x1 > _NARROW * chain.size:
                gaps[round(chain.x0)] += 1
                lengths[round(chain.x0)] += chars
    found = [at for at in gaps if gaps[at] + first[at] >= _LEAST_LEVEL and lengths[at] >= gaps[at] * _TEXT_CHARS]
    found.sort(key=gaps.__getitem__, reverse=True)
    return frozenset(at for at in found[:_MOST_STARTS] if _both_sides(rows, at) * _MOSTLY <= gaps[at])


def _both_sides(rows: Iterable[Sequence[PageLine]], at: float) -> int:
    return sum(row[0].x0 < at - 1 and row[-1].x1 > at + 1 for row in rows)


def _divided(row: list[PageLine], starts: frozenset[int]) -> list[PageLine]:
    """Join the neighbours of a row, except at wide gaps, and at narrower ones in front of the starts of columns."""
    parts = list[list[PageLine]]()
    end = 0.0
    for chain in row:
        size = chain.size
        wide = _WIDE * (max(size, parts[-1][-1].size) if parts else size)
        if parts and len(parts[-1]) == 1 and LABEL.match(parts[-1][0].words[0].text):
            wide = _WIDE_AFTER_LABEL * size
        elif starts and round(chain.x0) in starts:
            wide = _NARROW * size
        if parts and chain.x0 - end <= wide:
            parts[-1].append(chain)
        else:
            parts.append([chain])
            end = chain.x1
        end = max(end, chain.x1)
    return [whole(part) for part in parts]


def arranged(lines: Sequence[PageLine], depth: int = 0) -> list[Item]:
    """Return the lines of a region in the order of reading: columns one after the other, and tables."""
    items = list[Item]()
    for run in with_first_lines(runs(rows_of(lines))):
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


def in_place_of(table: PageTable, box: tuple[float, float, float, float]) -> PageLine:
    """Return a line that represents a table with ruling lines."""
    left, bottom, right, top = box
    size = min(top - bottom, 12.0)
    return PageLine([], left, right, top - size, size, table=table)
