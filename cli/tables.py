"""Tables of the commands: with borders and wrapped cells in a terminal, lines with tabs for other programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from rich.table import Table as RichTable
from rich.text import Text


class Table(RichTable):
    """A table; without a terminal each row is one line with a tab between its cells, the first one with the headings.

    Args:
        columns: headings.
        whole: headings of columns whose cells are never wrapped.
        options: options of Rich's table.
    """

    def __init__(self, *columns: str, whole: Sequence[str] = (), **options: Any) -> None:
        super().__init__(**{"box": box.SIMPLE_HEAD} | options)
        for column in columns:
            self.add_column(column, overflow="fold", no_wrap=column in whole)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        if console.is_terminal:
            yield from super().__rich_console__(console, options)
            return
        for row in self._lines():
            yield Segment("\t".join(map(_plain, row)) + "\n")
        if self.caption:
            yield Segment(f"{_plain(self.caption)}\n")

    def _lines(self) -> Iterator[Sequence[RenderableType]]:
        yield [column.header for column in self.columns]
        yield from zip(*(column.cells for column in self.columns), strict=True)


def _plain(cell: RenderableType) -> str:
    """Return the text of a cell on one line, without colours."""
    text = Text.from_markup(cell) if isinstance(cell, str) else cell
    return " ".join(str(text).split())
