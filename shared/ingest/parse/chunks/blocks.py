"""The blocks of a Markdown text: headings, paragraphs, lists, tables, code.

A scanner over lines rather than a Markdown library: it needs only the block structure, must keep every offset, must
be linear on hostile input and takes a tenth of the time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

BlockKind = Literal["heading", "paragraph", "list", "table", "code"]

TITLE_CHARS = 200
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])(?:[ \t]|$)")
_RULE_CHARS = frozenset("|-: \t")


@dataclass(frozen=True, slots=True)
class Block:
    """Characters `start` to `end` of the text, without the blank lines around them; `level` is a heading's, else 0."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    title: str = ""


def scan(text: str) -> Iterator[Block]:
    """Return the blocks of a Markdown text in order; together they contain every character that is not white space."""
    return _Scanner(text).blocks()


def scan_plain(text: str) -> Iterator[Block]:
    """Yield the parts between blank lines of a text without markup, such as source code."""
    scanner = _Scanner(text)
    at = 0
    while (at := scanner.skip_blank(at)) < scanner.count:
        end = scanner.run(at, bool)
        yield scanner.block("code", at, end)
        at = end


def is_table_rule(line: str) -> bool:
    """Return whether a line is the `| --- | :-: |` under a table's header."""
    return "-" in line and _RULE_CHARS.issuperset(line)


class _Scanner:
    """Lines by number; `at` and `end` below are line numbers."""

    def __init__(self, text: str) -> None:
        self.lines = text.split("\n")
        self.count = len(self.lines)
        self.bare = [line.strip() for line in self.lines]
        self.offsets = [0]
        for line in self.lines:
            self.offsets.append(self.offsets[-1] + len(line) + 1)

    def blocks(self) -> Iterator[Block]:
        at = self.skip_blank(0)
        if at < self.count and self.bare[at] == "---" and (end := self._front_matter(at)):
            yield self.block("paragraph", at, end)
            at = end
        while (at := self.skip_blank(at)) < self.count:
            block, at = self._next(at)
            yield block

    def skip_blank(self, at: int) -> int:
        while at < self.count and not self.bare[at]:
            at += 1
        return at

    def run(self, at: int, belongs: Callable[[str], bool]) -> int:
        """Return the first line after `at` that does not belong to the block."""
        at += 1
        while at < self.count and belongs(self.bare[at]):
            at += 1
        return at

    def block(self, kind: BlockKind, at: int, end: int, level: int = 0, title: str = "") -> Block:
        last = end - 1
        return Block(kind, self.offsets[at], self.offsets[last] + len(self.lines[last].rstrip()), level, title)

    def _next(self, at: int) -> tuple[Block, int]:
        line, bare = self.lines[at], self.bare[at]
        first = bare[0]
        if first == "#" and (level := _heading_level(line)):
            return self.block("heading", at, at + 1, level, _title(bare[level:])), at + 1
        if first in "`~" and (fence := _fence(bare)):
            return self._closed("code", at, self._code_end(at, fence))
        if first == "|":
            return self._closed("table", at, self.run(at, lambda later: later.startswith("|")))
        if _ITEM.match(line):
            return self._closed("list", at, self._list_end(at))
        return self._paragraph(at)

    def _closed(self, kind: BlockKind, at: int, end: int) -> tuple[Block, int]:
        return self.block(kind, at, end), end

    def _paragraph(self, at: int) -> tuple[Block, int]:
        end = at + 1
        while end < self.count and (bare := self.bare[end]):
            if bare[0] in "=-" and (level := _underline_level(bare)):
                return self.block("heading", at, end + 1, level, _title(" ".join(self.bare[at:end]))), end + 1
            if self._interrupts(end):
                break
            end += 1
        return self.block("paragraph", at, end), end

    def _interrupts(self, at: int) -> bool:
        """Return whether a line ends the paragraph or list item before it without a blank line."""
        bare = self.bare[at]
        first = bare[0]
        if first == "#":
            return bool(_heading_level(self.lines[at]))
        if first in "`~":
            return bool(_fence(bare))
        return first == "|" or (first in "-*+" and _ITEM.match(bare) is not None)

    def _list_end(self, at: int) -> int:
        end = at + 1
        while end < self.count:
            following = self.skip_blank(end)
            if following == self.count:
                break
            line = self.lines[following]
            inside = line[0] in " \t" or _ITEM.match(line)
            if not inside and (following > end or self._interrupts(following)):
                break
            end = following + 1
        return end

    def _code_end(self, at: int, fence: str) -> int:
        """Return the line after the closing fence; an unclosed fence reaches to the end, as in CommonMark."""
        for end in range(at + 1, self.count):
            bare = self.bare[end]
            if bare.startswith(fence) and not bare.strip(fence[0]):
                return end + 1
        return self.count

    def _front_matter(self, at: int) -> int | None:
        """Return the line after the front matter between two `---` at the top, if there is any."""
        for end in range(at + 1, min(self.count, at + 200)):
            if self.bare[end] == "---":
                return end + 1
            bare = self.bare[end]
            if not bare or (":" not in bare and bare[0] not in "-#"):
                return None
        return None


def _heading_level(line: str) -> int:
    """Return the level of `## A heading`, 0 for another line."""
    bare = line.lstrip(" ")
    level = len(bare) - len(bare.lstrip("#"))
    if level > 6 or len(line) - len(bare) > 3:  # noqa: PLR2004 - CommonMark's own numbers
        return 0
    return level if not bare[level:] or bare[level] in " \t" else 0


def _underline_level(bare: str) -> int:
    if len(bare) < 2:  # noqa: PLR2004 - a single dash is an empty list item
        return 0
    if not bare.strip("="):
        return 1
    return 2 if not bare.strip("-") else 0


def _fence(bare: str) -> str | None:
    length = len(bare) - len(bare.lstrip(bare[0]))
    if length < 3 or (bare[0] == "`" and "`" in bare[length:]):  # noqa: PLR2004 - CommonMark's own number
        return None
    return bare[:length]


def _title(markup: str) -> str:
    """Return a heading without markup; it is cut before the patterns run, because they are slow on long headings."""
    title = markup.strip()[:TITLE_CHARS]
    title = title.rstrip("#").rstrip() or title
    title = _LINK.sub(r"\1", title).replace("**", "").replace("__", "").replace("`", "")
    return " ".join(_ESCAPE.sub(r"\1", title).strip("*_ ").split())
