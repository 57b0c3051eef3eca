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
from shared.ingest.parse.readers.sheets import xml_bytes
from shared.ingest.parse.readers.sheets.grid import Grid, Merge
from shared.ingest.parse.readers.sheets.number_formats import BUILT_IN, NumberFormat, general
from shared.ingest.parse.readers.sheets.tables import column_letters, one_line
from shared.ingest.parse.readers.xml_tree import local_name, parsed

MOST_SHOWN_CHARS = 100_000_000
"""A workbook that shows more is refused, because few short texts can be shown in millions of cells."""

_MOST_COLUMNS = 16_384
_MOST_MERGES = 200_000
_CACHED_VALUES = 300_000
_CACHED_OF_FORMAT = 20_000
_MOST_FORMATS = 10_000
_MOST_DIGITS = 15
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_REFERENCE = re.compile(r"\$?([A-Z]{1,3})\$?(\d{1,7})(?::\$?([A-Z]{1,3})\$?(\d{1,7}))?\Z")
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
_EXCEL_EPOCH = datetime(1899, 12, 30, tzinfo=UTC)


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


class CellStyles:
    """The number formats of a workbook's cells.

    Args:
        content: the part `styles.xml`; None if there is none.
        since_1904: whether dates count from 1904-01-01.
    """

    def __init__(self, content: bytes | None, *, since_1904: bool) -> None:
        self._since_1904 = since_1904
        codes, styles = _format_codes(parsed(content)[0] if content else None)
        self._formats: dict[str, NumberFormat | None] = {}
        compiled: dict[str, NumberFormat | None] = {"General": None}
        for index, identifier in enumerate(styles):
            code = codes.get(identifier) or BUILT_IN.get(identifier, "General")
            if code not in compiled:
                plain = code.strip().lower() in ("general", "@", "")
                compiled[code] = None if plain else NumberFormat(code, since_1904=since_1904)
            self._formats[str(index)] = compiled[code]
        self._shown: dict[str | None, dict[str, str]] = {}
        self._shown_count = 0

    def number(self, raw: str, style: str | None) -> str:
        """Return a stored number as it is shown."""
        cache = self._shown.get(style)
        if cache is None:
            cache = self._shown[style] = {}
        shown = cache.get(raw)
        if shown is None:
            self._shown_count += 1
            if self._shown_count > _CACHED_VALUES:
                self._shown.clear()
                cache = self._shown[style] = {}
                self._shown_count = 1
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
        if (identifier := _number(element.get("numFmtId"))) is not None and local_name(
            element.getparent()
        ) == "numFmts":
            codes[identifier] = element.get("formatCode") or ""
    for element in root.iter("{*}cellXfs") if root is not None else ():
        styles = [_number(style.get("numFmtId")) or 0 for style in element if local_name(style) == "xf"]
    return codes, styles


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else None  # noqa: PLR2004 - 32 bits


def shared_strings(content: bytes) -> list[str]:
    """Return the texts of the part `sharedStrings.xml`, without pronunciations."""
    try:
        return [
            unescaped(text) if isinstance(text, str) else _parsed_string(text) for text in xml_bytes.strings(content)
        ]
    except xml_bytes.UnusualError:
        return _parsed_strings(content)


def _parsed_string(xml_of_string: bytes) -> str:
    item = parsed(xml_of_string)[0]
    return _string(item) if item is not None else ""


