"""The cells of a sheet as Markdown: its tables, each with one header row, and the paragraphs around them.

A header is recognised by its labels: texts, years and dates above other values. Chunks repeat a table's header, so a
title is never one.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from shared.ingest.parse.readers.sheets.tables import WIDE_HEADER_CHARS, one_line, paragraph, records, table

Cells = Mapping[int, str]
"""The cells of a row by column, from 0; none is blank."""

_SEARCHED_ROWS = 30
"""A header is searched for in so many rows of a table."""

_ROWS_BELOW = 4
_MOST_HEADER_ROWS = 4
_PROSE_CHARS = 60
_FEW_ROWS = 3
_DENSE = 0.05
_SMALL = 50_000
_MOST_FILLED = 1_000_000
"""Merged cells repeat at most so many texts."""

_REPEATED_CHARS = 200
"""A longer text of a merged cell is not repeated."""

_LABELS_FILLED = 0.6
"""A header names this share of the columns that a row has."""

_NUMBER = re.compile(
    r"[^\w]{0,4}(?:[A-Z]{1,3}[ \u00a0]?)?[-+(]?\d[\d.,'\u2019/:%\s\u00a0-]{0,40}[^\w]{0,3}[A-Za-z€$£¥]{0,3}\)?\Z"
)
_YEAR = re.compile(r"(?:1[89]|20|21)\d\d\Z")
_LONG_NUMBER_CHARS = 60


@dataclass(frozen=True, slots=True)
class Merge:
    """A merged range: first and last row, first and last column, from 0."""

    top: int
    bottom: int
    left: int
    right: int


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
    merges: Sequence[Merge] = ()
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


Numbered = tuple[int, Cells]
Band = list[Numbered]


@dataclass(slots=True)
class _Filled:
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

    def blocks(self, filled: _Filled) -> Iterator[str]:
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

    def _table(self, columns: Sequence[int], filled: _Filled) -> Iterator[str]:
        names = _names(self.header, columns, self.spans)
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
    for gap in gaps[:_SEARCHED_ROWS]:
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
    keyed = len(keys) * 2 > len(right) - 1 and sum(not _is_number(key) for key in keys) * 2 > len(keys)
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
    inside = all(columns.issuperset(cells) for _, cells in band[:_SEARCHED_ROWS])
    return inside and len(first) > 1 and any(_is_value(text) for text in first.values())


def _fits_under(header: _Table, band: Band) -> bool:
    """Return whether a row of labels above an empty row is the header of the band below it."""
    labels = header.rows[0][1]
    if any(_is_value(text) for text in labels.values()):
        return False
    columns = set(_columns(band))
    return columns <= set(labels) and len(band[0][1]) > 1 and any(_is_value(text) for text in band[0][1].values())


def _table(band: Band, grid: Grid) -> _Table:
    spans = _spans(band, grid.merges)
    first, after = _header(band, grid.headers, spans)
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


def _header(
    band: Band, declared: Collection[int], spans: Mapping[int, Sequence[tuple[int, int]]]
) -> tuple[int | None, int]:
    """Return the first row of the header in a band and the row after it; (None, 0) if it has none."""
    head = band[:_SEARCHED_ROWS]
    at = next((index for index, (number, _) in enumerate(head) if number in declared), None)
    sure = at is not None
    if at is None:
        at = _labels_row(head, spans)
    if at is None or (at + 1 == len(band) and not sure):
        return None, 0
    first, after = at, at + 1
    while not sure and first and first > at - _MOST_HEADER_ROWS and _is_above(band[first - 1], band[first], spans):
        first -= 1
    while after - first < _MOST_HEADER_ROWS and after < len(band) - 1 and _is_below(band, after, spans):
        after += 1
    return first, after


def _labels_row(head: Band, spans: Mapping[int, Sequence[tuple[int, int]]]) -> int | None:
    """Return the first row that names most columns of the rows below it; None if a row of values is above it."""
    for index, (number, cells) in enumerate(head):
        below = sorted(
            len(following) for _, following in head[index + 1 : index + 1 + _ROWS_BELOW] if len(following) > 1
        )
        usual = below[len(below) // 2] if below else 0
        covered = len(cells) + sum(right - left for left, right in spans.get(number, ()))
        if len(cells) < 2 or covered < usual * _LABELS_FILLED:  # noqa: PLR2004 - one text is a title
            continue
        if _is_labels(cells):
            if len(cells) * 2 >= usual or _groups(head[index], spans):
                return index
        elif covered >= usual:
            return None
    return None


def _is_labels(cells: Cells) -> bool:
    return not any(_is_value(text) for text in cells.values())


def _is_value(text: str) -> bool:
    return _is_number(text) and not _YEAR.match(text)


def _is_number(text: str) -> bool:
    return len(text) < _LONG_NUMBER_CHARS and _NUMBER.match(text) is not None


def _groups(row: Numbered, spans: Mapping[int, Sequence[tuple[int, int]]]) -> Sequence[tuple[int, int]]:
    """Return the ranges of columns that the labels of a row are above of, if it has at least one merged range."""
    number, _ = row
    return [span for span in spans.get(number, ()) if span[1] > span[0]]


def _is_above(upper: Numbered, lower: Numbered, spans: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
    """Return whether a row has labels of groups of the columns that the row below names."""
    cells, named = upper[1], lower[1]
    if upper[0] + 1 != lower[0] or not _is_labels(cells):
        return False
    if groups := _groups(upper, spans):
        whole = len(groups) == 1 and len(cells) == 1 and groups[0][1] - groups[0][0] + 1 >= len(named)
        return not whole
    if len(cells) < 2 or len(cells) * 2 > len(named) + 1:  # noqa: PLR2004 - one text is a title
        return False
    columns = sorted(named)
    starts = [column for column in cells if column in named]
    alone = [column for column in starts if column + 1 in cells or column + 1 not in named]
    return len(starts) == len(cells) and not alone and len(columns) > len(starts)


def _is_below(band: Band, at: int, spans: Mapping[int, Sequence[tuple[int, int]]]) -> bool:
    """Return whether the row `at` names the columns below the groups of the row above it."""
    upper, lower = band[at - 1], band[at]
    if upper[0] + 1 != lower[0] or not _is_labels(lower[1]):
        return False
    groups = _groups(upper, spans)
    grouped = {column for left, right in groups for column in range(left, min(right, left + 16_384) + 1)}
    both = [column for column in lower[1] if column in upper[1] and column not in grouped]
    numeric = any(
        _is_value(text) for _, cells in band[at + 1 : at + 4] for column, text in cells.items() if column in lower[1]
    )
    if groups:
        labels = [text for column, text in lower[1].items() if column in grouped]
        repeated = len(set(labels)) < len(labels)
        return len(labels) > 1 and not both and (numeric or repeated or len(lower[1]) < len(upper[1]) + len(labels))
    gaps = {column for _, cells in band[at + 1 : at + 4] for column in cells} - set(upper[1])
    return bool(gaps) and gaps <= set(lower[1]) and not both and numeric and len(upper[1]) > 1


def _names(header: Band, columns: Sequence[int], spans: Mapping[int, Sequence[tuple[int, int]]]) -> dict[int, str]:
    """Return the name of each column, from all rows of the header; of no column if there is none."""
    names = dict.fromkeys(columns, "") if header else {}
    for depth, (number, cells) in enumerate(header):
        last = depth == len(header) - 1
        for column, text in _spread(cells, columns, spans.get(number, ()), last=last).items():
            if column in names:
                names[column] = _joined_name(names[column], one_line(text))
    return names


def _joined_name(upper: str, lower: str) -> str:
    if not upper or upper == lower:
        return lower
    return f"{lower} {upper}" if _YEAR.match(upper) and not _YEAR.match(lower) else f"{upper} {lower}"


def _spread(cells: Cells, columns: Sequence[int], spans: Iterable[tuple[int, int]], *, last: bool) -> Cells:
    """Return the labels of a header row in which the label of a group is repeated over its columns."""
    out = dict(cells)
    merged = dict(spans)
    wide = {left for left, right in merged.items() if right > left}
    for left, right in merged.items():
        if left in cells:
            out.update({column: cells[left] for column in columns if left <= column <= right})
    if last or wide:
        return out
    label = ""
    for column in columns:
        label = cells.get(column, label)
        if label and column not in merged:
            out.setdefault(column, label)
    return out


def _spans(band: Band, merges: Sequence[Merge]) -> dict[int, list[tuple[int, int]]]:
    """Return the merged ranges that start in the first rows of a band, by row."""
    rows = dict(band[:_SEARCHED_ROWS])
    found: dict[int, list[tuple[int, int]]] = {}
    for merge in merges:
        if merge.top in rows and merge.left in rows[merge.top]:
            found.setdefault(merge.top, []).append((merge.left, merge.right))
    return found


def _sentence(cells: Cells) -> str:
    """Return the cells of a row outside of a table as one line."""
    texts = [one_line(cells[column]) for column in sorted(cells)]
    if len(texts) == 2 and not texts[0].endswith(":"):  # noqa: PLR2004 - a name and its value
        return ": ".join(texts)
    return " ".join(
        f"{text}," if index < len(texts) - 1 and not text.endswith((":", ",")) else text
        for index, text in enumerate(texts)
    )


def _filled(grid: Grid) -> _Filled:
    """Return the texts that merged cells repeat; a merged cell that is alone in its rows repeats nothing."""
    filled = _Filled({})
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
