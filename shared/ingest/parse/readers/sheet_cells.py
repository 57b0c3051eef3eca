"""The cells of a worksheet of Office Open XML: their values as Excel shows them, and a second, plain reading."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from html import unescape
from io import BytesIO
from math import isfinite

from lxml import etree

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.grid import Grid, Merge
from shared.ingest.parse.readers.number_formats import BUILT_IN, NumberFormat, general
from shared.ingest.parse.readers.table_rows import column_letters, one_line

MOST_SHOWN_CHARS = 100_000_000
"""A workbook that shows more is refused, because few short texts can be shown in millions of cells."""

_MOST_COLUMNS = 16_384
_MOST_MERGES = 200_000
_CACHED_VALUES = 50_000
_MOST_DIGITS = 15
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?\Z")
_PLAIN_CELL = re.compile(
    rb"<(?:\w{1,20}:)?c\s([^<>]{0,300})>"
    rb"(<(?:\w{1,20}:)?f\b[^<>]{0,300}(?:/>|>[^<]*</(?:\w{1,20}:)?f\s{0,9}>))?"
    rb"<(?:\w{1,20}:)?v\b[^<>]{0,60}>([^<]*)<"
)
_PLAIN_TEXT = re.compile(rb"<(?:\w{1,20}:)?t(?:\s[^<>]{0,100})?>([^<]*)<")
_PLAIN_ITEM = re.compile(rb"<(?:\w{1,20}:)?(?:si|is)[\s/>]")
_PLAIN_PHONETIC = re.compile(rb"<(?:\w{1,20}:)?rPh\b")
_TYPE = re.compile(rb'\bt\s?=\s?["\'](\w+)')
_STYLE = re.compile(rb'\bs\s?=\s?["\'](\d{1,6})')
_EXCEL_EPOCH = datetime(1899, 12, 30, tzinfo=UTC)


def xml(content: bytes) -> etree._Element | None:
    """Return the root of a part; None if it has none."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, huge_tree=True, recover=True)
    try:
        return etree.fromstring(content, parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def local(element: etree._Element) -> str:
    """Return the name of an element without its namespace; empty for a comment."""
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def unescaped(text: str) -> str:
    """Return a text of Excel without escapes such as `_x000D_`."""
    if "_x" not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\r\n", "\n").replace("\r", "\n")


def range_of(reference: str) -> Merge | None:
    """Return the cells of a reference such as `B2:D9`."""
    found = _REFERENCE.match(reference.strip().upper())
    if not found:
        return None
    left, top = column_of(found[1]), int(found[2]) - 1
    right, bottom = (column_of(found[3]), int(found[4]) - 1) if found[3] else (left, top)
    return Merge(min(top, bottom), max(top, bottom), min(left, right), max(left, right))


def column_of(letters: str) -> int:
    """Return the number of a column, from 0."""
    number = 0
    for letter in letters:
        number = number * 26 + ord(letter) - ord("A") + 1
    return number - 1


class Styles:
    """The number formats of a workbook's cells.

    Args:
        content: the part `styles.xml`; None if there is none.
        since_1904: whether dates count from 1904-01-01.
    """

    def __init__(self, content: bytes | None, *, since_1904: bool) -> None:
        self._since_1904 = since_1904
        codes, styles = _format_codes(xml(content) if content else None)
        self._formats: dict[str, NumberFormat | None] = {}
        compiled: dict[str, NumberFormat | None] = {"General": None}
        for index, identifier in enumerate(styles):
            code = codes.get(identifier) or BUILT_IN.get(identifier, "General")
            if code not in compiled:
                plain = code.strip().lower() in ("general", "@", "")
                compiled[code] = None if plain else NumberFormat(code, since_1904=since_1904)
            self._formats[str(index)] = compiled[code]
        self._shown: dict[str | None, dict[str, str]] = {}

    def number(self, raw: str, style: str | None) -> str:
        """Return a stored number as it is shown."""
        if (cache := self._shown.get(style)) and (shown := cache.get(raw)):
            return shown
        if cache is None or len(cache) > _CACHED_VALUES:
            cache = self._shown[style] = {}
        shown = cache[raw] = self._number(raw, self._formats.get(style or "0"))
        return shown

    def text(self, text: str, style: str | None) -> str:
        """Return a stored text as it is shown."""
        form = self._formats.get(style or "0")
        return form.text(text) if form else text

    def moment(self, raw: str, style: str | None) -> str:
        """Return a date that is stored as ISO 8601."""
        form = self._formats.get(style or "0")
        try:
            when = datetime.fromisoformat(raw.strip())
        except ValueError:
            return raw
        if not form or not form.is_date:
            return raw
        days = (when.replace(tzinfo=UTC) - _EXCEL_EPOCH).total_seconds() / 86_400
        return form.number(days - (1462 if self._since_1904 else 0))

    @staticmethod
    def _number(raw: str, form: NumberFormat | None) -> str:
        if form is None and len(raw) <= _MOST_DIGITS and raw.isascii() and raw.isdigit():
            return raw.lstrip("0") or "0"
        try:
            value = float(raw)
        except ValueError:
            return raw.strip()
        if not isfinite(value):
            return raw.strip()
        return form.number(value) if form else general(value)


def _format_codes(root: etree._Element | None) -> tuple[dict[int, str], list[int]]:
    """Return the format codes that a file defines, and the format of each style."""
    codes, styles = dict[int, str](), list[int]()
    for element in root.iter("{*}numFmt") if root is not None else ():
        if (identifier := _number(element.get("numFmtId"))) is not None and local(element.getparent()) == "numFmts":
            codes[identifier] = element.get("formatCode") or ""
    for element in root.iter("{*}cellXfs") if root is not None else ():
        styles = [_number(style.get("numFmtId")) or 0 for style in element if local(style) == "xf"]
    return codes, styles


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - 32 bits


def shared_strings(content: bytes) -> list[str]:
    """Return the texts of the part `sharedStrings.xml`, without pronunciations."""
    found = list[str]()
    try:
        for _, item in etree.iterparse(BytesIO(content), tag="{*}si", **_PARSING):
            found.append(_string(item))
            _forget(item)
    except etree.XMLSyntaxError:
        pass
    return found


_PARSING = {"events": ("end",), "resolve_entities": False, "no_network": True, "huge_tree": True, "recover": True}


def _forget(element: etree._Element) -> None:
    element.clear(keep_tail=False)
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def _string(item: etree._Element) -> str:
    if len(item) == 1 and local(item[0]) == "t":
        return unescaped(item[0].text or "")
    texts = (text.text or "" for text in item.iter("{*}t") if local(text.getparent()) != "rPh")
    return unescaped("".join(texts))


@dataclass(slots=True)
class Worksheet:
    """The content of a worksheet's part.

    Args:
        grid: cells.
        formulas: cells with a formula but without a stored value: reference and formula.
        stale: whether the values 0 of formulas were never calculated.
        page_texts: texts of the printed header and footer, with their codes.
    """

    grid: Grid = field(default_factory=Grid)
    formulas: list[tuple[str, str]] = field(default_factory=list)
    stale: bool = False
    page_texts: list[str] = field(default_factory=list)


class WorksheetReader:
    """Reads worksheets of one workbook.

    Args:
        strings: shared strings.
        styles: number formats.
        recalculates: whether the workbook asks to be calculated when it is opened: the values 0 of its formulas
            were never calculated.
    """

    def __init__(self, strings: Sequence[str], styles: Styles, *, recalculates: bool) -> None:
        self._strings, self._styles, self._recalculates = strings, styles, recalculates
        self._columns: dict[str, int] = {}
        self._chars = 0

    def read(self, content: bytes) -> Worksheet:
        """Return the content of a worksheet."""
        sheet = Worksheet()
        merges, headers, zeros = list[Merge](), set[int](), _Zeros()
        number = -1
        try:
            for _, element in etree.iterparse(BytesIO(content), tag=_READ, **_PARSING):
                match local(element):
                    case "row":
                        stated = _number(element.get("r"))
                        number = stated - 1 if stated else number + 1
                        self._row(element, number, sheet, zeros)
                        _forget(element)
                    case "mergeCell" if len(merges) < _MOST_MERGES and (merge := range_of(element.get("ref") or "")):
                        merges.append(merge)
                    case "autoFilter" if filtered := range_of(element.get("ref") or ""):
                        headers.add(filtered.top)
                    case name if name in _PAGE_TEXTS:
                        sheet.page_texts.append(element.text or "")
        except etree.XMLSyntaxError:
            pass
        if self._recalculates and zeros.are_all:
            sheet.stale = True
            for row, column, formula in zeros.cells:
                sheet.grid.rows[row][column] = formula
                sheet.formulas.append((f"{column_letters(column)}{row + 1}", formula))
        sheet.grid.rows = dict(sorted(sheet.grid.rows.items()))
        sheet.grid.merges, sheet.grid.headers = merges, headers
        return sheet

    def _row(self, row: etree._Element, number: int, sheet: Worksheet, zeros: _Zeros) -> None:
        cells: dict[int, str] = {}
        column, empty, columns, value_tag = -1, "", self._columns, row.tag[:-3] + "v"
        for cell in row:
            reference = cell.get("r")
            if not len(cell):  # a format without a value: most cells of some files
                column, empty = column + 1, reference or ""
                continue
            letters = reference.rstrip("0123456789") if reference else ""
            column = columns[letters] if letters in columns else self._column(letters, empty, column + 1)
            empty, first = "", cell[0]
            if first.tag == value_tag:
                text = self._value(first.text or "", cell.get("t"), cell.get("s"))
            else:
                text = self._cell(cell, number, column, sheet, zeros)
            if text and not text.isspace() and column < _MOST_COLUMNS:
                cells[column] = text
                self._chars += len(text)
        if cells:
            sheet.grid.rows.setdefault(number, cells).update(cells)
        if self._chars > MOST_SHOWN_CHARS:
            raise Unreadable("the Excel workbook file is too large when unpacked; divide it")

    def _column(self, letters: str, before: str, following: int) -> int:
        """Return the column of these letters; without letters, the column after the reference of the cell before."""
        upper = letters.replace("$", "").upper()
        if upper.isascii() and upper.isalpha() and len(upper) <= 3:  # noqa: PLR2004 - XFD
            self._columns[letters] = column_of(upper)
            return self._columns[letters]
        return self._column(before.rstrip("0123456789"), "", following - 1) + 1 if before else following

    def _cell(self, cell: etree._Element, row: int, column: int, sheet: Worksheet, zeros: _Zeros) -> str:
        kind, formula, value = cell.get("t"), None, ""
        for child in cell:
            match local(child):
                case "v":
                    value = child.text or ""
                case "f":
                    formula = child
                case "is":
                    return self._styles.text(_string(child), cell.get("s"))
        if formula is None:
            return self._value(value, kind, cell.get("s"))
        if not value and kind != "str":
            shown = _formula(formula)
            sheet.formulas.append((f"{column_letters(column)}{row + 1}", shown))
            return shown
        zeros.add(row, column, formula, value if kind in (None, "n") else "text")
        return self._value(value, kind, cell.get("s"))

    def _value(self, raw: str, kind: str | None, style: str | None) -> str:
        if kind is None or kind == "n":
            return self._styles.number(raw, style) if raw else ""
        if kind == "s":
            try:
                return self._styles.text(self._strings[int(raw)], style)
            except (ValueError, IndexError):
                return ""
        if kind == "b":
            return _boolean(raw) if raw else ""
        if kind == "d":
            return self._styles.moment(raw, style)
        return self._styles.text(unescaped(raw), style)


_PAGE_TEXTS = ("oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter")
_READ = tuple("{*}" + name for name in ("row", "mergeCell", "autoFilter", *_PAGE_TEXTS))


def _boolean(raw: str) -> str:
    return "TRUE" if raw.strip() in ("1", "true") else "FALSE"


def _formula(element: etree._Element) -> str:
    text = unescaped(element.text or "").strip()
    return f"={text}" if text else "=(formula of a group)"


@dataclass(slots=True)
class _Zeros:
    """Cells whose formula has the stored value 0, as long as no formula has another value."""

    cells: list[tuple[int, int, str]] = field(default_factory=list)
    others: bool = False

    @property
    def are_all(self) -> bool:
        return bool(self.cells) and not self.others

    def add(self, row: int, column: int, formula: etree._Element, value: str) -> None:
        if value.strip() != "0":
            self.others = True
            self.cells.clear()
        elif not self.others:
            self.cells.append((row, column, _formula(formula)))


def plain_strings(content: bytes) -> list[str]:
    """Return the texts of shared strings, or of strings in cells, without an XML parser."""
    starts = [item.start() for item in _PLAIN_ITEM.finditer(content)]
    return [
        "".join(plain_texts(content, start, end))
        for start, end in zip(starts, [*starts[1:], len(content)], strict=False)
    ]


def plain_texts(content: bytes, start: int, end: int) -> Iterator[str]:
    """Yield the texts between two indexes of a part, without an XML parser and without pronunciations."""
    phonetic = _PLAIN_PHONETIC.search(content, start, end)
    for found in _PLAIN_TEXT.finditer(content, start, phonetic.start() if phonetic else end):
        yield _plain(found[1])


def plain_cells(content: bytes, strings: Sequence[str], styles: Styles, *, stale: bool) -> Iterator[str]:
    """Yield the texts of a worksheet's cells in the order of its bytes, without an XML parser.

    Args:
        content: the part of the worksheet.
        strings: shared strings.
        styles: number formats.
        stale: whether the values 0 of formulas were never calculated.
    """
    for found in _PLAIN_CELL.finditer(content):
        attributes, raw = found[1], found[3]
        if stale and found[2] and raw == b"0":
            continue
        kind, style = _TYPE.search(attributes), _STYLE.search(attributes)
        if kind is None or kind[1] == b"n":
            yield styles.number(_plain(raw), style[1].decode() if style else None)
        elif kind[1] == b"s":
            index = _number(raw.decode("ascii", "replace").strip())
            yield one_line(strings[index]) if index is not None and index < len(strings) else ""
        elif kind[1] == b"b":
            yield _boolean(_plain(raw))
        elif kind[1] == b"d":
            yield styles.moment(_plain(raw), style[1].decode() if style else None)
        else:
            yield one_line(_plain(raw))
    yield from map(one_line, plain_strings(content))


def _plain(raw: bytes) -> str:
    text = raw.decode("utf-8", "replace")
    return unescaped(unescape(text) if "&" in text else text)
