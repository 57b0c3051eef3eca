"""The cells of a worksheet of Office Open XML (ECMA-376 part 1, section 18.3): their values as Excel shows them.

A formula is shown by its stored value, or by itself if it has none; nothing is calculated. Rows are read from bytes
(`xml_bytes`), and by an XML parser if a program wrote them in another form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO

from lxml import etree

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.sheets import xml_bytes
from shared.ingest.parse.readers.sheets.cell_styles import (
    LONGEST_CACHED,
    MOST_FORMATS,
    CellStyles,
    boolean,
    whole_number,
)
from shared.ingest.parse.readers.sheets.grid import Grid
from shared.ingest.parse.readers.sheets.references import CellRange, column_letters, column_of, range_of
from shared.ingest.parse.readers.sheets.strings import PARSING, forget, string_of, unescaped
from shared.ingest.parse.readers.xml_tree import Element, local_name

MOST_SHOWN_CHARS = 100_000_000
"""A workbook that shows more is refused, because few short texts can be shown in millions of cells."""

_MOST_COLUMNS = 16_384
_MOST_MERGES = 200_000
_CACHED_VALUES = 40_000
_BEYOND = -1


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


class _Columns(dict[bytes, int]):
    """Numbers of columns by their letters; `_BEYOND` for columns that no sheet has."""

    def __missing__(self, letters: bytes) -> int:
        number = column_of(letters.decode())
        self[letters] = number if number < _MOST_COLUMNS else _BEYOND
        return self[letters]


class _ShownValues(dict[tuple[bytes, bytes], str]):
    """Texts of the values of cells by the attributes and the value, because most sheets repeat them.

    Args:
        strings: shared strings.
        styles: number formats.
    """

    def __init__(self, strings: Sequence[str], styles: CellStyles) -> None:
        super().__init__()
        self._strings, self._styles = strings, styles
        self._forms: dict[bytes, xml_bytes.Format] = {}

    def __missing__(self, key: tuple[bytes, bytes]) -> str:
        if len(self) > _CACHED_VALUES:
            self.clear()
        attributes, value = key
        kind, style = self.form(attributes)
        if kind is None or kind == "n":
            text = self._styles.number(value, style).strip()
        else:
            text = self.value(xml_bytes.decoded(value), kind, style).strip()
        if len(value) <= LONGEST_CACHED:
            self[key] = text
        return text

    def form(self, attributes: bytes) -> xml_bytes.Format:
        """Return the format that the attributes of a cell state.

        Raises:
            NeedsParserError: only an XML parser reads them.
        """
        form = self._forms.get(attributes)
        if form is None:
            if len(self._forms) > MOST_FORMATS:
                self._forms.clear()
            form = self._forms[attributes] = xml_bytes.format_of(attributes)
        return form

    def value(self, raw: str, kind: str | None, style: str | None) -> str:
        """Return the text of a value of a kind and a style."""
        if kind is None or kind == "n":
            return self._styles.number(raw.encode(), style) if raw else ""
        if kind == "s":
            try:
                return self._styles.text(self._strings[int(raw)], style)
            except (ValueError, IndexError):
                return ""
        if kind == "b":
            return boolean(raw) if raw else ""
        if kind == "d":
            return self._styles.moment(raw, style)
        return self._styles.text(unescaped(raw), style)


class WorksheetReader:
    """Reads worksheets of one workbook.

    Args:
        strings: shared strings.
        styles: number formats.
        recalculates: whether the workbook asks to be calculated when it is opened: the values 0 of its formulas
            were never calculated.
    """

    def __init__(self, strings: Sequence[str], styles: CellStyles, *, recalculates: bool) -> None:
        self._styles, self._recalculates = styles, recalculates
        self._columns: dict[str, int] = {}
        self._letters = _Columns()
        self._shown = _ShownValues(strings, styles)  # of one sheet
        self._chars = 0

    def read(self, content: bytes) -> Worksheet:
        """Return the content of a worksheet."""
        sheet, zeros, chars = Worksheet(), _ZeroCells(), self._chars
        try:
            content = self._read_bytes(content, sheet, zeros)
        except xml_bytes.NeedsParserError:
            sheet, zeros, self._chars = Worksheet(), _ZeroCells(), chars
        self._shown.clear()
        merges, headers = list[CellRange](), set[int]()
        number = -1
        try:
            for _, element in etree.iterparse(BytesIO(content), tag=_READ, **PARSING):
                match local_name(element):
                    case "row":
                        stated = whole_number(element.get("r"))
                        number = stated - 1 if stated else number + 1
                        self._row(element, number, sheet, zeros)
                        forget(element)
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

    def _read_bytes(self, content: bytes, sheet: Worksheet, zeros: _ZeroCells) -> bytes:
        """Read the rows of a worksheet, and return its other elements.

        Raises:
            NeedsParserError: only an XML parser reads it.
        """
        span = xml_bytes.rows_of(content)
        if span is None:
            return content
        rows, shown, columns = sheet.grid.rows, self._shown, self._letters
        for number, start, end in xml_bytes.rows(content, *span):
            usual = xml_bytes.usual_cells(content, start, end)
            if usual is None:
                cells = dict(self._cells(content, number, start, end, sheet, zeros))
            else:
                cells = {
                    columns[letters]: text
                    for letters, attributes, value in usual
                    if value and (text := shown[attributes, value])
                }
            cells.pop(_BEYOND, None)
            self._chars += sum(map(len, cells.values()))
            self._check_size()
            if number in rows:
                rows[number].update(cells)
            else:
                rows[number] = cells
        return content[: span[0]] + content[span[1] :]

    def _cells(  # noqa: PLR0917 - a part of the content, and its sheet
        self, content: bytes, row: int, start: int, end: int, sheet: Worksheet, zeros: _ZeroCells
    ) -> Iterator[tuple[int, str]]:
        """Yield the column and the text of each cell of a row that has one."""
        for column, attributes, formula, value, inline in xml_bytes.cells(content, start, end):
            if inline is not None:
                form = self._shown.form(attributes)
                text = self._styles.text(unescaped(xml_bytes.decoded(inline)), form.style).strip()
            elif formula is not None:
                shown = _shown_formula(xml_bytes.formula_text(formula))
                form = self._shown.form(attributes)
                text = self._calculated((row, column), shown, xml_bytes.decoded(value), form, sheet, zeros)
            else:
                text = self._shown[attributes, value]
            if text and column < _MOST_COLUMNS:
                yield column, text

    def _check_size(self) -> None:
        if self._chars > MOST_SHOWN_CHARS:
            raise Unreadable("the Excel workbook file is too large when unpacked; divide it")

    def _calculated(  # noqa: PLR0917 - the parts of one cell
        self, at: tuple[int, int], formula: str, value: str, form: xml_bytes.Format, sheet: Worksheet, zeros: _ZeroCells
    ) -> str:
        """Return the value of a formula, or the formula if it has none."""
        row, column = at
        if not value and form.kind != "str":
            sheet.formulas.append((f"{column_letters(column)}{row + 1}", formula))
            return formula
        zeros.add(row, column, formula, value if form.kind in (None, "n") else "text")
        return self._shown.value(value, *form).strip()

    def _row(self, row: Element, number: int, sheet: Worksheet, zeros: _ZeroCells) -> None:
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
                text = self._shown.value(first.text or "", cell.get("t"), cell.get("s")).strip()
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

    def _cell(self, cell: Element, row: int, column: int, sheet: Worksheet, zeros: _ZeroCells) -> str:
        formula, value = None, ""
        for child in cell:
            match local_name(child):
                case "v":
                    value = child.text or ""
                case "f":
                    formula = child
                case "is":
                    return self._styles.text(string_of(child), cell.get("s")).strip()
        form = xml_bytes.Format(cell.get("t"), cell.get("s"))
        if formula is None:
            return self._shown.value(value, *form).strip()
        shown = _shown_formula((formula.text or "").strip())
        return self._calculated((row, column), shown, value, form, sheet, zeros)


_PAGE_TEXTS = ("oddHeader", "oddFooter", "evenHeader", "evenFooter", "firstHeader", "firstFooter")
_READ = tuple("{*}" + name for name in ("row", "mergeCell", "autoFilter", *_PAGE_TEXTS))


def _shown_formula(stated: str) -> str:
    text = unescaped(stated)
    return f"={text}" if text else "=(formula of a group)"


@dataclass(slots=True)
class _ZeroCells:
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
