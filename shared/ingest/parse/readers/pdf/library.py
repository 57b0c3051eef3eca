"""Functions of pdfium that are called for each character or object, as fast as ctypes can call them.

The arrays of a page are filled by `map` over addresses. A call takes 0.3 microseconds instead of 1.5 with the objects
of pypdfium2, and a page has thousands of characters.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Callable, Iterable
from ctypes import PYFUNCTYPE, addressof, c_char, c_int, c_size_t, c_uint, c_void_p, cast
from itertools import repeat
from typing import Any

from pypdfium2 import raw

Call = Callable[..., Any]
_INT, _ADDRESS = c_int, c_void_p
_NO_CHARACTER = 0xFFFD
_MOST_FONT_BYTES = 32 * 1024 * 1024


def _fast(function: object, result: Any, *arguments: Any) -> Call:
    return PYFUNCTYPE(result, *arguments)(cast(function, c_void_p).value)  # type: ignore[arg-type]


_loose_box = _fast(raw.FPDFText_GetLooseCharBox, _INT, _ADDRESS, _INT, _ADDRESS)
_origin = _fast(raw.FPDFText_GetCharOrigin, _INT, _ADDRESS, _INT, _ADDRESS, _ADDRESS)
_object_of = _fast(raw.FPDFText_GetTextObject, _ADDRESS, _ADDRESS, _INT)
_unicode = _fast(raw.FPDFText_GetUnicode, c_uint, _ADDRESS, _INT)
_unmapped = _fast(raw.FPDFText_HasUnicodeMapError, _INT, _ADDRESS, _INT)
_font = _fast(raw.FPDFTextObj_GetFont, _ADDRESS, _ADDRESS)
_name = _fast(raw.FPDFFont_GetBaseFontName, c_size_t, _ADDRESS, _ADDRESS, c_size_t)
_data = _fast(raw.FPDFFont_GetFontData, _INT, _ADDRESS, _ADDRESS, c_size_t, _ADDRESS)
_type = _fast(raw.FPDFPageObj_GetType, _INT, _ADDRESS)


def address(handle: object) -> int:
    """Return the address of a handle."""
    return cast(handle, c_void_p).value or 0  # type: ignore[arg-type]


def unicodes(text_page: int, count: int) -> list[int]:
    """Return the code point of each character; 0 if its font does not say."""
    return code_points(list(map(_unicode, repeat(text_page), range(count))))


def code_points(codes: list[int]) -> list[int]:
    """Return codes without codes beyond Unicode, which pdfium takes from fonts with codes of three bytes."""
    if max(codes, default=0) <= sys.maxunicode:
        return codes
    return [code if code <= sys.maxunicode else _NO_CHARACTER for code in codes]


def is_unmapped(text_page: int, at: int) -> bool:
    """Return whether the file does not map a character to Unicode."""
    return bool(_unmapped(text_page, at) == 1)


def boxes(text_page: int, count: int) -> array[float]:
    """Return left, top, right and bottom of each character, from the ascent to the descent of its font."""
    found = array("f", bytes(16 * count))
    first = found.buffer_info()[0]
    _run(map(_loose_box, repeat(text_page), range(count), range(first, first + 16 * count, 16)))
    return found


def origins(text_page: int, count: int) -> array[float]:
    """Return x and y of each character's origin."""
    found = array("d", bytes(16 * count))
    first = found.buffer_info()[0]
    end = first + 16 * count
    _run(map(_origin, repeat(text_page), range(count), range(first, end, 16), range(first + 8, end + 8, 16)))
    return found


def objects(text_page: int, count: int) -> list[int | None]:
    """Return the address of each character's text object; None for line ends that pdfium inserted."""
    return list(map(_object_of, repeat(text_page), range(count)))


def font_of(item: int) -> int:
    """Return the address of the font of a text object; 0 if it has none."""
    return _font(item) or 0


def font_data(font: int) -> bytes:
    """Return the file of a font; empty if it is too long."""
    length = c_size_t()
    if not _data(font, None, 0, addressof(length)) or not 0 < length.value <= _MOST_FONT_BYTES:
        return b""
    data = bytearray(length.value)
    start = (c_char * len(data)).from_buffer(data)
    _data(font, addressof(start), len(data), addressof(length))
    return bytes(data)


def is_bitmap(text_page: int, at: int) -> bool:
    """Return whether the font of a character has no name: its glyphs are drawings, as TeX's bitmaps are."""
    item = _object_of(text_page, at)
    font = font_of(item) if item else 0
    return bool(font) and _name(font, None, 0) <= 1


def object_type(item: int) -> int:
    """Return the type of a page object."""
    return int(_type(item))


def _run(calls: Iterable[object]) -> None:
    for _ in calls:
        pass
