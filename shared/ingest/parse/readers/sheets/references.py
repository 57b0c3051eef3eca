"""References of cells, such as `B2:D9`, and letters of columns (ECMA-376 part 1, section 18.17.2.3)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?\Z")


@dataclass(frozen=True, slots=True)
class CellRange:
    """A range of cells: first and last row, first and last column, from 0."""

    top: int
    bottom: int
    left: int
    right: int


def range_of(reference: str) -> CellRange | None:
    """Return the cells of a reference such as `B2:D9`."""
    found = _REFERENCE.match(reference.strip().upper())
    if not found:
        return None
    left, top = column_of(found[1]), int(found[2]) - 1
    right, bottom = (column_of(found[3]), int(found[4]) - 1) if found[3] else (left, top)
    return CellRange(min(top, bottom), max(top, bottom), min(left, right), max(left, right))


def column_of(letters: str) -> int:
    """Return the number of a column, from 0."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


def column_letters(column: int) -> str:
    """Return the letters of a column, which is counted from 0."""
    letters = ""
    column += 1
    while column:
        column, digit = divmod(column - 1, 26)
        letters = chr(ord("A") + digit) + letters
    return letters
