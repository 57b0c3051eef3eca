"""Tables whose rows are divided by lines, or by the edges of filled bands, without lines between their columns."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shared.ingest.parse.readers.pdf.layout.aligned import table_of
from shared.ingest.parse.readers.pdf.layout.cells import (
    Rows,
    are_marks,
    band_cells,
    crosses,
    has_rows,
    is_level,
    table_columns,
    with_all_rows,
    with_whole_header,
)
from shared.ingest.parse.readers.pdf.layout.columns import by_column, columns_of, is_text, split_at_gaps
from shared.ingest.parse.readers.pdf.layout.lines import PageLine, PageTable, rows_of
from shared.ingest.parse.readers.pdf.layout.order import lines_of
from shared.ingest.parse.readers.pdf.rulings import Box, Ruling, Rulings, continues_outside
from shared.ingest.parse.readers.pdf.text.words import Word

_SAME_END = 3.0  # points between the ends of lines of one table
_THIN = 4.0  # points between the two lines of a double line
_TALLER = 1.3
_LEAST_LINES = 3
_LEAST_FULL = 0.5
_MOST_TABLES = 100  # of a page
_MOSTLY = 0.8
_MOST_WRAPPED = 6  # lines of a cell in a band of several rows
_MOST_WORDS = 500  # between two lines
_MOST_LEVELS = 10  # lines of a cell


@dataclass(frozen=True, slots=True)
class _Band:
    """The printed lines between two ruling lines."""

    top: float
    bottom: float
    rows: list[list[PageLine]]


def striped_tables(words: Sequence[Word], rulings: Rulings) -> tuple[list[tuple[PageTable, Box]], list[Word]]:
    """Return the tables between lines of one width, each with its box, and the words outside of them."""
    tables = list[tuple[PageTable, Box]]()
    rest = list(words)
    for left, right, heights in _stacks(rulings.across):
        page = _Strip(rest, left, right)
        for run in page.runs(heights):
            run = page.extended(run)  # noqa: PLW2901
            box = (left, run[-1].bottom, right, run[0].top)
            if continues_outside((band.rows for band in run), box, rest):
                continue
            if table := _table([band.rows for band in run]):
                tables.append((table, box))
        taken = {id(word) for table, _ in tables for line in table.lines for word in line.words}
        rest = [word for word in rest if id(word) not in taken]
    return tables, rest


def _height(word: Word) -> float:
    return word.y + word.style.size / 4


def _stacks(across: Sequence[Ruling]) -> Iterator[tuple[float, float, list[float]]]:
    """Yield the left and right end of lines of one width, and their heights from above."""
    stacks = list[list[Ruling]]()
    for line in sorted(across, key=lambda line: (line.start, line.end)):
        last = stacks[-1][0] if stacks else None
        if last and line.start - last.start <= _SAME_END and abs(line.end - last.end) <= _SAME_END:
            stacks[-1].append(line)
        else:
            stacks.append([line])
    stacks = [stack for stack in stacks if len(stack) >= _LEAST_LINES]
    for stack in sorted(stacks, key=len, reverse=True)[:_MOST_TABLES]:
        yield stack[0].start, stack[0].end, sorted({line.at for line in stack}, reverse=True)


class _Strip:
    """The words between two distances from the left."""

    def __init__(self, words: Sequence[Word], left: float, right: float) -> None:
        inside = [word for word in words if left - _SAME_END <= (word.x0 + word.x1) / 2 <= right + _SAME_END]
        self._order = {id(word): index for index, word in enumerate(inside)}
        self._words = sorted(inside, key=_height)
        self._heights = list(map(_height, self._words))

    def runs(self, heights: Sequence[float]) -> Iterator[list[_Band]]:
        """Yield the neighbouring bands that have cells."""
        found = list[_Band]()
        for top, bottom in pairwise(heights):
            if top - bottom <= _THIN:
                continue
            band = self._band(top, bottom)
            if _has_cells(band.rows) or (found and _may_be_row(band, found)):
                found.append(band)
            elif found:
                yield found
                found = []
        if found:
            yield found

    def extended(self, run: list[_Band]) -> list[_Band]:
        """Return a run with the row above it and the row below it, if only every second row is filled."""
        columns = table_columns([row for band in run for row in band.rows])
        heights = sorted({round(band.top - band.bottom) + 1 for band in run}, reverse=True)
        above = (self._band(run[0].top + height, run[0].top) for height in heights)
        below = (self._band(run[-1].bottom, run[-1].bottom - height) for height in heights)
        first = next((band for band in above if _fits(band, columns)), None)
        last = next((band for band in below if _fits(band, columns)), None)
        return [*([first] if first else ()), *run, *([last] if last else ())]

    def _band(self, top: float, bottom: float) -> _Band:
        inside = self._words[bisect_left(self._heights, bottom) : bisect_right(self._heights, top)]
        if len(inside) > _MOST_WORDS:
            return _Band(top, bottom, [])
        return _Band(top, bottom, rows_of(lines_of(sorted(inside, key=lambda word: self._order[id(word)]))))


def _may_be_row(band: _Band, found: Sequence[_Band]) -> bool:
    """Return whether a band with one printed line in one column is a row whose other cells are empty."""
    return len(band.rows) == 1 and band.top - band.bottom <= _TALLER * max(above.top - above.bottom for above in found)


def _fits(band: _Band, columns: Sequence[Sequence[float]]) -> bool:
    """Return whether the words of a band are cells of a table's columns."""
    cells = band_cells(band.rows, columns)
    starts = [start for start, _ in columns]
    lines = [line for cell in cells for line in cell]
    level = all(min(abs(line.x0 - start) for start in starts) <= _SAME_END for line in lines[:1])
    return level and sum(map(bool, cells)) > 1 and not any(crosses(row, columns) for row in band.rows)


