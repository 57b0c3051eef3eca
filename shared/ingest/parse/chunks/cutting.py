"""Cuts of a block that does not fit into a chunk, in order of preference: between rows, lines, sentences, words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from shared.domain.text.breaks import last_break
from shared.domain.text.sentences import sentence_breaks
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.blocks import Block, is_table_rule

SMALLEST_PIECE_CHARS = 80
"""Sentences and lines shorter than this stay with the next one: pieces are for packing, not for reading."""


LEAD_CHARS = 300
"""A longer paragraph is a text of its own, also if it ends with a question."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a block.

    Args:
        start: index of the first character.
        end: index after the last character.
        inside_block: whether the same block continues before it.
        overlap_chars: number of characters before `start` that a chunk starting here repeats.
        header: span of the lines that a chunk starting here repeats: a table's header, or the first line of code.
    """

    start: int
    end: int
    inside_block: bool = False
    overlap_chars: int = 0
    header: tuple[int, int] | None = None

    @property
    def repeated_chars(self) -> int:
        header_chars = self.header[1] - self.header[0] + 1 if self.header else 0
        return header_chars + self.overlap_chars


def is_lead(block: Block, text: str) -> bool:
    """Return whether a block says nothing without the next one: a heading, a question, or the line above a list."""
    if block.kind != "paragraph" or block.end - block.start > LEAD_CHARS:
        return block.kind == "heading"
    line = text[block.start : block.end]
    is_bold = line.startswith("**") and line.rstrip(":").endswith("**")
    return "\n" not in line and (is_bold or line.endswith((":", "?", "\uff1a", "\uff1f", "?**")))


def cut(block: Block, text: str, options: ChunkingOptions) -> Iterable[Piece]:
    """Return the block in one piece if it fits, or else in pieces that fit including their repeated parts."""
    if block.end - block.start <= options.max_chars:
        return (Piece(block.start, block.end),)
    if block.kind in ("paragraph", "heading"):
        return _prose(block, text, options)
    return _lines(block, text, options)


def _prose(block: Block, text: str, options: ChunkingOptions) -> Iterator[Piece]:
    overlap = min(options.overlap_chars, options.max_chars // 2)
    ends = sentence_breaks(text, block.start, block.end)
    floor = block.start
    for start, end in _spans(block.start, block.end, ends, text, options.max_chars - overlap):
        yield Piece(start, end, start > block.start, _overlap_chars(text, max(floor, start - overlap), start))
        floor = start + 1


def _lines(block: Block, text: str, options: ChunkingOptions) -> Iterator[Piece]:
    header = _HEADERS[block.kind](block, text, options) if block.kind in _HEADERS else None
    room = options.max_chars - (header[1] - header[0] + 1 if header else 0)
    for start, end in _spans(block.start, block.end, _line_ends(text, block.start, block.end), text, room):
        inside = start > block.start
        yield Piece(start, end, inside, header=header if inside and header and start >= header[1] else None)


def _line_ends(text: str, start: int, end: int) -> Iterator[int]:
    while (newline := text.find("\n", start, end)) >= 0:
        start = newline + 1
        yield start


def _table_header(block: Block, text: str, options: ChunkingOptions) -> tuple[int, int] | None:
    """Return the span of a table's first row and the rule under it, unless it would fill half of every chunk."""
    first = text.find("\n", block.start, block.end)
    second = text.find("\n", first + 1, block.end) if first >= 0 else -1
    if second < 0 or second - block.start > options.max_chars // 2 or not is_table_rule(text[first + 1 : second]):
        return None
    return block.start, second


def _fence(block: Block, text: str, options: ChunkingOptions) -> tuple[int, int] | None:
    """Return the span of the line that opens code and names its language, unless the code has no fence."""
    end = text.find("\n", block.start, block.end)
    is_fence = text.startswith(("```", "~~~"), block.start) and 0 < end - block.start <= options.max_chars // 4
    return (block.start, end) if is_fence else None


_HEADERS = {"table": _table_header, "code": _fence}


def _spans(start: int, end: int, ends: Iterable[int], text: str, room: int) -> Iterator[tuple[int, int]]:
    """Yield spans from `start` to `end` that fit, without surrounding white space, cut at suitable `ends`."""
    for boundary in (*ends, end):
        if boundary - start < min(SMALLEST_PIECE_CHARS, room) and boundary < end:
            continue
        yield from _words(start, boundary, text, room)
        start = boundary


def _words(start: int, end: int, text: str, room: int) -> Iterator[tuple[int, int]]:
    while start < end:
        stop = end if end - start <= room else last_break(text, start, start + room)
        trimmed = text[start:stop].rstrip()
        if trimmed.strip():
            yield start + len(trimmed) - len(trimmed.lstrip()), start + len(trimmed)
        start = stop


def _overlap_chars(text: str, earliest: int, start: int) -> int:
    """Return the length of the overlap before a piece: complete words from `earliest` on, or the end of a long word."""
    if earliest >= start:
        return 0
    spaces = (text.find(mark, max(0, earliest - 1), start) for mark in " \n\t")
    return start - 1 - min((at for at in spaces if at >= 0), default=earliest - 1)
