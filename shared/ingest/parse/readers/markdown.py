"""Markdown of tables, paragraphs and items of lists, in which no character of the text is markup by accident."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise, zip_longest

MOST_CELLS = 1_000_000
"""The short rows of a larger table are not filled with empty cells: one wide row would fill all others."""

_SHORTEST_TITLE = 6
"""Characters; cells with the same shorter text may be values of a row."""

_NAME = re.compile(r"[^\W\d_]|\b(?:19|20)\d\d\b")
"""The name of a column has a letter, or is a year."""

_MARKUP = re.compile(r"^([ \t]*)(?=#{1,6}(?:[ \t]|$)|[|>]|```|~~~|(?:-{2,}|={2,})\s*$)", re.MULTILINE)
_MARKS = "#|>`~=- \t"
_MARKS_OF_LINES = frozenset("#|>-+*=`~")


def as_table(rows: Iterable[Sequence[str]]) -> str:
    """Return rows as a table with one header row, below the titles above it; empty without a cell that has text.

    Chunks repeat the header, so a title is never one, and two rows of labels are one. Each of merged cells must have
    their text.
    """
    kept = [[one_line(cell).replace("|", "\\|") for cell in row] for row in rows]
    width = max((len(row) for row in kept), default=0)
    if not any(any(row) for row in kept):
        return ""
    titles = next((at for at, row in enumerate(kept[:-1]) if not _is_title(row, width)), 0)
    above, kept = [as_paragraph(row[0]) for row in kept[:titles]], kept[titles:]
    if len(kept) > 2 and are_header(kept[0], kept[1]):  # noqa: PLR2004 - a row below both
        kept = [joined_header(kept[0], kept[1]), *kept[2:]]
    filled = width if len(kept) * width <= MOST_CELLS else 0
    lines = ["| " + " | ".join((*row, *[""] * (filled - len(row)))) + " |" for row in kept]
    return "\n".join(
        (*(f"{title}\n" for title in above), lines[0], "| " + " | ".join(["---"] * width) + " |", *lines[1:])
    )


def _is_title(row: Sequence[str], width: int) -> bool:
    """Return whether a row is one cell across the table."""
    text = row[0] if row else ""
    is_text = len(text) >= _SHORTEST_TITLE and any(map(str.isalpha, text))
    return is_text and width > 1 and len(row) == width and all(cell == text for cell in row)


def are_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether two rows are one header: the first one has groups of columns, and the second one their names.

    Args:
        first: the first row of a table, in which each of merged cells has their text.
        second: the row below it.
    """
    if len(first) != len(second):
        return False
    grouped = {at for at, (left, right) in enumerate(pairwise(first)) if left and left == right}
    grouped |= {at + 1 for at in grouped}
    names = [second[at] for at in sorted(grouped)]
    return (
        bool(grouped)
        and len(set(first)) > 1
        and all(_NAME.search(name) for name in names)
        and all(second[at] != second[at + 1] for at in grouped if at + 1 in grouped and first[at] == first[at + 1])
        and all(second[at] in ("", text) for at, text in enumerate(first) if at not in grouped)
    )


def joined_header(*rows: Sequence[str]) -> list[str]:
    """Return header rows as one row; a text that a column repeats is in it once."""
    return [" ".join(dict.fromkeys(filter(None, column))) for column in zip_longest(*rows, fillvalue="")]


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
