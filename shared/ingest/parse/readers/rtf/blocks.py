"""The paragraphs, lists and tables of an RTF file."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from shared.ingest.parse.readers.markdown import as_table, as_text, one_line

_SPACE = re.compile(r"[ \t\u2002\u2003\u2005]+")
_NUMBER = re.compile(r"\d{1,9}[.)]")
_BULLETS = frozenset("\u2022\u00b7\u25aa\u25cf\u25e6\u25cb\u00a7\u2013-*o\u00d8\u00fc\u00a8v\uf0b7\u2b9a\u27a2")
LONGEST_HEADING = 200
"""A longer paragraph is text, whatever its style."""

_DEEPEST = 6  # level of a heading


@dataclass(slots=True)
class Blocks:
    """Collects the text of a file.

    Args:
        in_table: whether the current paragraph belongs to a cell.
        level: level of the current paragraph by its outline level, 0 for body text.
        style_level: level by its style.
        depth: depth in a list, from 0.
    """

    in_table: bool = False
    level: int = 0
    style_level: int = 0
    depth: int = 0
    _out: list[str] = field(default_factory=list)
    _line: list[str] = field(default_factory=list)
    _marker: list[str] | None = None
    _marked: str = ""
    _into: list[tuple[str, list[str], str]] = field(default_factory=list)
    _after: list[str] = field(default_factory=list)
    _notes: int = 0
    _cell: list[str] = field(default_factory=list)
    _row: list[str] = field(default_factory=list)
    _rows: list[list[str]] = field(default_factory=list)
    _merged: list[str] = field(default_factory=list)
    _flag: str = ""
    _was_item: bool = False

    def markdown(self) -> str:
        return "".join(self._out).strip("\n")

    def text(self, text: str) -> None:
        (self._into[-1][1] if self._into else self._line).append(text)

    # Notes, comments, markers and links are collected apart until they are closed.

    def open_note(self) -> None:
        self._notes += 1
        self._into.append(("note", [], str(self._notes)))

    def open_comment(self, author: str) -> None:
        self._into.append(("comment", [], author))

    def open_marker(self) -> None:
        self._into.append(("marker", [], ""))

    def open_link(self, target: str) -> None:
        self._into.append(("link", [], target))

    def close(self, kind: str) -> None:
        if not self._into or self._into[-1][0] != kind:
            return
        _, pieces, extra = self._into.pop()
        text = one_line("".join(pieces))
        if kind == "marker":
            self._marked = text
        elif kind == "link":
            inside = "".join(pieces)
            self.text(_linked(inside, extra))
        elif kind == "note":
            if text:
                self.text(f"[^{extra}]")
                self._after.append(f"[^{extra}]: {text}")
        elif text:
            self._after.append(f"Comment ({extra}): {text}" if extra else f"Comment: {text}")

    # Paragraphs

    def reset(self) -> None:
        self.in_table = False
        self.level = self.style_level = self.depth = 0

    def enter_table(self) -> None:
        self.in_table = True

    def end_paragraph(self) -> None:
        text = _tidy("".join(self._line))
        self._line.clear()
        marker, self._marked = self._marked, ""
        if self.in_table:
            if text or marker:
                self._cell.append(f"{marker} {text}".strip() if marker not in _BULLETS else f"- {text}")
            return
        self._end_table()
        level = self.level or self.style_level
        if not text:
            return
        if level and len(text) <= LONGEST_HEADING:
            heading = one_line(f"{marker} {text}" if marker and marker not in _BULLETS else text)
            self._block(f"{'#' * min(level, _DEEPEST)} {heading}")
        elif marker in _BULLETS and marker:
            self._item(f"- {_hanging(text)}")
        elif _NUMBER.fullmatch(marker):
            self._item(f"{marker} {_hanging(text)}")
        else:
            self._block(as_text(f"{marker} {text}".strip()))
        self._end_notes()

    def finish(self) -> None:
        while self._into:
            self.close(self._into[-1][0])
        if self._row or self._cell or self.in_table:
            self.end_cell(nested=False)
            self.end_row(nested=False)
        self.in_table = False
        self.end_paragraph()
        self._end_table()
        self._end_notes()

    def _block(self, text: str) -> None:
        self._out.append(f"\n\n{text}")
        self._was_item = False

    def _item(self, text: str) -> None:
        self._out.append(("\n" if self._was_item else "\n\n") + "  " * self.depth + text)
        self._was_item = True

    def _end_notes(self) -> None:
        for note in self._after:
            self._block(note)
        self._after.clear()

    # Tables

    def start_row(self) -> None:
        self._merged.clear()
        self._flag = ""

    def merge(self, *, vertical: bool) -> None:
        self._flag = "above" if vertical else "left"

    def define_cell(self) -> None:
        self._merged.append(self._flag)
        self._flag = ""

    def end_cell(self, *, nested: bool) -> None:
        self.in_table = True
        self.end_paragraph()
        if not nested:
            self._row.append("\n".join(self._cell))
            self._cell.clear()

    def end_row(self, *, nested: bool) -> None:
        if nested:
            return
        line = _tidy("".join(self._line))
        if line or self._cell:
            self.end_cell(nested=False)
        if not self._row:
            return
        above = self._rows[-1] if self._rows else []
        for index, flag in enumerate(self._merged[: len(self._row)]):
            if flag == "above" and not self._row[index] and index < len(above):
                self._row[index] = above[index]
            elif flag == "left" and not self._row[index] and index:
                self._row[index] = self._row[index - 1]
        self._rows.append(self._row)
        self._row = []

    def _end_table(self) -> None:
        if self._row or self._cell:
            self.end_row(nested=False)
        rows, self._rows = [row for row in self._rows if any(row)], []
        columns = max(map(len, rows), default=0)
        if columns == 1:  # a frame around text
            for row in rows:
                self._block(as_text(row[0].replace("\n", "\n\n")))
        elif rows:
            self._block(as_table(rows))
        if rows:
            self._end_notes()


def _tidy(text: str) -> str:
    lines = (_SPACE.sub(" ", line).strip() for line in text.split("\n"))
    return "\n".join(lines).strip("\n")


def _hanging(text: str) -> str:
    return text.replace("\n", "\n  ")


def _linked(text: str, target: str) -> str:
    label = text.strip()
    if not label or not target.lower().startswith(("http://", "https://", "mailto:", "ftp://")):
        return text
    if label in (target, target.removeprefix("mailto:")) or any(mark in label for mark in "[]\n"):
        return text
    return f"[{label}]({target})" if "(" not in target and ")" not in target else f"[{label}](<{target}>)"
