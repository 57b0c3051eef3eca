"""Letters of fonts whose characters the file does not map to Unicode: their codes are mostly the numbers of glyphs.

A TrueType font in the file may say which letters its glyphs are (OpenType 1.9, table `cmap`). Most other fonts have
their glyphs in Apple's standard order (OpenType 1.9, table `post`, format 1), in which glyph 3 is the space.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterator, Mapping, Sequence

from shared.ingest.parse.readers.pdf import library

_STANDARD = {glyph: glyph + 29 for glyph in range(3, 98)}  # from the space to the tilde
_LEAST_MAPPED = 0.9  # of the characters
_LEAST_PLAIN = 0.7  # letters and spaces among the characters
_LEAST_LETTERS = 3  # different ones
_UNICODE = ((3, 10), (0, 6), (0, 4), (3, 1), (0, 3), (0, 2), (0, 1), (0, 0))
"""Platforms and encodings of tables with code points, the largest tables first."""

_FORMATS = (4, 12)
_MOST_GLYPHS = 65_536


def letters_of(font: int, codes: Sequence[int]) -> Mapping[int, int]:
    """Return the code point of each code of a font, as far as it is known.

    Args:
        font: address of pdfium's handle.
        codes: codes of the characters on a page that the file does not map.
    """
    for letters in (dict(_glyph_letters(library.font_data(font))), _STANDARD):
        if _is_plausible(letters, codes):
            return letters
    return {}


def _is_plausible(letters: Mapping[int, int], codes: Sequence[int]) -> bool:
    """Return whether codes become text: codes that are letters already have no control characters among them."""
    if not any(code < 32 for code in codes):  # noqa: PLR2004 - the space
        return False
    found = [chr(letters[code]) for code in codes if code in letters]
    if len(found) < len(codes) * _LEAST_MAPPED or len({char for char in found if char.isalpha()}) < _LEAST_LETTERS:
        return False
    return sum(char.isalpha() or char.isspace() for char in found) >= len(found) * _LEAST_PLAIN


def _glyph_letters(font: bytes) -> Iterator[tuple[int, int]]:
    """Yield the glyphs of a TrueType font, each with its code point; the smallest code point of a glyph is last."""
    try:
        table = _table(font)
        yield from sorted(table, key=lambda pair: -pair[1])
    except (struct.error, ValueError):
        return


def _table(font: bytes) -> list[tuple[int, int]]:
    if not font.startswith((b"\0\1\0\0", b"true")):
        return []
    count = struct.unpack_from(">H", font, 4)[0]
    records = (struct.unpack_from(">4s4xII", font, 12 + 16 * index) for index in range(count))
    start = next((offset for tag, offset, _ in records if tag == b"cmap"), 0)
    if not start:
        return []
    subtables = (struct.unpack_from(">HHI", font, start + 4 + 8 * index) for index in range(_count_at(font, start + 2)))
    places = {(platform, encoding): start + offset for platform, encoding, offset in subtables}
    for key in _UNICODE:
        if key in places and _count_at(font, places[key]) in _FORMATS:
            read = _ranges if _count_at(font, places[key]) == _FORMATS[0] else _groups
            return list(read(font, places[key]))
    return []


def _count_at(font: bytes, at: int) -> int:
    return int(struct.unpack_from(">H", font, at)[0])


def _ranges(font: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield the glyphs of a table of format 4."""
    count = _count_at(font, at + 6) // 2
    ends = struct.unpack_from(f">{count}H", font, at + 14)
    starts = struct.unpack_from(f">{count}H", font, at + 16 + 2 * count)
    deltas = struct.unpack_from(f">{count}H", font, at + 16 + 4 * count)
    offsets_at = at + 16 + 6 * count
    offsets = struct.unpack_from(f">{count}H", font, offsets_at)
    for index, (start, end) in enumerate(zip(starts, ends, strict=True)):
        for code in range(start, min(end, 0xFFFE) + 1):
            glyph = code
            if offsets[index]:
                place = offsets_at + 2 * index + offsets[index] + 2 * (code - start)
                glyph = _count_at(font, place) if place + 2 <= len(font) else 0
            if glyph:
                yield (glyph + deltas[index]) & 0xFFFF, code


def _groups(font: bytes, at: int) -> Iterator[tuple[int, int]]:
    """Yield the glyphs of a table of format 12."""
    count = min(struct.unpack_from(">I", font, at + 12)[0], _MOST_GLYPHS)
    for index in range(count):
        start, end, glyph = struct.unpack_from(">III", font, at + 16 + 12 * index)
        if start <= end <= sys.maxunicode:
            yield from ((glyph + code - start, code) for code in range(start, min(end, start + _MOST_GLYPHS) + 1))
