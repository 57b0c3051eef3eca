"""Blocks of a Word file's text, and their Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shared.ingest.parse.readers.markdown import as_table, as_text

Kind = Literal["paragraph", "heading", "item", "table", "markdown"]

_DEEPEST_HEADING = 6
_LIST_MARK = re.compile(r"[-]|\d{1,9}[.)]")
_SPACES = re.compile(r"[ \u200b]{2,}|\u200b")
_BREAKS = re.compile(r"\s*\n\s*")


@dataclass(slots=True)
class WordBlock:
    """A paragraph, a heading, an item of a list, a table, or finished Markdown.

    Args:
        text: its text, with a line feed for each break of a line.
        kind: its kind.
        level: level of a heading, from 1, or of an item, from 0.
        label: number of a heading, item or paragraph, as Word shows it.
        rows: cells of a table, whose first row is the header.
        pictures: names of the parts that contain its pictures.
    """

    text: str = ""
    kind: Kind = "paragraph"
    level: int = 0
    label: str = ""
    rows: Sequence[Sequence[str]] = ()
    pictures: list[str] = field(default_factory=list)

    @property
    def tight(self) -> bool:
        """Whether it is an item that Markdown's lists can show."""
        return self.kind == "item" and _LIST_MARK.fullmatch(self.label) is not None


@dataclass(frozen=True, slots=True)
class MarkdownWithPictures:
    """Markdown, and the position of each picture: (name of its part, offset)."""

    markdown: str
    pictures: tuple[tuple[str, int], ...]


def tidied(text: str) -> str:
    """Return text with single spaces, and without space around breaks and at its ends."""
    text = text.replace("\u00ad", "")
    return _BREAKS.sub("\n", _SPACES.sub(_one_space, text)).strip()


def _one_space(found: re.Match[str]) -> str:
    return " " if " " in found[0] else ""


def in_one_line(blocks: Iterable[WordBlock]) -> str:
    """Return the text of blocks as a cell of a table shows it."""
    return " ".join(text for block in blocks if (text := _line(block)))


def _line(block: WordBlock) -> str:
    if block.kind == "table":
        rows = (", ".join(dict.fromkeys(filter(None, row))) for row in block.rows)
        return "; ".join(row for row in rows if row)
    return " ".join(f"{block.label} {block.text}".split())


def placed(blocks: Iterable[WordBlock]) -> MarkdownWithPictures:
    """Return the Markdown of blocks. A picture without text around it is at the end of the text before it."""
    parts, pictures = list[str](), list[tuple[str, int]]()
    length, open_items, tight = 0, list[tuple[int, int]](), False
    for block in blocks:
        if not block.tight:
            open_items.clear()
        text = _item(block, open_items) if block.tight else _text(block)
        gap = "" if not parts else "\n" if tight and block.tight else "\n\n"
        start = length + len(gap) if text else length
        pictures += [(name, start) for name in block.pictures]
        if text:
            parts += (gap, text)
            length += len(gap) + len(text)
            tight = block.tight
    return MarkdownWithPictures("".join(parts), tuple(pictures))


def _text(block: WordBlock) -> str:
    if block.kind == "table":
        return as_table(block.rows)
    if block.kind == "markdown":
        return block.text
    text = f"{block.label} {block.text}".strip()
    if block.kind == "heading":
        return f"{'#' * min(max(block.level, 1), _DEEPEST_HEADING)} {' '.join(text.split())}"
    return as_text(text)


def _item(block: WordBlock, open_items: list[tuple[int, int]]) -> str:
    """Return an item below the last one with a lower level.

    Args:
        block: the item.
        open_items: level and width of the mark of each item above.
    """
    while open_items and open_items[-1][0] >= block.level:
        open_items.pop()
    indent = " " * sum(width for _, width in open_items)
    mark = f"{block.label} "
    open_items.append((block.level, len(mark)))
    lines = as_text(block.text).split("\n")
    return f"\n{indent}{' ' * len(mark)}".join((f"{indent}{mark}{lines[0]}", *lines[1:])) if lines[0] else ""
