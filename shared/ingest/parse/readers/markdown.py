"""Markdown of tables, paragraphs and items of lists, in which no character of the text is markup by accident."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

MOST_CELLS = 1_000_000
"""The short rows of a larger table are not filled with empty cells: one wide row would fill all others."""

_MARKUP = re.compile(r"^([ \t]*)(?=#{1,6}(?:[ \t]|$)|[|>]|```|~~~|(?:-{2,}|={2,})\s*$)", re.MULTILINE)
_MARKS = "#|>`~=- \t"
_MARKS_OF_LINES = frozenset("#|>-+*=`~")


def as_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table whose first row is the header; empty without a cell that has text."""
    kept = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    width = max((len(row) for row in kept), default=0)
    if not any(any(row) for row in kept):
        return ""
    filled = width if len(kept) * width <= MOST_CELLS else 0
    lines = ["| " + " | ".join((*row, *[""] * (filled - len(row)))) + " |" for row in kept]
    return "\n".join((lines[0], "| " + " | ".join(["---"] * width) + " |", *lines[1:]))


def one_line(text: str) -> str:
    """Return a text in one line with single spaces."""
    return " ".join(text.split())


def as_text(text: str) -> str:
    """Return a text with a mark before each line that would be markup at its start, except items of lists."""
    return _MARKUP.sub(r"\1\\", text) if "\n" in text or text[:1] in _MARKS else text


def as_paragraph(text: str) -> str:
    """Return a text with a mark before each line that would be markup at its start, such as `# 1` or `| a`."""
    if "\n" in text:
        return "\n".join(map(_unmarked, text.split("\n")))
    return _unmarked(text)


def as_item(text: str, level: int, label: str = "-") -> str:
    """Return a line of a list.

    Args:
        text: text of the item.
        level: depth of the item, from 0.
        label: its number as people see it, such as `2.` or `(b)`, or a dash.
    """
    mark = label if label == "-" or (label[:-1].isdigit() and label[-1:] in ".)" and len(label) < 10) else f"- {label}"  # noqa: PLR2004 - Markdown's own limit
    return f"{'  ' * min(level, 8)}{mark} {one_line(text)}"


def _unmarked(line: str) -> str:
    if line[:1] not in _MARKS_OF_LINES and not line[:1].isspace():
        return line
    bare = line.lstrip()
    if bare[:1] not in _MARKS_OF_LINES:
        return line
    first = bare.split(" ", 1)[0].split("\t", 1)[0]
    if bare[0] in "|>" or (bare[0] == "#" and not first.strip("#")) or first in "-+*":
        return line[: len(line) - len(bare)] + "\\" + bare
    if first.startswith(("```", "~~~")) or not bare.strip("=") or not bare.strip("-"):
        return line[: len(line) - len(bare)] + "\\" + bare
    return line
