"""A font for text whose Chinese, Japanese or Korean font is not in the file.

pdfium leaves out text without an extent. Glyphs that its own fonts lack have none, so that vertical lines and single
characters would vanish. This font draws a box for every character: only its size counts, the text comes from the file.
"""

from __future__ import annotations

import struct
from ctypes import addressof, memmove, memset, sizeof
from functools import cache
from typing import Any

from pypdfium2 import raw

_EAST_ASIAN = frozenset((128, 129, 134, 136))  # character sets of Windows: Japanese, Korean, simplified and traditional
_HANDLE = 1
_EM = 1000


def _font() -> bytes:
    """Return a TrueType font whose two glyphs are boxes: every character has the second one."""
    glyph = struct.pack(">5hHH4B", 1, 0, -120, _EM, 880, 3, 0, 1, 1, 1, 1)
    glyph += struct.pack(">8h", 0, 0, _EM, 0, -120, 1000, 0, -1000) + b"\0\0"
    tables = {
        b"cmap": struct.pack(">HHHHIHHIIIIII", 0, 1, 3, 10, 12, 13, 0, 28, 0, 1, 0, 0x10FFFF, 1),
        b"glyf": glyph * 2,
        b"head": struct.pack(
            ">IIIIHHqqhhhhHHhhh",
            *(0x10000, 0x10000, 0, 0x5F0F3CF5, 0, _EM, 0, 0, 0, -120, _EM, 880, 0, 8, 2, 1, 0),
        ),
        b"hhea": struct.pack(">IhhhHhhhhhhhhhhhH", 0x10000, 880, -120, 0, _EM, 0, 0, _EM, 1, 0, 0, 0, 0, 0, 0, 0, 2),
        b"hmtx": struct.pack(">HhHh", _EM, 0, _EM, 0),
        b"loca": struct.pack(">III", 0, len(glyph), 2 * len(glyph)),
        b"maxp": struct.pack(">IHHHHHHHHHHHHHH", 0x10000, 2, 4, 1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0),
    }
    start, directory, body = 12 + 16 * len(tables), b"", b""
    for tag, table in tables.items():
        directory += struct.pack(">4sIII", tag, 0, start + len(body), len(table))
        body += table + b"\0" * (-len(table) % 4)
    return struct.pack(">IHHHH", 0x10000, len(tables), 64, 2, 16 * len(tables) - 64) + directory + body


_FONT = _font()


def _map(_info: Any, _weight: int, _italic: int, charset: int, _pitch: int, _face: Any, _exact: Any) -> int | None:
    return _HANDLE if charset in _EAST_ASIAN else None


def _data(_info: Any, _font: Any, table: int, buffer: Any, size: int) -> int:
    if table:
        return 0
    if buffer and size >= len(_FONT):
        memmove(buffer, _FONT, len(_FONT))
    return len(_FONT)


def _nothing(*_: Any) -> int:
    return 0


_TYPES = dict(raw.FPDF_SYSFONTINFO._fields_)
_INFO = raw.FPDF_SYSFONTINFO()
memset(addressof(_INFO), 0, sizeof(_INFO))
_INFO.version = 1
_INFO.MapFont = _TYPES["MapFont"](_map)
_INFO.GetFontData = _TYPES["GetFontData"](_data)
_INFO.GetFaceName = _TYPES["GetFaceName"](_nothing)
_INFO.GetFontCharset = _TYPES["GetFontCharset"](_nothing)


@cache
def use() -> None:
    """Replace the fonts of the system by this font in pdfium, because a confined process cannot open them."""
    raw.FPDF_SetSystemFontInfo(_INFO)
