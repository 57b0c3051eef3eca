"""Tables of reStructuredText: cells by the positions of their borders."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

_GRID = re.compile(r"\+[-=]{1,2000}+\+[-=+]{0,20000}\Z")
_SIMPLE = re.compile(r"={1,1000}+(?: +={1,1000}+)+\Z")
_WIDE = "\0"  # the second column of a wide character

_BORDERS = 2  # under the header, and the last one

Row = list[str]


def is_grid(line: str) -> bool:
    """Return whether a line is a rule of a grid table."""
    return line.startswith(("+-", "+=")) and _GRID.match(line) is not None


def is_simple(line: str) -> bool:
    """Return whether a line is a border of a simple table."""
    return line.startswith("=") and _SIMPLE.match(line) is not None


def simple_table_end(lines: Sequence[str], at: int) -> int:
    """Return the line after a simple table; 0 if it does not end."""
    borders = 0
    for end in range(at + 1, len(lines)):
        if is_simple(lines[end]) or (lines[end].startswith("==") and not lines[end].strip("= ")):
            borders += 1
            if borders == _BORDERS or end + 1 == len(lines) or not lines[end + 1]:
                return end + 1
    return 0


def grid_table(lines: Sequence[str]) -> list[Row]:
    """Return the rows of a grid table; a cell that spans several is in the first one. Header rows are one row."""
    lines = [_widened(line) for line in lines]
    bounds = sorted({at for line in lines if _is_rule(line) for at, char in enumerate(line) if char == "+"})
    rows, current, header = list[Row](), _Cells(len(bounds)), 0
    for line in lines[1:]:
        if _is_rule(line):
            rows += current.taken()
            header = header or (len(rows) if "=" in line else 0)
        if not is_grid(line):
            current.add(line, bounds)
    rows += current.taken()
    return _with_header(rows, header)


def _is_rule(line: str) -> bool:
    return "+-" in line or "+=" in line or "-+" in line


class _Cells:
    """The cells of a row that is being read."""

    def __init__(self, count: int) -> None:
        self._texts: list[list[str]] = [[] for _ in range(count)]

    def add(self, line: str, bounds: Sequence[int]) -> None:
        start = 0
        for column, bound in enumerate(bounds[1:], 1):
            if bound < len(line) and line[bound] not in "|+" and column < len(bounds) - 1:
                continue
            text = line[bounds[start] + 1 : bound].replace(_WIDE, "").strip()
            if text and text.strip("-=+"):
                self._texts[start].append(text)
            start = column

    def taken(self) -> list[Row]:
        """Return the row, if it has text, and start another one."""
        row = [" ".join(lines) for lines in self._texts[:-1]]
        self._texts = [[] for _ in self._texts]
        return [row] if any(row) else []


def _with_header(rows: list[Row], header: int) -> list[Row]:
    if header <= 1:
        return rows
    return [[" ".join(filter(None, column)) for column in zip(*rows[:header], strict=True)], *rows[header:]]


def simple_table(lines: Sequence[str]) -> list[Row]:
    """Return the rows of a simple table; a line without text in its first column continues the row above."""
    lines = [_widened(line) for line in lines]
    starts = [found.start() for found in re.finditer(r"=+", lines[0])]
    rows, header, fresh = list[Row](), 0, True
    for line in lines[1:]:
        if line.startswith("=") and not line.strip("= "):
            header, fresh = header or len(rows), True
        elif not line.strip("- ") or not line.strip():
            fresh = fresh or bool(line)
        else:
            cells = _cut(line, starts)
            if cells[0] or fresh or not rows:
                rows.append(cells)
            else:
                rows[-1] = [f"{above} {cell}".strip() for above, cell in zip(rows[-1], cells, strict=True)]
            fresh = False
    rows = [["" if cell == "\\" else cell for cell in row] for row in rows]
    return _with_header(rows, header if header < len(rows) else 0)


def _cut(line: str, starts: Sequence[int]) -> Row:
    """Return the cells of a line; a text across a gap between columns spans them."""
    cells, at, first = [""] * len(starts), 0, 0
    for column, start in enumerate(starts[1:], 1):
        if start > len(line) or line[start - 1] in (" ", _WIDE):
            cells[first] = line[at:start].replace(_WIDE, "").strip()
            at, first = start, column
    cells[first] = line[at:].replace(_WIDE, "").strip()
    return cells


def _widened(line: str) -> str:
    """Return a line in which a wide character has two columns."""
    if line.isascii():
        return line
    return "".join(char + _WIDE if unicodedata.east_asian_width(char) in "WF" else char for char in line)
