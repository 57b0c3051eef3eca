"""Records and strings of Excel 97 files (MS-XLS), and of Excel 5."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

BOF, EOF, CONTINUE = 0x809, 0x0A, 0x3C
_BIFF8 = 0x0600
_WIDE, _EXTENDED, _RICH = 1, 4, 8


@dataclass(slots=True)
class Record:
    """A record.

    Args:
        kind: its number.
        data: its content.
        more: the contents of the records that continue it.
    """

    kind: int
    data: bytes
    more: list[bytes] = field(default_factory=list)


def records(stream: bytes, at: int = 0) -> Iterator[Record]:
    """Yield the records from an offset to the end of their part: a sheet, or the globals. Charts in it are included."""
    depth, current = 0, None
    while at + 4 <= len(stream):
        kind, length = struct.unpack_from("<HH", stream, at)
        data = stream[at + 4 : at + 4 + length]
        at += 4 + length
        if kind == CONTINUE:
            if current:
                current.more.append(data)
            continue
        if current:
            yield current
        current = Record(kind, data)
        if kind == BOF:
            depth += 1
        elif kind == EOF:
            depth -= 1
            if depth <= 0:
                break
    if current:
        yield current


@dataclass(frozen=True, slots=True)
class Encoding:
    """How a file stores strings: as UTF-16 since Excel 97, else in a code page."""

    version: int
    codec: str

    @property
    def is_unicode(self) -> bool:
        """Return whether strings have a byte with flags."""
        return self.version >= _BIFF8

    def text(self, data: bytes, at: int, length_bytes: int) -> str:
        """Return a string whose length is stored at an offset in one or two bytes."""
        if at + length_bytes > len(data):
            return ""
        length = int.from_bytes(data[at : at + length_bytes], "little")
        start = at + length_bytes
        if not self.is_unicode:
            return data[start : start + length].decode(self.codec, "replace")
        if start >= len(data):
            return ""
        flags = data[start]
        start += 1 + (2 if flags & _RICH else 0) + (4 if flags & _EXTENDED else 0)
        return _decoded(data[start : start + length * (1 + (flags & _WIDE))], flags)


def _decoded(data: bytes, flags: int) -> str:
    return data.decode("utf-16-le", "replace") if flags & _WIDE else data.decode("latin-1")


def continued_text(pieces: Sequence[bytes], length: int) -> str:
    """Return a text of so many characters in continuing records, each with its own flags."""
    found = list[str]()
    for piece in pieces:
        if length <= 0 or not piece:
            break
        text = _decoded(piece[1:], piece[0])[:length]
        found.append(text)
        length -= len(text)
    return "".join(found)


class SharedStrings:
    """The strings of a workbook, which are divided at any character by the ends of records."""

    def __init__(self, record: Record) -> None:
        self._pieces = [record.data, *record.more]
        self._piece, self._at = 0, 8

    def read(self) -> list[str]:
        """Return the strings; damaged ones at the end are left out."""
        found = list[str]()
        while self._has_more():
            try:
                found.append(self._string())
            except (struct.error, IndexError):
                break
        return found

    def _has_more(self) -> bool:
        while self._piece < len(self._pieces) and self._at >= len(self._pieces[self._piece]):
            self._piece, self._at = self._piece + 1, 0
        return self._piece < len(self._pieces)

    def _string(self) -> str:
        length, flags = struct.unpack("<HB", self._bytes(3))
        runs = struct.unpack("<H", self._bytes(2))[0] if flags & _RICH else 0
        extension = struct.unpack("<I", self._bytes(4))[0] if flags & _EXTENDED else 0
        parts = list[str]()
        while length > 0:
            if self._at >= len(self._pieces[self._piece]):
                self._has_more()
                flags = self._pieces[self._piece][self._at]
                self._at += 1
            width = 1 + (flags & _WIDE)
            piece = self._pieces[self._piece]
            count = min(length, (len(piece) - self._at) // width)
            parts.append(_decoded(piece[self._at : self._at + count * width], flags))
            self._at = self._at + count * width if count else len(piece)
            length -= count
        self._skip(runs * 4 + extension)
        return "".join(parts)

    def _bytes(self, count: int) -> bytes:
        found = b""
        while len(found) < count and self._has_more():
            piece = self._pieces[self._piece][self._at : self._at + count - len(found)]
            self._at += len(piece)
            found += piece
        return found

    def _skip(self, count: int) -> None:
        while count > 0 and self._has_more():
            step = min(count, len(self._pieces[self._piece]) - self._at)
            self._at += step
            count -= step


def rk_number(value: int) -> float:
    """Return a number that is stored in 32 bits."""
    if value & 2:
        number: float = (value >> 2) - (1 << 30 if value & 0x80000000 else 0)
    else:
        number = struct.unpack("<d", struct.pack("<Q", (value & 0xFFFFFFFC) << 32))[0]
    return number / 100 if value & 1 else number
