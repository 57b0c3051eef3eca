"""A second reading of a worksheet: its cells in the order of its bytes, without an XML parser.

The loss guard compares it with the tables. Positions, merged cells and empty cells are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

from shared.ingest.parse.readers.sheets.cell_styles import (
    LONGEST_CACHED,
    MOST_FORMATS,
    CellStyles,
    boolean,
    whole_number,
)
from shared.ingest.parse.readers.sheets.strings import unescaped
from shared.ingest.parse.readers.sheets.tables import one_line

_PLAIN_CELLS = tuple(
    re.compile(
        rb'<%bc\s(?:r="[A-Z]{1,3}\d{1,7}")?([^<>]{0,300})>'
        rb"(?:(<%bf)\b[^<>]{0,300}(?:/>|>[^<]*</%bf\s{0,9}>))?"
        rb"<%bv\b[^<>]{0,60}>([^<]*)<".replace(b"%b", prefix)
    )
    for prefix in (b"", rb"(?:\w{1,20}:)?")
)
"""A cell with a value: without and with a prefix of its names, which takes several times as long to find."""

_PLAIN_TEXT = re.compile(rb"<(?:\w{1,20}:)?t(?:\s[^<>]{0,100})?>([^<]*)<")
_PLAIN_ITEM = re.compile(rb"<(?:\w{1,20}:)?(?:si|is)[\s/>]")
_PLAIN_PHONETIC = re.compile(rb"<(?:\w{1,20}:)?rPh\b")
_CACHED_VALUES = 40_000
_TYPE = re.compile(rb'\bt\s?=\s?["\'](\w+)')
_STYLE = re.compile(rb'\bs\s?=\s?["\'](\d{1,6})')


def plain_strings(content: bytes) -> list[str]:
    """Return the texts of shared strings, or of strings in cells, each in one line, without an XML parser."""
    starts = [item.start() for item in _PLAIN_ITEM.finditer(content)]
    return [
        one_line("".join(plain_texts(content, start, end)))
        for start, end in zip(starts, [*starts[1:], len(content)], strict=False)
    ]


def plain_texts(content: bytes, start: int, end: int) -> Iterator[str]:
    """Yield the texts between two indexes of a part, without an XML parser and without pronunciations."""
    phonetic = _PLAIN_PHONETIC.search(content, start, end)
    for found in _PLAIN_TEXT.finditer(content, start, phonetic.start() if phonetic else end):
        yield _plain(found[1])


def plain_cells(content: bytes, strings: Sequence[str], styles: CellStyles, *, stale: bool) -> Iterator[str]:
    """Yield the texts of a worksheet's cells in the order of its bytes, without an XML parser.

    Args:
        content: the part of the worksheet.
        strings: shared strings.
        styles: number formats.
        stale: whether the values 0 of formulas were never calculated.
    """
    shown = _PlainValues(strings, styles, stale=stale)
    cells = _PLAIN_CELLS[b"<c " not in content].finditer(content)
    yield from map(shown.__getitem__, map(re.Match.groups, cells))
    if b"<is" in content or b":is" in content:
        yield from plain_strings(content)


class _PlainValues(dict[tuple[bytes | None, ...], str]):
    """Texts of cells by their attributes, the start of their formula, and their value: most sheets repeat them."""

    def __init__(self, strings: Sequence[str], styles: CellStyles, *, stale: bool) -> None:
        super().__init__()
        self._strings, self._styles, self._stale = strings, styles, stale
        self._formats: dict[bytes, tuple[str, str | None]] = {}

    def __missing__(self, cell: tuple[bytes | None, ...]) -> str:
        if len(self) > _CACHED_VALUES:
            self.clear()
        attributes, formula, raw = cell
        assert attributes is not None
        assert raw is not None
        text = "" if self._stale and formula and raw == b"0" else self._text(attributes, raw)
        if len(raw) <= LONGEST_CACHED:
            self[cell] = text
        return text

    def _text(self, attributes: bytes, raw: bytes) -> str:
        if (form := self._formats.get(attributes)) is None:
            if len(self._formats) > MOST_FORMATS:
                self._formats.clear()
            form = self._formats[attributes] = _plain_format(attributes)
        kind, style = form
        if kind == "n":
            return self._styles.number(raw, style)
        if kind == "s":
            index = whole_number(raw.decode("ascii", "replace").strip())
            return self._strings[index] if index is not None and index < len(self._strings) else ""
        if kind == "b":
            return boolean(_plain(raw))
        return self._styles.moment(_plain(raw), style) if kind == "d" else one_line(_plain(raw))


def _plain_format(attributes: bytes) -> tuple[str, str | None]:
    kind, style = _TYPE.search(attributes), _STYLE.search(attributes)
    return kind[1].decode() if kind else "n", style[1].decode() if style else None


def _plain(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return unescaped(unescape(text) if "&" in text else text)
