"""A second reading of a worksheet: its cells in the order of its bytes, without an XML parser.

The loss guard compares it with the tables. Positions, merged cells and empty cells are not read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

from shared.ingest.parse.readers.sheets.cell_styles import MOST_FORMATS, CellStyles, boolean, whole_number
from shared.ingest.parse.readers.sheets.strings import unescaped
from shared.ingest.parse.readers.sheets.tables import one_line

_PLAIN_CELLS = tuple(
    re.compile(
        rb'<%bc\s(?:r="[A-Z]{1,3}\d{1,7}")?([^<>]{0,300})>'
        rb"(<%bf\b[^<>]{0,300}(?:/>|>[^<]*</%bf\s{0,9}>))?"
        rb"<%bv\b[^<>]{0,60}>([^<]*)<".replace(b"%b", prefix)
    )
    for prefix in (b"", rb"(?:\w{1,20}:)?")
)
"""A cell with a value: without and with a prefix of its names, which takes several times as long to find."""

_PLAIN_TEXT = re.compile(rb"<(?:\w{1,20}:)?t(?:\s[^<>]{0,100})?>([^<]*)<")
_PLAIN_ITEM = re.compile(rb"<(?:\w{1,20}:)?(?:si|is)[\s/>]")
_PLAIN_PHONETIC = re.compile(rb"<(?:\w{1,20}:)?rPh\b")
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
    formats = dict[bytes, tuple[str, str | None]]()
    number = styles.number
    for found in _PLAIN_CELLS[b"<c " not in content].finditer(content):
        attributes, formula, raw = found.groups()
        if stale and formula and raw == b"0":
            continue
        if (form := formats.get(attributes)) is None:
            if len(formats) > MOST_FORMATS:
                formats.clear()
            form = formats[attributes] = _plain_format(attributes)
        kind, style = form
        if kind == "n":
            yield number(_plain(raw), style)
        elif kind == "s":
            index = whole_number(raw.decode("ascii", "replace").strip())
            yield strings[index] if index is not None and index < len(strings) else ""
        elif kind == "b":
            yield boolean(_plain(raw))
        elif kind == "d":
            yield styles.moment(_plain(raw), style)
        else:
            yield one_line(_plain(raw))
    if b"<is" in content or b":is" in content:
        yield from plain_strings(content)


def _plain_format(attributes: bytes) -> tuple[str, str | None]:
    kind, style = _TYPE.search(attributes), _STYLE.search(attributes)
    return kind[1].decode() if kind else "n", style[1].decode() if style else None


def _plain(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return unescaped(unescape(text) if "&" in text else text)
