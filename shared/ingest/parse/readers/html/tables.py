"""Tables of HTML: which of them are data, and their rows as Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

from shared.ingest.parse.readers.markdown import are_header, joined_header

MAX_SPAN = 200
"""A cell spans at most so many columns."""

LONG_CELL_CHARS = 600
"""A cell without a header that has more text is a column of a page, not a value."""

LONG_HEADED_CELL_CHARS = 3000
"""The same under a header."""

_SLOTS_PER_CELL = 20  # tables of hostile pages have more, and their spans are ignored
_FEW_SLOTS = 10_000

HtmlBlockKind = Literal["text", "heading", "item", "list", "table", "code", "quote", "term", "entry"]


class HtmlBlock(NamedTuple):
    """A block of Markdown. The text of `text`, `term` and `entry` is not escaped yet."""

    kind: HtmlBlockKind
    text: str


@dataclass(slots=True)
class HtmlCell:
    """A cell of a table.

    Args:
        blocks: its content.
        columns: number of columns that it spans.
        rows: number of rows that it spans; 0 for all that follow.
        header: whether it is a `th`.
    """

    blocks: list[HtmlBlock]
    columns: int = 1
    rows: int = 1
    header: bool = False


@dataclass(slots=True)
class HtmlRow:
    """A row of a table; `head` is whether it is in its `thead`."""

    head: bool = False
    cells: list[HtmlCell] = field(default_factory=list)


def table_blocks(rows: Sequence[HtmlRow], *, presentation: bool) -> list[HtmlBlock]:
    """Return a table as one block if it contains data, or else the blocks of its cells in order."""
    rows = [row for row in rows if row.cells]
    if presentation or not _is_data(rows):
        return list(_layout(rows))
    return list(_data(rows))


def _is_data(rows: Sequence[HtmlRow]) -> bool:
    filled = [row for row in rows if any(cell.blocks for cell in row.cells)]
    if len(filled) < 2 or max(sum(bool(cell.blocks) for cell in row.cells) for row in filled) < 2:  # noqa: PLR2004 - a line is not a table
        return False
    headed = any(row.head or any(cell.header for cell in row.cells) for row in filled)
    longest = LONG_HEADED_CELL_CHARS if headed else LONG_CELL_CHARS
    for row in filled:
        for cell in row.cells:
            if len(cell.blocks) == 1 and cell.blocks[0].kind == "text":
                if len(cell.blocks[0].text) > longest:
                    return False
            elif cell.blocks and not _is_value(cell.blocks, headed=headed, longest=longest):
                return False
    return True


def _is_value(blocks: Sequence[HtmlBlock], *, headed: bool, longest: int) -> bool:
    """Return whether these blocks are a value of a table, not a part of a page."""
    kinds = {block.kind for block in blocks}
    if "heading" in kinds and len(blocks) > 1:
        return False
    if not headed and (len(blocks) > 1 or kinds - {"text", "heading"}):
        return False
    return sum(len(block.text) for block in blocks) <= longest


def _layout(rows: Iterable[HtmlRow]) -> Iterator[HtmlBlock]:
    """Yield the blocks of all cells; short cells of a row are one line."""
    for row in rows:
        short = [cell.blocks for cell in row.cells if cell.blocks]
        if len(short) > 1 and all(_is_short(blocks) for blocks in short):
            yield HtmlBlock("text", " ".join(blocks[0].text for blocks in short))
        else:
            for blocks in short:
                yield from blocks


def _is_short(blocks: Sequence[HtmlBlock]) -> bool:
    return len(blocks) == 1 and blocks[0].kind == "text" and len(blocks[0].text) <= 80 and "\n" not in blocks[0].text  # noqa: PLR2004 - a line


class _Slot(NamedTuple):
    """A position of the grid.

    Args:
        text: text of the cell that covers it.
        own: whether the cell starts there.
        header: whether it is a `th`.
        continues: whether the cell covers the next row, too.
    """

    text: str = ""
    own: bool = False
    header: bool = False
    continues: bool = False


_EMPTY = _Slot()


def _data(rows: Sequence[HtmlRow]) -> Iterator[HtmlBlock]:
    """Yield the lines above the header, and the table."""
    grid = _without_empty_columns(_grid(rows))
    width = max(map(len, grid))
    while len(grid) > 2 and (line := _label(grid[0])):  # noqa: PLR2004 - a header and a row
        yield HtmlBlock("text", line)
        rows, grid = rows[1:], grid[1:]
    heads = _header_rows(rows, grid)
    if heads == 1 and len(grid) > 2 and are_header(*([slot.text for slot in row] for row in grid[:2])):  # noqa: PLR2004 - a row below both
        heads = 2
    header = joined_header([""] * width, *([slot.text for slot in row] for row in grid[:heads]))
    lines = [_line(header), "|" + " --- |" * width]
    lines += [_line(slot.text for slot in row) for row in grid[heads:] if not _is_repeated(row)]
    yield HtmlBlock("table", "\n".join(lines))


def _is_repeated(row: Sequence[_Slot]) -> bool:
    """Return whether a row has no text, or only text that the next row has, too."""
    return all(slot.continues for slot in row if slot.text)


def _header_rows(rows: Sequence[HtmlRow], grid: Sequence[Sequence[_Slot]]) -> int:
    """Return the number of rows of the header; 0 if each row has its own header in the first column."""
    heads = 0
    for row, slots in zip(rows, grid, strict=True):
        complete = all(slot.header for slot in slots) and (not heads or slots[-1].text)
        if not (row.head or complete):
            break
        heads += 1
    if heads == len(rows):
        return 1
    if not heads and all(row.cells[0].header for row in rows):
        return 0
    return heads or 1


def _label(row: Sequence[_Slot]) -> str:
    """Return the text of a row if it has a single cell, which is the label of the rows below; empty otherwise."""
    return row[0].text if len(row) > 1 and not any(slot.own or slot.text for slot in row[1:]) else ""


def _line(texts: Iterable[str]) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _grid(rows: Sequence[HtmlRow]) -> list[list[_Slot]]:
    """Return the rows with all their columns; the text of a cell is in each slot that it spans.

    A cell that spans a complete row has its text once.
    """
    if all(cell.columns == 1 == cell.rows for row in rows for cell in row.cells):
        grid = [[_Slot(value(cell.blocks), own=True, header=cell.header) for cell in row.cells] for row in rows]
        return _filled(grid)
    cells = sum(len(row.cells) for row in rows)
    spans = sum(
        min(cell.columns, MAX_SPAN) * min(cell.rows or len(rows), len(rows)) for row in rows for cell in row.cells
    )
    plain = spans > cells * _SLOTS_PER_CELL + _FEW_SLOTS
    grid = [list[_Slot]() for _ in rows]
    below: dict[int, tuple[int, _Slot]] = {}
    for number, (slots, row) in enumerate(zip(grid, rows, strict=True)):
        _fill(slots, row, below, left=1 if plain else len(rows) - number, most_columns=1 if plain else MAX_SPAN)
    return [_labelled(slots) for slots in _filled(grid)]


def _filled(grid: list[list[_Slot]]) -> list[list[_Slot]]:
    """Return rows of equal length."""
    width = max(map(len, grid))
    return [slots if len(slots) == width else [*slots, *[_EMPTY] * (width - len(slots))] for slots in grid]


def _fill(
    slots: list[_Slot], row: HtmlRow, below: dict[int, tuple[int, _Slot]], *, left: int, most_columns: int
) -> None:
    """Add the slots of a row.

    Args:
        slots: receives the slots.
        row: the row.
        below: for each column that a cell above covers, the number of rows that it still covers, and its slot.
        left: number of rows from this one on.
        most_columns: number of columns that a cell spans at most.
    """

    def from_above() -> None:
        while (found := below.pop(len(slots), None)) is not None:
            count, slot = found
            if count > 1:
                below[len(slots)] = (count - 1, slot)
            slots.append(slot._replace(continues=count > 1))

    for cell in row.cells:
        from_above()
        columns, rows = max(1, min(cell.columns, most_columns)), min(cell.rows or left, left)
        text = value(cell.blocks)
        for number in range(columns):
            if rows > 1:
                below[len(slots)] = (rows - 1, _Slot(text, header=cell.header))
            slots.append(_Slot(text, own=not number, header=cell.header, continues=rows > 1))
    from_above()


def _labelled(slots: list[_Slot]) -> list[_Slot]:
    own = [slot for slot in slots if slot.own]
    if len(slots) > 1 and len(own) == 1 and slots[0].own and all(slot.text == own[0].text for slot in slots):
        return [slots[0], *(_Slot(header=slots[0].header) for _ in slots[1:])]
    return slots


def _without_empty_columns(grid: list[list[_Slot]]) -> list[list[_Slot]]:
    """Return the grid without columns in which no cell with a text starts."""
    kept = sorted({at for row in grid for at, slot in enumerate(row) if slot.own and slot.text})
    return [[row[at] for at in kept] for row in grid]


def value(blocks: Sequence[HtmlBlock]) -> str:
    """Return blocks as the text of one cell."""
    if len(blocks) == 1 and blocks[0].kind == "text":
        return blocks[0].text.replace("\n", " ")
    return " ".join(map(_flat, blocks))


def _flat(block: HtmlBlock) -> str:
    lines = block.text.split("\n")
    if block.kind == "list":
        return "; ".join(line.strip().removeprefix("- ") for line in lines if line.strip())
    if block.kind == "code":
        return " ".join(" ".join(lines[1:-1]).split())
    if block.kind == "table":
        rows = (line.strip("| ").replace(" | ", " ") for number, line in enumerate(lines) if number != 1)
        return "; ".join(row for row in rows if row)
    if block.kind == "heading":
        return block.text.lstrip("#").strip()
    return " ".join(lines)
