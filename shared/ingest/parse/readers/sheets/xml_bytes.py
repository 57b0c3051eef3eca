"""Worksheets and shared strings as most programs write them, read from bytes: an XML parser takes five times as long.

`Unusual` is raised for any other form, and the caller reads the part with an XML parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import unescape
from typing import NamedTuple

from shared.ingest.parse.readers.sheets.references import column_of

_START, _END = b"<sheetData>", b"</sheetData>"
_ROW = re.compile(rb"<row(\s[^<>]*)?>")
_CELL = re.compile(
    rb'<c(?:\sr="([A-Z]{1,3})\d{1,7}")?([^<>]*?)(?:/>|>'
    rb"(<f(?:\s[^<>]*)?(?:/>|>[^<]*</f>))?"
    rb"(?:<v(?:\s[^<>]*)?(?:/>|>([^<]*)</v>))?"
    rb"(?:<is><t(?:\s[^<>]*)?>([^<]*)</t></is>)?"
    rb"</c>)"
)
_USUAL_CELL = re.compile(rb'<c r="([A-Z]{1,3})\d{1,7}"([^<>/]*)(?:/>|>(?:<v(?:\s[^<>]*)?>([^<]*)</v>)?</c>)')
"""A cell without a formula and without a text of its own, which takes half as long to find."""

_EMPTY = re.compile(rb'(?:<c r="[A-Z]{1,3}+[0-9]{1,7}+"(?: s="[0-9]{1,6}+")?+/>)++')
_ATTRIBUTES = re.compile(rb'(?:\s[\w:.]{1,40}="[^"<>&]*")*\s*')
_ATTRIBUTE = re.compile(rb'\s([\w:.]{1,40})="([^"<>&]*)"')
_ROW_NUMBER = re.compile(rb'\sr="([1-9]\d{0,8})"')
_STRING = re.compile(rb"<t(?:\s[^<>]*)?>([^<]*)</t></si>")
_OTHER_ENCODING = re.compile(rb"encoding\s{0,9}=\s{0,9}[\"'](?!utf-8[\"'])", re.IGNORECASE)
_DECLARATION_BYTES = 200


class NeedsParserError(Exception):
    """Only an XML parser reads this part."""


class Format(NamedTuple):
    """The attributes of a cell by which its value is shown: `t`, its kind, and `s`, its style."""

    kind: str | None
    style: str | None


RawCell = tuple[int, bytes, bytes | None, bytes, bytes | None]
"""Column from 0, attributes, formula (None if there is none), value, text in the cell itself (or None)."""

UsualCell = tuple[bytes, bytes, bytes]
"""Letters of the column, attributes, value."""


def without_empty_cells(content: bytes) -> bytes:
    """Return a worksheet without cells that have only a format, which some files have by the thousands."""
    if b'"/><c r="' not in content and b'"/></row>' not in content:
        return content
    if content.count(b'<c r="') != content.count(b"<c ") or b"<c>" in content:  # the position of a cell counts
        return content
    return _EMPTY.sub(b"", content)


def rows_of(content: bytes) -> tuple[int, int] | None:
    """Return the first and the last index of the rows of a worksheet; None if only an XML parser finds them."""
    start, end = content.find(_START), content.rfind(_END)
    if start < 0 or end < start or not _is_plain(content, start, end):
        return None
    return start + len(_START), end


def rows(content: bytes, start: int, end: int) -> Iterator[tuple[int, int, int]]:
    """Yield the number of each row between two indexes, from 0, and the first and last index of its cells.

    Raises:
        NeedsParserError: a row has another form.
    """
    number, first, count = -1, start, 0
    for row in _ROW.finditer(content, start, end):
        if count:
            yield number, first, row.start()
        elif content.find(b"<c", start, row.start()) >= 0:
            raise NeedsParserError
        stated = _ROW_NUMBER.search(row[1]) if row[1] else None
        number, first, count = int(stated[1]) - 1 if stated else number + 1, row.end(), count + 1
    if count != content.count(b"<row", start, end) or (not count and content.find(b"<c", start, end) >= 0):
        raise NeedsParserError
    if count:
        yield number, first, end


def usual_cells(content: bytes, start: int, end: int) -> list[UsualCell] | None:
    """Return the cells of a row; None if one of them has a formula, a text of its own, or another form."""
    if content.find(b"<f", start, end) >= 0:
        return None
    found = _USUAL_CELL.findall(content, start, end)
    return found if len(found) == content.count(b"<c", start, end) else None


def cells(content: bytes, start: int, end: int) -> Iterator[RawCell]:
    """Yield the cells of a row that have a value.

    Raises:
        NeedsParserError: a cell has another form.
    """
    column, count = -1, 0
    for found in _CELL.finditer(content, start, end):
        letters, attributes, formula, value, inline = found.groups()
        count += 1
        column = column + 1 if letters is None else column_of(letters.decode())
        if value or formula is not None or inline is not None:
            yield column, attributes, formula, value or b"", inline
    if count != content.count(b"<c", start, end):
        raise NeedsParserError


def format_of(attributes: bytes) -> Format:
    """Return the format that the attributes of a cell state.

    Raises:
        NeedsParserError: they have another form.
    """
    stated = dict(_ATTRIBUTE.findall(attributes))
    if not attributes.isascii() or not _ATTRIBUTES.fullmatch(attributes) or b"r" in stated:
        raise NeedsParserError
    kind, style = stated.get(b"t"), stated.get(b"s")
    return Format(kind and kind.decode(), style and style.decode())


def strings(content: bytes) -> Iterator[str | bytes]:
    """Yield the shared strings in their order: text, or the XML of a string with formatted parts.

    Raises:
        NeedsParserError: the part has another form.
    """
    if not _is_plain(content, 0, len(content)) or b"<si " in content or b"<si/" in content:
        raise NeedsParserError
    at = content.find(b"<si>")
    if at < 0 and b"<sst" not in content:
        raise NeedsParserError
    while at >= 0:
        at += len(b"<si>")
        following = content.find(b"<si>", at)
        if found := _STRING.match(content, at):
            yield decoded(found[1])
        else:
            piece = content[at : following if following >= 0 else len(content)]
            yield b"<si>" + piece[: piece.rfind(b"</si>")] + b"</si>"
        at = following


def decoded(raw: bytes) -> str:
    """Return the text of a node."""
    text = raw.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return unescape(text) if "&" in text else text


def formula_text(formula: bytes) -> str:
    """Return the text of the element of a formula; empty if it is a part of a shared formula."""
    return decoded(formula[formula.find(b">") + 1 :].removesuffix(b"</f>")).strip()


def _is_plain(content: bytes, start: int, end: int) -> bool:
    """Return whether there are neither comments, sections, declared entities nor an encoding other than UTF-8."""
    head = content[:_DECLARATION_BYTES]
    return b"<!" not in head and content.find(b"<!", start, end) < 0 and not _OTHER_ENCODING.search(head)
