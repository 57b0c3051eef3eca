"""Ruling lines of a page, and the tables in them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from ctypes import byref, c_float, cast
from dataclasses import dataclass
from typing import Any

from pypdfium2 import raw

from shared.ingest.parse.readers.pdf import library
from shared.ingest.parse.readers.pdf.layout.cells import Cells, with_all_rows
from shared.ingest.parse.readers.pdf.layout.lines import PageLine, PageTable
from shared.ingest.parse.readers.pdf.layout.order import lines_of
from shared.ingest.parse.readers.pdf.text.words import Word

MAX_OBJECTS = 20_000
"""A page with more objects is a drawing, and is read without ruling lines."""

_MAX_DRAWN = 20_000  # lines of a page, of which each cell may draw its own
_MAX_RULINGS = 2_000  # lines of a page, after touching lines are joined
_MAX_CELLS = 20_000
_MAX_SEGMENTS = 400  # of one path
_MAX_ALL_SEGMENTS = 40_000  # of a page
_FEW_SEGMENTS = 5  # of a line or a rectangle
_MAX_DEPTH = 4  # of nested forms
_THIN = 2.5  # points
_NEAR = 3.0  # points between lines that meet
_SHORTEST = 6.0  # points
_WHOLE_PAGE = 0.9
_LEAST_CELLS = 4
_LEAST_DRAWN = 0.5
_LEAST_FULL = 0.25
_LABEL_CHARS = 60
_MOST_CHECKED = 1_000  # words over the positions of lines
_FEW_STRUCK, _MOST_STRUCK = 2, 0.1  # words, and their share, that a line of a table may go through
_MANY_LINES = 8  # between two lines
_BESIDE = 12.0  # points
_LEVEL = 2.0  # points
_WIDE = 1.0  # of the font size: a gap between two cells

Box = tuple[float, float, float, float]
"""Left, bottom, right and top."""

_Matrix = tuple[float, float, float, float, float, float]
_IDENTITY: _Matrix = (1.0, 0.0, 0.0, 1.0, 0.0, 0.0)


@dataclass(slots=True)
class Ruling:
    """A horizontal line at a height, or a vertical line at a distance from the left."""

    at: float
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Rulings:
    """The ruling lines of a page."""

    across: list[Ruling]
    down: list[Ruling]


def rulings_of(page: Any, size: tuple[float, float], angle: int) -> Rulings:
    """Return the ruling lines of a page, turned as its words.

    Args:
        page: pdfium's handle.
        size: its width and height in points.
        angle: direction of its words; another angle than a multiple of 90 yields no lines.
    """
    across, down = list[Ruling](), list[Ruling]()
    for box in _boxes(page, size[0] * size[1] * _WHOLE_PAGE) if angle % 90 == 0 else ():
        left, bottom, right, top = turned(box, angle)
        if top - bottom <= _THIN:
            if right - left >= _SHORTEST:
                across.append(Ruling((top + bottom) / 2, left, right))
        elif right - left <= _THIN:
            if top - bottom >= _SHORTEST:
                down.append(Ruling((left + right) / 2, bottom, top))
        elif top - bottom >= _SHORTEST and right - left >= _SHORTEST:
            across += [Ruling(bottom, left, right), Ruling(top, left, right)]
            down += [Ruling(left, bottom, top), Ruling(right, bottom, top)]
        if len(across) + len(down) > _MAX_DRAWN:
            return Rulings([], [])
    found = Rulings(_together(across), _together(down))
    return found if len(found.across) + len(found.down) <= _MAX_RULINGS else Rulings([], [])


def turned(box: Box, angle: int) -> Box:
    """Return a box of a page, turned as words of this direction."""
    left, bottom, right, top = box
    if angle == 90:  # noqa: PLR2004 - degrees
        return bottom, -right, top, -left
    if angle == 180:  # noqa: PLR2004
        return -right, -top, -left, -bottom
    return (-top, left, -bottom, right) if angle == 270 else box  # noqa: PLR2004


def _boxes(page: Any, most: float) -> Iterator[Box]:
    """Yield the boxes of paths that are smaller than the page, and of the straight parts of paths."""
    todo: list[tuple[int, _Matrix, int]] = []
    count = raw.FPDFPage_CountObjects(page)
    if count > MAX_OBJECTS:
        return
    todo.extend((library.address(raw.FPDFPage_GetObject(page, index)), _IDENTITY, 0) for index in range(count))
    seen = segments = 0
    while todo:
        item, outer, depth = todo.pop()
        kind = library.object_type(item)
        if kind == raw.FPDF_PAGEOBJ_PATH:
            seen += 1
            path = cast(item, raw.FPDF_PAGEOBJECT)
            count = raw.FPDFPath_CountSegments(path)
            segments += count if _FEW_SEGMENTS < count <= _MAX_SEGMENTS else 0
            if segments > _MAX_ALL_SEGMENTS:
                return
            for box in _path(path, count, outer):
                if (box[2] - box[0]) * (box[3] - box[1]) < most:
                    yield box
        elif kind == raw.FPDF_PAGEOBJ_FORM and depth < _MAX_DEPTH:
            form = cast(item, raw.FPDF_PAGEOBJECT)
            inner = _product(_matrix(form), outer)
            parts = min(raw.FPDFFormObj_CountObjects(form), MAX_OBJECTS - seen)
            seen += max(parts, 0)
            todo.extend(
                (library.address(raw.FPDFFormObj_GetObject(form, index)), inner, depth + 1) for index in range(parts)
            )


def _matrix(item: Any) -> _Matrix:
    matrix = raw.FS_MATRIX()
    if not raw.FPDFPageObj_GetMatrix(item, byref(matrix)):
        return _IDENTITY
    return matrix.a, matrix.b, matrix.c, matrix.d, matrix.e, matrix.f


def _product(one: _Matrix, two: _Matrix) -> _Matrix:
    a, b, c, d, e, f = one
    p, q, r, s, t, u = two
    return a * p + b * r, a * q + b * s, c * p + d * r, c * q + d * s, e * p + f * r + t, e * q + f * s + u


def _path(item: Any, count: int, outer: _Matrix) -> Iterator[Box]:
    if count <= _FEW_SEGMENTS:
        yield _bounds(item, outer)
        return
    if count > _MAX_SEGMENTS:
        return
    matrix = _product(_matrix(item), outer)
    x, y = c_float(), c_float()
    last: tuple[float, float] | None = None
    for index in range(count):
        part = raw.FPDFPath_GetPathSegment(item, index)
        raw.FPDFPathSegment_GetPoint(part, byref(x), byref(y))
        at = (
            matrix[0] * x.value + matrix[2] * y.value + matrix[4],
            matrix[1] * x.value + matrix[3] * y.value + matrix[5],
        )
        if last and raw.FPDFPathSegment_GetType(part) == raw.FPDF_SEGMENT_LINETO:
            box = min(last[0], at[0]), min(last[1], at[1]), max(last[0], at[0]), max(last[1], at[1])
            if min(box[2] - box[0], box[3] - box[1]) <= _THIN:
                yield box
        last = at


def _bounds(item: Any, outer: _Matrix) -> Box:
    values = [c_float() for _ in range(4)]
    if not raw.FPDFPageObj_GetBounds(item, *map(byref, values)):
        return 0.0, 0.0, 0.0, 0.0
    left, bottom, right, top = (value.value for value in values)
    if outer is _IDENTITY:
        return left, bottom, right, top
    xs = [outer[0] * x + outer[2] * y + outer[4] for x in (left, right) for y in (bottom, top)]
    ys = [outer[1] * x + outer[3] * y + outer[5] for x in (left, right) for y in (bottom, top)]
    return min(xs), min(ys), max(xs), max(ys)


def _together(lines: list[Ruling]) -> list[Ruling]:
    """Join lines of one position that touch, such as the borders of neighbouring cells."""
    kept = list[Ruling]()
    for line in sorted(lines, key=lambda line: (round(line.at), line.start)):
        last = kept[-1] if kept else None
        if last and abs(last.at - line.at) <= 1.5 and line.start <= last.end + _NEAR and line.start >= last.start:  # noqa: PLR2004
            last.end = max(last.end, line.end)
        else:
            kept.append(Ruling(line.at, line.start, line.end))
    return kept


def ruled_tables(words: Sequence[Word], rulings: Rulings) -> tuple[list[tuple[PageTable, Box]], list[Word]]:
    """Return the tables in ruling lines, each with its box, and the words outside of them."""
    tables = list[tuple[PageTable, Box]]()
    rest = list(words)
    for across, down in _grids(rulings):
        grid = _Grid(across, down)
        if table := grid.table(rest):
            tables.append((table, grid.box))
            taken = {id(word) for line in table.lines for word in line.words}
            rest = [word for word in rest if id(word) not in taken]
    return tables, rest


def _grids(rulings: Rulings) -> Iterator[tuple[list[Ruling], list[Ruling]]]:
    """Yield the groups of lines that cross each other, the largest first."""
    lines = [*rulings.across, *rulings.down]
    first_down = len(rulings.across)
    parent = list(range(len(lines)))

    def root(index: int) -> int:
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    order = sorted(range(first_down), key=lambda index: lines[index].at)
    heights = [lines[index].at for index in order]
    for index in range(first_down, len(lines)):
        down = lines[index]
        at = bisect_right(heights, down.start - _NEAR)
        while at < len(order) and heights[at] <= down.end + _NEAR:
            across = lines[order[at]]
            if across.start - _NEAR <= down.at <= across.end + _NEAR:
                parent[root(order[at])] = root(index)
            at += 1
    groups: dict[int, tuple[list[Ruling], list[Ruling]]] = {}
    for index, line in enumerate(lines):
        groups.setdefault(root(index), ([], []))[index >= first_down].append(line)
    found = [group for group in groups.values() if len(group[0]) > 1 and len(group[1]) > 1]
    yield from sorted(found, key=lambda group: -len(group[0]) * len(group[1]))


class _Grid:
    def __init__(self, across: Sequence[Ruling], down: Sequence[Ruling]) -> None:
        self._across, self._down = across, down
        self._ys = _places(across)[::-1]
        self._xs = _places(down)
        self._rows = _near(across, self._ys)
        self._columns = _near(down, self._xs)

    @property
    def box(self) -> Box:
        return self._xs[0], self._ys[-1], self._xs[-1], self._ys[0]

    def table(self, words: Sequence[Word]) -> PageTable | None:
        """Return the table of the words inside; None if this is a frame or a drawing."""
        if (len(self._xs) - 1) * (len(self._ys) - 1) < _LEAST_CELLS or len(self._xs) < 3 or len(self._ys) < 3:  # noqa: PLR2004
            return None
        if len(self._xs) * len(self._ys) > _MAX_CELLS or self._drawn() < _LEAST_DRAWN or self._crosses_words(words):
            return None
        cells = self._filled(words)
        rows = [row for row in cells if any(row)]
        columns = [index for index in range(len(self._xs) - 1) if any(row[index] for row in rows)]
        if len(rows) < 2 or len(columns) < 2 or len(rows) * 3 < len(cells):  # noqa: PLR2004 - a table has two of both
            return None
        if not _is_filled([[row[index] for index in columns] for row in rows]):
            return None
        edges = tuple(self._xs[index] for index in columns)
        lines = [[lines_of(row[index]) for index in columns] for row in rows]
        if continues_outside(lines, self.box, words):
            return None
        places = [index for index, row in enumerate(cells) if any(row)]
        return PageTable(list(self._with_labels(lines, places, columns)), edges, ruled=True)

    def _with_labels(self, rows: Sequence[Cells], places: Sequence[int], columns: Sequence[int]) -> Iterator[Cells]:
        """Yield rows, each with the labels at its start that are printed once for several rows below the header.

        Args:
            rows: the rows with words.
            places: their rows in the grid.
            columns: the columns of the grid with words.
        """
        labels: Cells = []
        for index, (row, place) in enumerate(zip(rows, places, strict=True)):
            pairs = enumerate(zip(labels, columns, strict=False))
            own = (at for at, (_, column) in pairs if row[at] or not self._continues(places[index - 1], place, column))
            merged = labels[: next(own, len(labels))]
            for one in with_all_rows(row):
                yield [*merged, *one[len(merged) :]]
            labels = [*merged, *row[len(merged) :]] if index else []
            labels = labels[: next((at for at, label in enumerate(labels) if not _is_label(label)), len(labels))]

    def _continues(self, above: int, row: int, column: int) -> bool:
        """Return whether no line divides a cell from the cells above it, up to another row."""
        x = (self._xs[column] + self._xs[column + 1]) / 2
        y = (self._ys[row] + self._ys[row + 1]) / 2
        is_open = not any(_crosses(self._rows[at], x) for at in range(above + 1, row + 1))
        return is_open and _crosses(self._columns[column], y)

    def _crosses_words(self, words: Sequence[Word]) -> bool:
        """Return whether upright lines go through words, as arrows of a diagram do that start and end at its boxes."""
        left, bottom, right, top = self.box
        inside = [word for word in words if left <= word.x0 <= right and bottom <= word.y <= top]
        spans = ((word, bisect_right(self._xs, word.x0 + 1), bisect_left(self._xs, word.x1 - 1)) for word in inside)
        over = [(word.y + word.style.size / 4, first) for word, first, end in spans if first < end]
        struck = sum(_crosses(self._columns[first], y) for y, first in over[:_MOST_CHECKED])
        return struck > max(_FEW_STRUCK, len(inside) * _MOST_STRUCK)

    def _drawn(self) -> float:
        """Return the share of the borders between all cells that are drawn; merged cells lack some, drawings most."""
        xs, ys = self._xs, self._ys
        whole = (len(xs) - 2) * (ys[0] - ys[-1]) / (len(ys) - 1) + (len(ys) - 2) * (xs[-1] - xs[0]) / (len(xs) - 1)
        down = sum(line.end - line.start for line in self._down if xs[0] + _NEAR < line.at < xs[-1] - _NEAR)
        across = sum(line.end - line.start for line in self._across if ys[-1] + _NEAR < line.at < ys[0] - _NEAR)
        return (down / (len(ys) - 1) + across / (len(xs) - 1)) / whole if whole else 0.0

    def _filled(self, words: Sequence[Word]) -> list[list[list[Word]]]:
        columns, rows = len(self._xs) - 1, len(self._ys) - 1
        heights = [-y for y in self._ys]
        found: dict[tuple[int, int], list[tuple[int, Word]]] = {}
        first: dict[tuple[int, int], tuple[int, int]] = {}
        for word in words:
            x, y = (word.x0 + word.x1) / 2, word.y + word.style.size / 4
            column, row = bisect_right(self._xs, x) - 1, bisect_right(heights, -y) - 1
            if 0 <= column < columns and 0 <= row < rows:
                if (row, column) not in first:
                    first[row, column] = self._first(row, column)
                found.setdefault(first[row, column], []).append((column, word))
        cells: list[list[list[Word]]] = [[[] for _ in range(columns)] for _ in range(rows)]
        for (row, column), inside in found.items():
            for start, part in self._parted(column, inside):
                cells[row][start] += part
        return cells

    def _parted(self, first: int, words: Sequence[tuple[int, Word]]) -> Iterator[tuple[int, list[Word]]]:
        """Yield the parts of a merged cell at columns whose line is not drawn there, each with its column.

        Each printed line leaves a wide gap at the column, as rows do that are filled with one colour.
        """
        columns = sorted({column for column, _ in words})
        cuts = [at for at in columns[1:] if _leaves(self._xs[at], [word for _, word in words])]
        parts: dict[int, list[Word]] = {}
        for column, word in words:
            at = bisect_right(cuts, column)
            parts.setdefault(cuts[at - 1] if at else first, []).append(word)
        yield from parts.items()

    def _first(self, row: int, column: int) -> tuple[int, int]:
        """Return the first cell of a merged cell. An area that no line closes on the left, as of totals, has cells."""
        y = (self._ys[row] + self._ys[row + 1]) / 2
        own = column
        while column and not _crosses(self._columns[column], y):
            column -= 1
        if not column and own and not _crosses(self._columns[0], y):
            return row, own
        x = (self._xs[column] + self._xs[column + 1]) / 2
        while row and not _crosses(self._rows[row], x):
            row -= 1
        return row, column


def _is_label(cell: Sequence[PageLine]) -> bool:
    """Return whether a cell may name several rows; a longer text next to them is not repeated."""
    return bool(cell) and sum(line.chars for line in cell) <= _LABEL_CHARS


def _is_filled(rows: Sequence[Sequence[list[Word]]]) -> bool:
    """Return whether most rows have several cells with words, and enough cells have words."""
    full = [sum(map(bool, row)) for row in rows]
    return sum(count > 1 for count in full) * 2 >= len(rows) and sum(full) >= len(rows) * len(rows[0]) * _LEAST_FULL


def _leaves(x: float, words: Sequence[Word]) -> bool:
    """Return whether words leave a wide gap at a distance from the left, on each printed line."""
    ends: dict[int, float] = {}
    starts: dict[int, float] = {}
    for word in words:
        if word.x0 < x - 1 and word.x1 > x + 1:
            return False
        line = round(word.y / word.style.size)
        if word.x1 <= x + 1:
            ends[line] = max(ends.get(line, word.x1), word.x1)
        else:
            starts[line] = min(starts.get(line, word.x0), word.x0)
    gaps = [starts[line] - end for line, end in ends.items() if line in starts]
    return bool(gaps) and min(gaps) > _WIDE * words[0].style.size


def continues_outside(rows: Iterable[Iterable[Iterable[PageLine]]], box: Box, words: Iterable[Word]) -> bool:
    """Return whether lines only divide groups of columns: a row has many printed lines, which continue outside."""
    levels = ({round(line.y / _LEVEL) for cell in row for line in cell} for row in rows)
    inside = max(levels, key=len, default=set[int]())
    if len(inside) < _MANY_LINES:
        return False
    left, bottom, right, top = box
    level = {
        round(word.y / _LEVEL)
        for word in words
        if bottom <= word.y <= top and (0 <= left - word.x1 <= _BESIDE or 0 <= word.x0 - right <= _BESIDE)
    }
    return len(inside & level) * 2 >= len(inside)


def _near(lines: Sequence[Ruling], places: Sequence[float]) -> list[list[Ruling]]:
    """Return for each position of a grid the lines that are drawn there."""
    ordered = sorted(lines, key=lambda line: line.at)
    ats = [line.at for line in ordered]
    return [ordered[bisect_left(ats, at - _NEAR) : bisect_right(ats, at + _NEAR)] for at in places]


def _crosses(lines: Sequence[Ruling], position: float) -> bool:
    return any(line.start - 1 <= position <= line.end + 1 for line in lines)


def _places(lines: Sequence[Ruling]) -> list[float]:
    places = list[float]()
    for at in sorted(line.at for line in lines):
        if not places or at - places[-1] > _NEAR:
            places.append(at)
    return places
