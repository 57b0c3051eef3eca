"""The cells of a sheet as Markdown: its tables, each with one header row, and the paragraphs around them.

Chunks repeat a table's header, so a title is never one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shared.ingest.parse.readers.sheets.headers import (
    SEARCHED_ROWS,
    Band,
    Cells,
    Numbered,
    column_names,
    header_rows,
    is_number,
    is_value,
    spans_of,
)
from shared.ingest.parse.readers.sheets.references import CellRange
from shared.ingest.parse.readers.sheets.tables import WIDE_HEADER_CHARS, one_line, paragraph, records, table

_PROSE_CHARS = 60
_FEW_ROWS = 3
_DENSE = 0.05
_SMALL = 50_000
_MOST_FILLED = 1_000_000
"""Merged cells repeat at most so many texts."""

_REPEATED_CHARS = 200
"""A longer text of a merged cell is not repeated."""


@dataclass(slots=True)
class Grid:
    """The cells of a sheet.

    Args:
        rows: the rows with cells by number, from 0, in ascending order.
        merges: merged ranges.
        headers: rows that the file itself declares to be a header.
        side_by_side: whether two tables may be next to each other.
    """

    rows: dict[int, dict[int, str]] = field(default_factory=dict)
    merges: Sequence[CellRange] = ()
    headers: Collection[int] = ()
    side_by_side: bool = True


def markdown_of(grid: Grid) -> Iterator[str]:
    """Yield the blocks of a sheet in order."""
    filled = _filled(grid)
    bands = [part for band in _bands(grid.rows) for part in _parts(band, side_by_side=grid.side_by_side)]
    previous: _Table | None = None
    for band in bands:
        if previous and _continues(previous, band, grid):
            previous.rows += band
            continue
        if previous and previous.is_only_header and _fits_under(previous, band):
            band = previous.preamble + previous.rows + band  # noqa: PLW2901
            previous = None
        if previous:
            yield from previous.blocks(filled)
        previous = _table(band, grid)
    if previous:
        yield from previous.blocks(filled)


@dataclass(slots=True)
class _MergedCellTexts:
    """Texts that merged cells repeat next to other values, by row and column."""

    texts: dict[int, dict[int, str]]

    def row(self, number: int, cells: Cells) -> Cells:
        """Return the cells of a row and the texts that merged cells repeat."""
        texts = self.texts.get(number)
        return {**texts, **cells} if texts else cells


@dataclass(slots=True)
class _Table:
    """A table with the rows above it.

    Args:
        preamble: rows in front of the header.
        header: rows of the header.
        rows: all rows of the band if it has no header, else the rows below it.
    """

    preamble: Band
    header: Band
    rows: Band
    spans: Mapping[int, Sequence[tuple[int, int]]]

    @property
    def is_only_header(self) -> bool:
        return not self.header and len(self.rows) == 1 and len(self.rows[0][1]) > 1

    def blocks(self, filled: _MergedCellTexts) -> Iterator[str]:
        for _, cells in self.preamble:
            yield paragraph(_sentence(cells))
        columns = _columns((*self.header, *self.rows))
        if not self.header and len(columns) == 1:
            yield from self._column(columns[0])
        elif columns:
            yield from self._table(columns, filled)

    def _column(self, column: int) -> Iterator[str]:
        texts = [cells[column] for _, cells in self.rows]
        yield from (paragraph(text) for text in texts)

    def _table(self, columns: Sequence[int], filled: _MergedCellTexts) -> Iterator[str]:
        names = column_names(self.header, columns, self.spans)
        rows = [(number, filled.row(number, cells)) for number, cells in self.rows]
        if len(rows) == 1 and not self.header and len(columns) > 1:
            yield paragraph(_sentence(rows[0][1]))
            return
        cells = sum(len(row) for _, row in rows)
        sparse = len(rows) * len(columns) > max(_SMALL, cells / _DENSE)
        if sparse or sum(len(name) + 9 for name in names.values()) > WIDE_HEADER_CHARS:
            yield from records(columns, names, rows)
        else:
            yield from table(columns, names, rows)


def _bands(rows: Mapping[int, Cells]) -> Iterator[Band]:
    """Yield runs of rows without an empty row between them."""
    band = Band()
    for number in rows:
        if band and number > band[-1][0] + 1:
            yield band
            band = []
        band.append((number, rows[number]))
    if band:
        yield band


def _parts(band: Band, *, side_by_side: bool) -> list[Band]:
    """Divide a band at empty columns if tables are next to each other, and not parts of one table."""
    if not side_by_side:
        return [band]
    columns = _columns(band)
    gaps = [right for left, right in pairwise(columns) if right > left + 1]
    parts, rest = list[Band](), band
    for gap in gaps[:SEARCHED_ROWS]:
        left, right = _side(rest, 0, gap), _side(rest, gap, None)
        if _is_apart(left, right):
            parts.append(left)
            rest = right
    return [*parts, rest]


def _side(band: Band, first: int, after: int | None) -> Band:
    kept = (
        (
            number,
            {column: text for column, text in cells.items() if column >= first and (after is None or column < after)},
        )
        for number, cells in band
    )
    return [(number, cells) for number, cells in kept if cells]


def _is_apart(left: Band, right: Band) -> bool:
    """Return whether two sides of an empty column are two tables: each has columns of its own and a column of keys."""
    if min(len(left), len(right)) < 2 or min(_width(left), _width(right)) < 2:  # noqa: PLR2004 - no table
        return False
    first = min(column for _, cells in right for column in cells)
    keys = [cells[first] for _, cells in right[1:] if first in cells]
    keyed = len(keys) * 2 > len(right) - 1 and sum(not is_number(key) for key in keys) * 2 > len(keys)
    differ = (left[0][0], left[-1][0]) != (right[0][0], right[-1][0])
    return keyed and (differ or bool(set(left[0][1].values()) & set(right[0][1].values())))


def _width(band: Band) -> int:
    return len(_columns(band))


def _columns(rows: Iterable[Numbered]) -> list[int]:
    return sorted(set().union(*(cells for _, cells in rows)))


def _continues(above: _Table, band: Band, grid: Grid) -> bool:
    """Return whether a band continues the table above, because its first row has values, not labels."""
    if not above.header or band[0][0] in grid.headers:
        return False
    columns = set(_columns((*above.header, *above.rows)))
    first = band[0][1]
    inside = all(columns.issuperset(cells) for _, cells in band[:SEARCHED_ROWS])
    return inside and len(first) > 1 and any(is_value(text) for text in first.values())


def _fits_under(header: _Table, band: Band) -> bool:
    """Return whether a row of labels above an empty row is the header of the band below it."""
    labels = header.rows[0][1]
    if any(is_value(text) for text in labels.values()):
        return False
    columns = set(_columns(band))
    return columns <= set(labels) and len(band[0][1]) > 1 and any(is_value(text) for text in band[0][1].values())


def _table(band: Band, grid: Grid) -> _Table:
    spans = spans_of(band, grid.merges)
    first, after = header_rows(band, grid.headers, spans)
    if first is None:
        lead = _lead(band)
        return _Table(band[:lead], [], band[lead:], spans)
    return _Table(band[:first], band[first:after], band[after:], spans)


def _lead(band: Band) -> int:
    """Return the number of rows with one text above a table without a header."""
    lead = 0
    while lead < min(len(band), _FEW_ROWS) and len(band[lead][1]) == 1:
        lead += 1
    wide = any(len(cells) > 1 for _, cells in band[lead:])
    return lead if wide else 0


def _sentence(cells: Cells) -> str:
    """Return the cells of a row outside of a table as one line."""
    texts = [one_line(cells[column]) for column in sorted(cells)]
    if len(texts) == 2 and not texts[0].endswith(":"):  # noqa: PLR2004 - a name and its value
        return ": ".join(texts)
    return " ".join(
        f"{text}," if index < len(texts) - 1 and not text.endswith((":", ",")) else text
        for index, text in enumerate(texts)
    )


def _filled(grid: Grid) -> _MergedCellTexts:
    """Return the texts that merged cells repeat; a merged cell that is alone in its rows repeats nothing."""
    filled = _MergedCellTexts({})
    numbers = list(grid.rows)
    used = _columns(grid.rows.items()) if grid.merges else []
    left_over = _MOST_FILLED
    for merge in grid.merges:
        text = grid.rows.get(merge.top, {}).get(merge.left)
        if not text or len(text) > _REPEATED_CHARS:
            continue
        columns = used[bisect_left(used, merge.left) : bisect_right(used, merge.right)]
        for number in numbers[bisect_left(numbers, merge.top) : bisect_right(numbers, merge.bottom)]:
            left_over -= len(columns)
            if left_over < 0:
                return filled
            if any(not merge.left <= column <= merge.right for column in grid.rows[number]):
                filled.texts.setdefault(number, {}).update(dict.fromkeys(columns, text))
    return filled
