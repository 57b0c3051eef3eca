"""The cells of tables: columns that most rows leave apart, and rows of several printed lines."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import inf
from statistics import median

from shared.ingest.parse.readers.pdf.layout.columns import (
    at_columns,
    by_column,
    columns_of,
    is_text,
    merged,
    split_at_gaps,
)
from shared.ingest.parse.readers.pdf.layout.lines import PageLine, PageTable, rows_of

_HEADER_ROWS = 2
_OTHER_GAP = 0.12  # of the font size: a gap between rows is so much larger than one between the lines of a cell
_WIDEST_GAP = 1.0  # of the font size, above which gaps do not differ
_LARGER = 1.15  # times the font size: a heading
_LEAST_BANDS = 3
_LEAST_RAGGED = 2
_MOST_LINES = 14  # of a cell
_FLUSH = 2.0  # points
_LEAST_INSIDE = 2  # lines that continue cells
_EQUAL = 1.03
_FEW_TALL = 3  # cells of several lines
_LEVEL = 0.35  # of the font size
_MOSTLY = 0.8
_LEAST_LABELS, _MOST_LABELS = 3, 300
_FULL_COLUMN = 0.7
_FULL, _FULL_FEW = 0.55, 0.9  # share of the cells with text, of many rows and of few
_MARK = re.compile(r".*[:\uff1a]|[\W\d_]{1,7}|\(?[a-z]{1,4}[.)]|[a-z]\.[\d.]+", re.IGNORECASE)
_SIGN = re.compile(r"[$€£¥₹]|[A-Z]{3}")
_NUMBER = re.compile(r"\d")
_YEAR = re.compile(r"(?:19|20)\d\d")
_CLOSING = re.compile(r"[%)*†‡]+|%\)")

Columns = Sequence[Sequence[float]]
Cells = list[list[PageLine]]
Rows = Sequence[list[PageLine]]


def table_columns(rows: Rows) -> list[list[float]]:
    """Return the columns of a table. Its first rows may be headers over several columns."""
    fine = [split_at_gaps(row) for row in rows]
    columns = _spans(fine)
    for lead in range(1, _HEADER_ROWS + 1):
        if len(fine) <= lead + 1:
            break
        below = _spans(fine[lead:])
        between = len(below) < len(columns) and all(len(row) < len(below) for row in fine[:lead])
        if len(below) > len(columns) or between:
            columns = below
    return _with_signs(rows, columns)


def _with_spans(columns: Columns, rows: Rows) -> list[list[float]]:
    """Return columns with the columns of further rows."""
    return merged([*map(list, columns), *_spans(rows)])


def _spans(rows: Rows) -> list[list[float]]:
    return columns_of(line for row in rows for line in row)


def _with_signs(rows: Rows, columns: list[list[float]]) -> list[list[float]]:
    """Join a column that has only currency signs with the next one, and one of percent signs with the one before it."""
    joined = list[list[float]]()
    opens = False
    for lines, column in zip(by_column(rows, columns), columns, strict=True):
        texts = [line.text for line in lines]
        closes = bool(joined) and all(map(_CLOSING.fullmatch, texts))
        if opens or closes:
            joined[-1][1] = column[1]
        else:
            joined.append(list(column))
        opens = all(map(_SIGN.fullmatch, texts)) and bool(texts)
    return joined


def with_whole_header(rows: list[Cells], columns: Columns) -> list[Cells]:
    """Join the names of columns in the second row of a table with the names of their groups in the first row."""
    if len(rows) <= _HEADER_ROWS or all(rows[0]) or not any(rows[0]) or not all(rows[1][1:]):
        return rows
    if any(map(is_value, (*rows[0], *rows[1]))) or not any(is_value(cell) for row in rows[2:4] for cell in row):
        return rows
    return [[one + two for one, two in zip(_spread(rows[0], columns), rows[1], strict=True)], *rows[2:]]


def _spread(header: Cells, columns: Columns) -> Cells:
    """Return a header in which each column has the name of its group, which is in the middle of its columns."""
    spread = list(header)
    for at, cell in enumerate(header):
        end = at + 1
        while cell and end < len(header) and not header[end]:
            end += 1
        if end == at + 1 or not at:
            continue
        middle = (cell[0].x0 + cell[0].x1) / 2
        if abs(cell[0].x0 - columns[at][0]) > 2:  # noqa: PLR2004 - points
            end = min(range(at + 1, end + 1), key=lambda last: abs(columns[at][0] + columns[last - 1][1] - 2 * middle))
        spread[at:end] = [cell] * (end - at)
    return spread


def is_value(cell: Sequence[PageLine]) -> bool:
    """Return whether a cell has a number that is not a year, as headers have."""
    text = " ".join(line.text for line in cell)
    return bool(_NUMBER.search(text)) and not _YEAR.fullmatch(text) and not any(map(str.isalpha, text))


def cells_of(row: Sequence[PageLine], columns: Columns) -> Cells:
    """Return the cells of a printed line; a line over the gap between two columns is divided if no word crosses it."""
    return by_column([at_columns(row, columns)], columns)


def spaced_table(rows: Rows) -> tuple[int, PageTable, int] | None:
    """Return the table that rows are, whose cells have several lines and whose rows are apart.

    Returns:
        The number of lines in front of the table, the table, and the number of lines up to its end. None if the rows
        are not such a table: columns of text have no gaps in common.
    """
    bands = _bands(rows)
    if sum(len(band) > 1 for band in bands) < _LEAST_RAGGED or len(bands) < _LEAST_BANDS:
        return None
    first, last = 0, len(bands)
    while first < last and all(len(row) == 1 for row in bands[first]):
        first += 1
    lines = [row for band in bands[first:] for row in band]
    columns = table_columns([row for row in lines if len(row) > 1])
    single = [at_columns(row, columns) for row in lines if len(row) == 1 and not crosses(row, columns)]
    columns = _with_spans(columns, single)
    crossed = (at for at in range(first + _HEADER_ROWS, last) if any(crosses(row, columns) for row in bands[at]))
    last = next(crossed, last)
    while first < last and all(len(row) == 1 for row in bands[last - 1]):
        last -= 1
    inside = bands[first:last]
    if len(inside) < _LEAST_BANDS or len(columns) < 2:  # noqa: PLR2004 - a table has two of both
        return None
    cells = [band_cells(band, columns) for band in inside]
    if not _are_rows(cells, columns):
        return None
    cells = [one for row in cells for one in with_all_rows(row)]
    table = PageTable(with_whole_header(cells, columns), tuple(start for start, _ in columns))
    before = sum(map(len, bands[:first]))
    return before, table, before + sum(map(len, inside))


def crosses(row: Sequence[PageLine], columns: Columns) -> bool:
    """Return whether a line of a row is over several columns."""
    starts, ends = [start for start, _ in columns], [end for _, end in columns]
    return any(bisect_left(starts, line.x1) - bisect_right(ends, line.x0) > 1 for line in at_columns(row, columns))


def _bands(rows: Rows) -> list[list[list[PageLine]]]:
    """Divide rows at gaps that are larger than those between the lines of a cell."""
    gaps, low = list[float](), rows[0][0].bottom
    for above, row in pairwise(rows):
        low = min(low, *(line.bottom for line in above))
        gaps.append((low - max(line.top for line in row)) / row[0].size)
    limit = _limit(gaps)
    bands = [[rows[0]]]
    for row, gap in zip(rows[1:], gaps, strict=True):
        if gap > limit or ends_header(bands[-1][-1], row):
            bands.append([])
        bands[-1].append(row)
    return bands


def ends_header(above: Sequence[PageLine], row: Sequence[PageLine]) -> bool:
    """Return whether a printed line above a row of a table is a larger heading, or several bold names of columns."""
    if len(above) == 1:
        return above[0].size > _LARGER * max(line.size for line in row)
    return len(row) > 1 and is_bold(above) and not any(word.style.bold for line in row for word in line.words)


def is_bold(row: Sequence[PageLine]) -> bool:
    """Return whether all words of a row are bold."""
    return all(word.style.bold for line in row for word in line.words)


def _limit(gaps: Sequence[float]) -> float:
    """Return the middle of the widest distance between gaps of two kinds; the widest gap if all are of one kind."""
    ordered = sorted(max(0.0, min(gap, _WIDEST_GAP)) for gap in gaps)
    steps = [(above - below, (above + below) / 2) for below, above in pairwise(ordered)]
    step, limit = max(steps, default=(0.0, 0.0))
    return limit if step >= _OTHER_GAP else max(gaps, default=0.0)


def band_cells(band: Rows, columns: Columns) -> Cells:
    """Return the lines of printed lines by their columns, as cells of one row."""
    cells: Cells = [[] for _ in columns]
    for row in band:
        for cell, lines in zip(cells, cells_of(row, columns), strict=True):
            cell.extend(lines)
    return cells


def _are_rows(cells: Sequence[Cells], columns: Columns) -> bool:
    """Return whether cells of different numbers of lines start, end or are centred on one level in most rows."""
    several = [row for row in cells if sum(map(bool, row)) > 1]
    ragged = [row for row in several if len({len(cell) for cell in row if cell}) > 1]
    parts = [[line for row in cells for line in row[at]] for at in range(len(columns))]
    prose = all(is_text(part, end - start) for part, (start, end) in zip(parts, columns, strict=True))
    least = len(several) / 2 if prose else 0
    filled = sum(bool(cell) for row in cells for cell in row)
    if filled < len(cells) * len(columns) * (_FULL if len(cells) > _LEAST_BANDS else _FULL_FEW):
        return False
    if len(several) * 3 < len(cells) * 2 or len(ragged) < max(_LEAST_RAGGED, least):
        return False
    if any(line.table or len(cell) > _MOST_LINES for row in cells for cell in row for line in cell):
        return False
    if len(columns) == 2 and are_marks([row[0] for row in cells]):  # noqa: PLR2004 - marks and their texts
        return False
    if not are_flush(cells) or any(_runs_through([row[at] for row in cells if row[at]]) for at in range(len(columns))):
        return False
    level = sum(map(is_level, several))
    return level >= len(several) * _MOSTLY and sum(map(has_rows, cells)) * 3 <= len(cells)


def are_marks(cells: Sequence[Sequence[PageLine]]) -> bool:
    """Return whether most cells are numbers of clauses, or labels with a colon."""
    marks = sum(all(_MARK.fullmatch(line.text) for line in cell) for cell in cells)
    return marks >= len(cells) * _MOSTLY


def _runs_through(column: Sequence[Sequence[PageLine]]) -> bool:
    """Return whether the distances between the cells of a column are not larger than those between their lines."""
    inside = [above.y - below.y for cell in column for above, below in pairwise(cell)]
    between = [above[-1].y - below[0].y for above, below in pairwise(column)]
    return len(inside) >= _LEAST_INSIDE and median(between or [inf]) <= median(inside) * _EQUAL


def are_flush(cells: Sequence[Cells]) -> bool:
    """Return whether most cells of several lines start or end at one distance from the left, unlike labels of figures.

    Headers do not count, because they are often centred. Figures have gaps, so tables without empty cells are flush.
    """
    if sum(bool(cell) for row in cells for cell in row) >= len(cells) * len(cells[0]) * _MOSTLY:
        return True
    tall = [rows for rows in (rows_of(cell) for row in cells[1:] for cell in row if cell) if len(rows) > 1]
    return len(tall) < _FEW_TALL or sum(map(_is_flush, tall)) * 2 >= len(tall)


def _is_flush(rows: Rows) -> bool:
    return any(max(ends) - min(ends) <= _FLUSH for ends in ([row[0].x0 for row in rows], [row[-1].x1 for row in rows]))


def is_level(row: Cells) -> bool:
    """Return whether the cells of a row start on one level, or end, or have one middle."""
    filled = [cell for cell in row if cell]
    size = max(line.size for cell in filled for line in cell)
    tops, ends = [cell[0].y for cell in filled], [cell[-1].y for cell in filled]
    middles = [(top + end) / 2 for top, end in zip(tops, ends, strict=True)]
    return any(max(ys) - min(ys) <= _LEVEL * size for ys in (tops, ends, middles))


def has_rows(row: Cells) -> bool:
    """Return whether lines of cells are rows: a cell has only numbers, or the first and most others are as long."""
    filled = [cell for cell in row if cell]
    levels = max(map(len, filled), default=0)
    if levels < 2 or len(filled) < 2:  # noqa: PLR2004 - several lines in several cells
        return False
    if any(len(cell) > 1 and all(is_value([line]) for line in cell) for cell in filled):
        return True
    full = [len(cell) >= levels * _FULL_COLUMN for cell in filled]
    return bool(row[0]) and full[0] and sum(full) * 2 >= len(full)


def with_all_rows(row: Cells) -> list[Cells]:
    """Return the rows between two ruling lines: several if labels and numbers are printed side by side."""
    filled = [cell for cell in row if cell]
    if not _has_numbered_rows(filled):
        return [row]
    labels = row.index(filled[0])
    rows = list[Cells]()
    for level in rows_of(line for cell in filled for line in cell):
        here = set(map(id, level))
        cells = [[line for line in cell if id(line) in here] for cell in row]
        if rows and not cells[labels] and not any(map(is_value, filter(None, cells))):
            rows[-1] = [one + two for one, two in zip(rows[-1], cells, strict=True)]
        else:
            rows.append(cells)
    return rows


def _has_numbered_rows(cells: Sequence[list[PageLine]]) -> bool:
    """Return whether the first cell has several labels, and another one has a number next to most of them."""
    if len(cells) < 2 or not _LEAST_LABELS <= len(cells[0]) <= max(map(len, cells)) <= _MOST_LABELS:  # noqa: PLR2004
        return False
    labels = cells[0]
    if sum(any(map(str.isalpha, line.text)) for line in labels) < len(labels) * _MOSTLY:
        return False
    for cell in cells[1:]:
        values = [line for line in cell if is_value([line]) and not line.text.endswith(",")]
        level = sum(any(abs(line.y - label.y) <= _LEVEL * label.size for line in values) for label in labels)
        if len(values) == len(cell) and level >= max(_LEAST_LABELS, len(labels) / 2):
            return True
    return False