def _has_cells(band: Rows) -> bool:
    """Return whether words between two lines are cells, and no columns of text."""
    columns = columns_of(line for row in band for line in split_at_gaps(row))
    if len(columns) < 2:  # noqa: PLR2004 - one column
        return False
    parts = by_column(band, columns)
    texts = sum(is_text(part, end - start) for part, (start, end) in zip(parts, columns, strict=True))
    return len(band) <= _MOST_LEVELS or texts <= 1


def _table(bands: Sequence[Rows]) -> PageTable | None:
    rows = [row for band in bands for row in band]
    columns = table_columns(rows)
    if len(rows) < _LEAST_LINES or len(columns) < 2:  # noqa: PLR2004 - a table has two of both
        return None
    cells = [band_cells(band, columns) for band in bands]
    if len(columns) == 2 and are_marks([row[0] for row in cells]):  # noqa: PLR2004 - marks and their texts
        return None
    if len(cells) < _LEAST_LINES or sum(map(has_rows, cells)) * 3 > len(cells):
        return _if_low(table_of(rows), _MOST_WRAPPED)
    several = [row for row in cells if sum(map(bool, row)) > 1]
    full = sum(bool(cell) for row in cells for cell in row)
    level = sum(map(is_level, several))
    is_full = full >= len(cells) * len(columns) * _LEAST_FULL and len(several) * 3 >= len(cells) * 2
    if not is_full or level < len(several) * _MOSTLY:
        return None
    cells = [one for row in cells for one in with_all_rows(row)]
    table = PageTable(with_whole_header(cells, columns), tuple(start for start, _ in columns), ruled=True)
    return _if_low(table, _MOST_LEVELS)


def _if_low(table: PageTable | None, most: int) -> PageTable | None:
    """Return a table whose cells have at most this number of lines; None for boxes of a figure."""
    return table if table and all(len(cell) <= most for row in table.rows for cell in row) else None
