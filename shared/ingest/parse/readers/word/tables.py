"""Tables of Word: merged cells are filled, and tables that only arrange text are taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from shared.ingest.parse.readers.word.blocks import WordBlock, in_one_line

LABEL_CHARS = 120
"""A longer text of merged cells is not repeated, because it is not a label."""

MOST_COLUMNS = 63
"""Word's own limit."""

_LONG_CELL_CHARS = 200
_MOST_HEADER_ROWS = 3
_LONGEST_HEADER_CHARS = 800


@dataclass(slots=True)
class WordCell:
    """A cell.

    Args:
        blocks: its text.
        span: number of its columns.
        merged: "restart" for the first of cells merged downwards, "continue" for the others.
    """

    blocks: list[WordBlock] = field(default_factory=list)
    span: int = 1
    merged: str | None = None


@dataclass(slots=True)
class WordRow:
    """A row.

    Args:
        cells: its cells.
        header: whether it is repeated on each page.
        before: number of columns that it leaves out at its start.
    """

    cells: list[WordCell] = field(default_factory=list)
    header: bool = False
    before: int = 0

    @property
    def width(self) -> int:
        return self.before + sum(cell.span for cell in self.cells)


def blocks_of(rows: Sequence[WordRow]) -> list[WordBlock]:
    """Return a table as a block, with the titles above it, or its cells if it only arranges text."""
    rows = [row for row in rows if row.cells]
    if _arranges(rows):
        return [block for row in rows for cell in row.cells for block in cell.blocks]
    titles = 0
    width = max(row.width for row in rows)
    while titles < len(rows) - 2 and _is_title(rows[titles], width):
        titles += 1
    above = [block for row in rows[:titles] for block in row.cells[0].blocks]
    rows = rows[titles:]
    pictures = [name for row in rows for cell in row.cells for block in cell.blocks for name in block.pictures]
    filled = _filled(rows, min(width, MOST_COLUMNS))
    if not any(any(row) for row in filled):
        return [*above, WordBlock(pictures=pictures)]
    return [*above, WordBlock(kind="table", rows=_with_one_header(filled, _header_rows(rows)), pictures=pictures)]


def _arranges(rows: Sequence[WordRow]) -> bool:
    """Return whether a table has one cell, or cells with several paragraphs in one row or column, or below headings."""
    cells = [cell for row in rows for cell in row.cells]
    if len(cells) <= 1:
        return True
    if any(len(cell.blocks) > 1 and any(block.kind == "heading" for block in cell.blocks) for cell in cells):
        return True
    if len(rows) == 1 or all(len(row.cells) == 1 and not row.cells[0].merged for row in rows):
        return any(_filled_blocks(cell) > 1 or _length(cell) > _LONG_CELL_CHARS for cell in cells)
    return False


def _filled_blocks(cell: WordCell) -> int:
    return sum(bool(block.text or block.rows) for block in cell.blocks)


def _length(cell: WordCell) -> int:
    return sum(len(block.text) for block in cell.blocks)


def _is_title(row: WordRow, width: int) -> bool:
    return len(row.cells) == 1 and width > 1 and row.cells[0].span == width and not row.cells[0].merged


def _filled(rows: Sequence[WordRow], width: int) -> list[list[str]]:
    """Return the texts of all cells; each of merged cells has their text if it is short."""
    filled, above = list[list[str]](), dict[int, str]()
    for row in rows:
        texts = [""] * row.before
        for cell in row.cells:
            column = len(texts)
            text = in_one_line(cell.blocks)
            if cell.merged == "continue":
                text = " ".join(dict.fromkeys(filter(None, (_label(above.get(column, "")), text))))
            repeated = _label(text) if cell.span < width else ""
            texts += [text, *[repeated] * (cell.span - 1)]
            for covered in range(column, column + cell.span):
                above[covered] = text
        filled.append(texts + [""] * (width - len(texts)))
    return filled


def _label(text: str) -> str:
    return text if len(text) <= LABEL_CHARS else ""


def _header_rows(rows: Sequence[WordRow]) -> int:
    """Return the number of header rows: the rows that Word repeats, or two if the first one has groups of columns."""
    stated = next((at for at, row in enumerate(rows) if not row.header), len(rows))
    if 1 < stated < len(rows):
        return min(stated, _MOST_HEADER_ROWS)
    first = rows[0].cells
    groups = any(cell.span > 1 for cell in first)
    if groups and len(rows) > 2 and all(cell.span > 1 or cell.merged or not cell.blocks for cell in first):  # noqa: PLR2004 - a row below both
        return 2
    return 1


def _with_one_header(rows: list[list[str]], count: int) -> list[list[str]]:
    """Return rows whose header rows are one: Markdown and chunks repeat only the first row."""
    columns = zip_longest(*rows[:count], fillvalue="")
    header = [" / ".join(dict.fromkeys(filter(None, column))) for column in columns]
    if count == 1 or sum(map(len, header)) > _LONGEST_HEADER_CHARS:
        return rows
    return [header, *rows[count:]]
