"""Reader of Word 97 files (MS-DOC): pieces of text (2.8.35), headings and tables by paragraphs' properties (2.6.2).

Read: the body, notes, comments and text boxes; headers and footers of a file without other text. Not read: codes of
fields, automatic numbers, charts, pictures and embedded objects; embedded documents are named.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from dataclasses import dataclass, field

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.compound import CompoundFile, embedded_documents, summary_title
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.rtf.blocks import Blocks

_DAMAGED = "the Word 97 document file is damaged and cannot be read; create or download it again"
_PROTECTED = "the Word 97 document file is protected with a password; remove the password and add it again"
_OLD = "the Word 97 document file is of a form that cannot be read; save it in a newer one, or as PDF"
_MAGIC, _WORD_6 = 0xA5EC, 0xA5DC
_OLDEST = 0x00C1  # Word 97
_MOST_CHARS = 64 * 1024 * 1024
_FKP_BYTES = 512
_STORIES, _MARGINS = (0, 1, 4, 5, 6), (2, 7)
"""Body, footnotes, comments, endnotes and text boxes; headers and footers, and the text boxes in them. 3 is macros."""

_CODE, _RESULT, _END = "\x13", "\x14", "\x15"
_LINK = re.compile(r'HYPERLINK\s+"([^"]{4,2000})"')
_SHOWN = {"\x0b": "\n", "\x1e": "-", "\x1f": "", "\xa0": " ", "\x02": "", "\x05": "", "\x01": "", "\x08": "", "\0": ""}
_IN_TABLE, _ROW_END, _LEVEL, _NESTED = 0x2416, 0x2417, 0x2640, 0x6649
_LONG = {0: 1, 1: 1, 2: 2, 3: 4, 4: 2, 5: 2, 7: 3}
"""Bytes of an operand by the three highest bits of its property; 6 has its own length."""


def read(content: bytes) -> FileReading:
    """Return the text of a Word 97 file: body, notes, comments and text boxes.

    Headers and footers are read if the file has no other text, as in a letterhead.
    """
    file = CompoundFile(content, "Word 97 document")
    document = _OldDocument(file)
    blocks, raw = Blocks(), list[str]()
    for start, end in document.stories():
        _Story(document, blocks, raw).read(start, end)
    if not "".join(raw).strip():
        for start, end in document.stories(_MARGINS):
            _Story(document, blocks, raw).read(start, end)
    return FileReading((Part(blocks.markdown(), "".join(raw)),), document.title(), embedded_documents(file.root))


@dataclass(slots=True)
class _Paragraph:
    level: int = 0
    in_table: bool = False
    row_end: bool = False
    depth: int = 0


class _OldDocument:
    """The text of a file by position, and the properties of its paragraphs by offset."""

    def __init__(self, file: CompoundFile) -> None:
        self._file = file
        self._main = main = file.read(file.root, "WordDocument")
        try:
            magic, version = struct.unpack_from("<HH", main)
            flags = struct.unpack_from("<H", main, 10)[0]
            if magic == _WORD_6 or version < _OLDEST:
                raise Unreadable(_OLD)
            if magic != _MAGIC:
                raise Unreadable(_DAMAGED)
            if flags & 0x100:
                raise Unreadable(_PROTECTED)
            self._table = file.read(file.root, "1Table" if flags & 0x200 else "0Table")
            count = struct.unpack_from("<H", main, 32)[0]
            longs = 34 + count * 2
            self._lengths = struct.unpack_from("<11i", main, longs + 2)
            self._pointers = longs + 2 + struct.unpack_from("<H", main, longs)[0] * 4 + 2
            self._levels = self._style_levels()
            self.text, self._starts, self._offsets = self._pieces()
            self._paragraph_ends, self._paragraphs = self._paragraph_runs()
        except struct.error as error:
            raise Unreadable(_DAMAGED, detail=str(error)) from error

    def stories(self, numbers: tuple[int, ...] = _STORIES) -> list[tuple[int, int]]:
        """Return the starts and ends of stories that have text."""
        at, found = 0, list[tuple[int, int]]()
        for number, length in enumerate(self._lengths[3:11]):
            end = at + max(0, length)
            if number in numbers:
                found.append((at, min(end, len(self.text))))
            at = end
        return [(start, end) for start, end in found if start < end]

    def paragraph(self, position: int) -> _Paragraph:
        """Return the properties of the paragraph whose mark has this position."""
        piece = bisect_right(self._starts, position) - 1
        offset, wide = self._offsets[piece]
        byte = offset + (position - self._starts[piece]) * (2 if wide else 1)
        index = bisect_right(self._paragraph_ends, byte)
        return self._paragraphs[index] if index < len(self._paragraphs) else _Paragraph()

    def title(self) -> str | None:
        return summary_title(self._file.read(self._file.root, "\x05SummaryInformation"))

    def _stream(self, number: int) -> bytes:
        offset, length = struct.unpack_from("<II", self._main, self._pointers + number * 8)
        return self._table[offset : offset + length]

    def _pieces(self) -> tuple[str, list[int], list[tuple[int, bool]]]:
        clx, at = self._stream(33), 0
        while at < len(clx) and clx[at] == 1:
            at += 3 + struct.unpack_from("<H", clx, at + 1)[0]
        if at >= len(clx) or clx[at] != 2:  # noqa: PLR2004 - the mark of the piece table
            raise Unreadable(_DAMAGED)
        size = min(struct.unpack_from("<I", clx, at + 1)[0], len(clx) - at - 5)
        count = max(0, (size - 4) // 12)
        positions = struct.unpack_from(f"<{count + 1}I", clx, at + 5)
        texts, starts, offsets, total = list[str](), list[int](), list[tuple[int, bool]](), 0
        for index in range(count):
            length = positions[index + 1] - positions[index]
            place = struct.unpack_from("<I", clx, at + 5 + (count + 1) * 4 + index * 8 + 2)[0]
            wide = not place & 0x40000000
            offset = place & 0x3FFFFFFF if wide else (place & 0x3FFFFFFF) // 2
            if length <= 0 or total + length > _MOST_CHARS:
                continue
            data = self._main[offset : offset + length * (2 if wide else 1)]
            text = data.decode("utf-16-le" if wide else "cp1252", "replace") if data else ""
            if wide and len(text) != length:  # a pair of surrogates is one letter in Python, two positions in Word
                text = "".join(map(chr, array("H", data[: len(data) // 2 * 2])))
            starts.append(total)
            offsets.append((offset, wide))
            texts.append(text.ljust(length, "\0")[:length])
            total += length
        return "".join(texts), starts, offsets

    def _paragraph_runs(self) -> tuple[list[int], list[_Paragraph]]:
        table = self._stream(13)
        count = max(0, (len(table) - 4) // 8)
        pages = struct.unpack_from(f"<{count}I", table, (count + 1) * 4) if count else ()
        runs: list[tuple[int, _Paragraph]] = []
        for page in pages[: len(self._main) // _FKP_BYTES]:
            block = self._main[(page & 0x3FFFFF) * _FKP_BYTES : ((page & 0x3FFFFF) + 1) * _FKP_BYTES]
            if len(block) == _FKP_BYTES:
                runs += self._runs_of_page(block)
        runs.sort(key=lambda run: run[0])
        return [end for end, _ in runs], [paragraph for _, paragraph in runs]

    def _runs_of_page(self, block: bytes) -> list[tuple[int, _Paragraph]]:
        count = min(block[-1], 29)
        ends = struct.unpack_from(f"<{count + 1}I", block)
        found = []
        for index in range(count):
            offset = block[(count + 1) * 4 + index * 13] * 2
            found.append((ends[index + 1], self._properties(block, offset) if offset else _Paragraph()))
        return found

    def _properties(self, block: bytes, offset: int) -> _Paragraph:
        size = block[offset] * 2 - 1
        start = offset + 1
        if size < 0 and start < len(block):
            size, start = block[start] * 2, start + 1
        data = block[start : start + size]
        if len(data) < 2:  # noqa: PLR2004 - the number of a style
            return _Paragraph()
        style = struct.unpack_from("<H", data)[0]
        found = _Paragraph(level=self._levels.get(style, style if 1 <= style <= 9 and not self._levels else 0))  # noqa: PLR2004
        at = 2
        while at + 2 < len(data):
            code = struct.unpack_from("<H", data, at)[0]
            at += 2
            length = _LONG.get(code >> 13, data[at] + 1)
            if code in (0xD608, 0xD606):
                length = struct.unpack_from("<H", data.ljust(at + 2, b"\0"), at)[0] + 1
            value = data[at] if at < len(data) else 0
            if code == _IN_TABLE:
                found.in_table = bool(value)
            elif code == _ROW_END:
                found.row_end = bool(value)
            elif code == _LEVEL:
                found.level = value + 1 if value < 9 else 0  # noqa: PLR2004 - 9 is body text
            elif code == _NESTED:
                found.depth = value
            at += length
        return found

    def _style_levels(self) -> dict[int, int]:
        """Return the levels of headings by style, from the built-in styles Heading 1 to 9 and Title."""
        sheet = self._stream(1)
        if len(sheet) < 4:  # noqa: PLR2004 - the header
            return {}
        header = struct.unpack_from("<H", sheet)[0]
        count = struct.unpack_from("<H", sheet, 2)[0]
        at, levels, based = 2 + header, dict[int, int](), dict[int, int]()
        for number in range(min(count, 4096)):
            if at + 2 > len(sheet):
                break
            size = struct.unpack_from("<H", sheet, at)[0]
            if size >= 6:  # noqa: PLR2004 - the fixed part
                identity = struct.unpack_from("<H", sheet, at + 2)[0] & 0xFFF
                kind = struct.unpack_from("<H", sheet, at + 4)[0]
                if 1 <= identity <= 9:  # noqa: PLR2004 - Heading 1 to 9
                    levels[number] = identity
                elif identity == 62:  # noqa: PLR2004 - Title
                    levels[number] = 1
                elif kind & 15 == 1:
                    based[number] = kind >> 4
            at += 2 + size + (size & 1)
        return levels | {number: levels[base] for number, base in based.items() if base in levels}


@dataclass(slots=True)
class _Story:
    document: _OldDocument
    blocks: Blocks
    raw: list[str]
    _codes: list[list[str]] = field(default_factory=list)
    _in_code: list[bool] = field(default_factory=list)

    def read(self, start: int, end: int) -> None:
        text, at = self.document.text, start
        for mark in _MARKS.finditer(text, start, end):
            self._text(text[at : mark.start()])
            self._mark(mark[0], mark.start())
            at = mark.end()
        self._text(text[at:end])
        self._codes.clear()
        self._in_code.clear()
        self.blocks.finish()
        self.raw.append("\n")

    def _text(self, text: str) -> None:
        if not text:
            return
        if any(self._in_code[-1:]):
            self._codes[-1].append(text)
        elif not any(self._in_code):
            if "\ud800" <= max(text) <= "\udfff":
                text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
            self.raw.append(text)
            self.blocks.text(text)

    def _mark(self, mark: str, position: int) -> None:
        if mark == _CODE:
            self._in_code.append(True)
            self._codes.append([])
        elif mark == _RESULT and self._in_code and self._in_code[-1]:
            self._in_code[-1] = False
            link = _LINK.search("".join(self._codes[-1]))
            if link and not any(self._in_code):
                self.blocks.open_link(link[1])
                self._codes[-1] = ["link"]
        elif mark == _END and self._in_code:
            self._in_code.pop()
            if self._codes.pop() == ["link"]:
                self.blocks.close("link")
        elif mark in _SHOWN:
            self._text(_SHOWN[mark])
        elif mark in "\r\x0c\x07\x0e":
            self._end_paragraph(mark, position)

    def _end_paragraph(self, mark: str, position: int) -> None:
        paragraph = self.document.paragraph(position)
        self.raw.append("\n")
        blocks = self.blocks
        if mark == "\x07" and paragraph.row_end:
            blocks.end_row(nested=paragraph.depth > 1)
        elif mark == "\x07":
            blocks.end_cell(nested=paragraph.depth > 1)
        else:
            blocks.in_table = paragraph.in_table
            blocks.level = 0 if paragraph.in_table else paragraph.level
            blocks.end_paragraph()


_MARKS = re.compile(f"[\r\x07\x0c\x0e{_CODE}{_RESULT}{_END}{''.join(_SHOWN)}]")
