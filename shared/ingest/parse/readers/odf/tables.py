"""Tables of OpenDocument files, with merged and repeated cells, within limits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from shared.ingest.parse.readers.markdown import as_table, one_line
from shared.ingest.parse.readers.odf.styles import attribute
from shared.ingest.parse.readers.office.drawingml import number_of
from shared.ingest.parse.readers.xml_tree import Element

_MOST_REPEATED = 200
"""A row or a cell with text is repeated so often at most."""

_MOST_EMPTY = 1_000
_MOST_FILLED = 100_000
"""Cells of a table that may be filled because they are merged."""


@dataclass(slots=True)
class OdfTable:
    """A table that is being read.

    Args:
        blocks: blocks of its only cell so far, which are its text if it stays the only one.
    """

    rows: list[list[str]] = field(default_factory=list)
    blocks: list[tuple[str, str]] = field(default_factory=list)
    _merged: dict[tuple[int, int], str] = field(default_factory=dict)

    def start_row(self) -> None:
        self.rows.append([])

    def end_row(self, row: Element) -> None:
        """Repeat the row as often as it states; an empty one once."""
        if self.rows and any(self.rows[-1]):
            count = min(number_of(attribute(row, "number-rows-repeated"), 1), _MOST_REPEATED)
            self.rows += (list(self.rows[-1]) for _ in range(count - 1))

    def add(self, cell: Element, blocks: list[tuple[str, str]]) -> None:
        """Add a cell, and remember its text for the cells that are merged with it."""
        if not self.rows:
            self.start_row()
        row, at = self.rows[-1], (len(self.rows) - 1, len(self.rows[-1]))
        text = one_line(" ".join(text for _, text in blocks))
        count = number_of(attribute(cell, "number-columns-repeated"), 1)
        if attribute(cell, "number-rows-spanned") or attribute(cell, "number-columns-spanned"):
            self._merge(cell, at, text)
        for offset in range(min(count, _MOST_REPEATED if text else _MOST_EMPTY)):
            row.append(text or self._merged.get((at[0], at[1] + offset), ""))
        self.blocks = blocks

    def _merge(self, cell: Element, at: tuple[int, int], text: str) -> None:
        height = number_of(attribute(cell, "number-rows-spanned"), 1)
        width = number_of(attribute(cell, "number-columns-spanned"), 1)
        if text and len(self._merged) + height * width <= _MOST_FILLED:
            self._merged |= {(at[0] + row, at[1] + column): text for row in range(height) for column in range(width)}

    def markdown(self) -> str:
        return as_table(self._kept())

    def text(self) -> str:
        """Return the texts of the cells in one line: a table inside a cell."""
        return " ".join(cell for row in self._kept() for cell in row if cell)

    @property
    def is_frame(self) -> bool:
        """Return whether it has one cell: a frame around text."""
        return len(self.rows) == 1 and len(self.rows[0]) == 1

    def _kept(self) -> Iterator[list[str]]:
        width = max((len(_trimmed(row)) for row in self.rows), default=0)
        return (row[:width] for row in self.rows if any(row))


def _trimmed(row: list[str]) -> list[str]:
    while row and not row[-1]:
        row = row[:-1] if len(row) < 2 else row[: max((at + 1 for at, cell in enumerate(row) if cell), default=0)]  # noqa: PLR2004
    return row