def _parsed_strings(content: bytes) -> list[str]:
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
    if len(item) == 1 and local_name(item[0]) == "t":
        return unescaped(item[0].text or "")
    texts = (text.text or "" for text in item.iter("{*}t") if local_name(text.getparent()) != "rPh")
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

    def __init__(self, strings: Sequence[str], styles: CellStyles, *, recalculates: bool) -> None:
        self._strings, self._styles, self._recalculates = strings, styles, recalculates
        self._columns: dict[str, int] = {}
        self._chars = 0

    def read(self, content: bytes) -> Worksheet:
        """Return the content of a worksheet."""
        sheet, zeros, chars = Worksheet(), _Zeros(), self._chars
        try:
            content = self._read_bytes(content, sheet, zeros)
        except xml_bytes.UnusualError:
            sheet, zeros, self._chars = Worksheet(), _Zeros(), chars
        merges, headers = list[Merge](), set[int]()
        number = -1
        try:
            for _, element in etree.iterparse(BytesIO(content), tag=_READ, **_PARSING):
                match local_name(element):
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
        sheet.grid.rows = {number: cells for number, cells in sorted(sheet.grid.rows.items()) if cells}
        sheet.grid.merges, sheet.grid.headers = merges, headers
        return sheet

    def _read_bytes(self, content: bytes, sheet: Worksheet, zeros: _Zeros) -> bytes:
        """Read the rows of a worksheet, and return its other elements.

        Raises:
            UnusualError: only an XML parser reads it.
        """
        span = xml_bytes.rows_of(content)
        if span is None:
            return content
        rows, number, cells = sheet.grid.rows, -1, dict[int, str]()
        formats = dict[bytes, tuple[xml_bytes.Format, dict[bytes, str]]]()  # and the values shown in each
        for row, column, attributes, formula, value, inline in xml_bytes.cells(content, *span):
            if row != number:
                self._check_size()
                number, cells = row, rows.setdefault(row, {})
            form, known = formats.get(attributes) or _added(formats, attributes)
            if inline is not None:
                text = self._styles.text(unescaped(xml_bytes.decoded(inline)), form.style).strip()
            elif formula is not None:
                shown = _shown_formula(xml_bytes.formula_text(formula))
                text = self._calculated((row, column), shown, xml_bytes.decoded(value), form, sheet, zeros)
            elif (text := known.get(value, _UNKNOWN)) is _UNKNOWN:
                if len(known) > _CACHED_OF_FORMAT:
                    known.clear()
                text = known[value] = self._value(xml_bytes.decoded(value), *form).strip()
            if text and column < _MOST_COLUMNS:
                cells[column] = text
                self._chars += len(text)
        self._check_size()
        return content[: span[0]] + content[span[1] :]

    def _check_size(self) -> None:
        if self._chars > MOST_SHOWN_CHARS:
            raise Unreadable("the Excel workbook file is too large when unpacked; divide it")

    def _calculated(  # noqa: PLR0917 - the parts of one cell
        self, at: tuple[int, int], formula: str, value: str, form: xml_bytes.Format, sheet: Worksheet, zeros: _Zeros
    ) -> str:
        """Return the value of a formula, or the formula if it has none."""
        row, column = at
        if not value and form.kind != "str":
            sheet.formulas.append((f"{column_letters(column)}{row + 1}", formula))
            return formula
        zeros.add(row, column, formula, value if form.kind in (None, "n") else "text")
        return self._value(value, *form).strip()

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
                text = self._value(first.text or "", cell.get("t"), cell.get("s")).strip()
            else:
                text = self._cell(cell, number, column, sheet, zeros)
            if text and column < _MOST_COLUMNS:
                cells[column] = text
                self._chars += len(text)
        if cells:
            sheet.grid.rows.setdefault(number, cells).update(cells)
        self._check_size()

    def _column(self, letters: str, before: str, following: int) -> int:
        """Return the column of these letters; without letters, the column after the reference of the cell before."""
        upper = letters.replace("$", "").upper()
        if upper.isascii() and upper.isalpha() and len(upper) <= 3:  # noqa: PLR2004 - XFD
            self._columns[letters] = column_of(upper)
            return self._columns[letters]
        return self._column(before.rstrip("0123456789"), "", following - 1) + 1 if before else following

    def _cell(self, cell: etree._Element, row: int, column: int, sheet: Worksheet, zeros: _Zeros) -> str:
        formula, value = None, ""
        for child in cell:
            match local_name(child):
                case "v":
                    value = child.text or ""
                case "f":
                    formula = child
                case "is":
                    return self._styles.text(_string(child), cell.get("s")).strip()
        form = xml_bytes.Format(cell.get("t"), cell.get("s"))
        if formula is None:
            return self._value(value, *form).strip()
        shown = _shown_formula((formula.text or "").strip())
        return self._calculated((row, column), shown, value, form, sheet, zeros)

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


def _added(
    formats: dict[bytes, tuple[xml_bytes.Format, dict[bytes, str]]], attributes: bytes
) -> tuple[xml_bytes.Format, dict[bytes, str]]:
    if len(formats) > _MOST_FORMATS:
        formats.clear()
    found = formats[attributes] = (xml_bytes.format_of(attributes), {})
    return found


_UNKNOWN = "\0"  # no text has it
_PAGE_TEXTS = ("oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter")
_READ = tuple("{*}" + name for name in ("row", "mergeCell", "autoFilter", *_PAGE_TEXTS))


def _boolean(raw: str) -> str:
    return "TRUE" if raw.strip() in ("1", "true") else "FALSE"


def _shown_formula(stated: str) -> str:
    text = unescaped(stated)
    return f"={text}" if text else "=(formula of a group)"


@dataclass(slots=True)
class _Zeros:
    """Cells whose formula has the stored value 0, as long as no formula has another value."""

    cells: list[tuple[int, int, str]] = field(default_factory=list)
    others: bool = False

    @property
    def are_all(self) -> bool:
        return bool(self.cells) and not self.others

    def add(self, row: int, column: int, formula: str, value: str) -> None:
        if value.strip() != "0":
            self.others = True
            self.cells.clear()
        elif not self.others:
            self.cells.append((row, column, formula))


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
            if len(formats) > _MOST_FORMATS:
                formats.clear()
            form = formats[attributes] = _plain_format(attributes)
        kind, style = form
        if kind == "n":
            yield number(_plain(raw), style)
        elif kind == "s":
            index = _number(raw.decode("ascii", "replace").strip())
            yield strings[index] if index is not None and index < len(strings) else ""
        elif kind == "b":
            yield _boolean(_plain(raw))
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
