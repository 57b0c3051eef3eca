"""Reader of OpenDocument spreadsheets (ODF 1.3 part 3, section 9): one part for each sheet.

Read: the values that the file shows, comments, text boxes and charts. Not read: pictures, macros and tracked changes;
nothing is calculated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from posixpath import normpath

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.archive import Archive
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.sheets.grid import Grid, markdown_of
from shared.ingest.parse.readers.sheets.references import CellRange, column_letters
from shared.ingest.parse.readers.sheets.tables import one_line, paragraph
from shared.ingest.parse.readers.sheets.worksheets import MOST_SHOWN_CHARS
from shared.ingest.parse.readers.xml_tree import Element, local_name, parsed

KIND = "OpenDocument spreadsheet"

_MOST_CELLS = 5_000_000
_MOST_SPACES = 1_000
_TOO_LARGE = f"the {KIND} file is too large when unpacked; divide it"
_CELLS = ("table-cell", "covered-table-cell")
_OUTSIDE = ("annotation", "frame", "g", "custom-shape", "rect", "ellipse", "line", "connector", "path", "polygon")
"""Elements in a cell that are not its text: comments and drawings."""


@dataclass(slots=True)
class _OdsSheet:
    grid: Grid = field(default_factory=Grid)
    merges: list[CellRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    drawn: list[str] = field(default_factory=list)
    plain: list[str] = field(default_factory=list)
    formulas: list[tuple[str, str]] = field(default_factory=list)


def read(content: bytes) -> FileReading:
    """Return the sheets of a spreadsheet.

    Raises:
        Unreadable: it is damaged, protected with a password, or too large.
    """
    archive = Archive(content, KIND)
    if "META-INF/manifest.xml" in archive and b"encryption-data" in archive.read("META-INF/manifest.xml"):
        raise Unreadable(f"the {KIND} file is protected with a password; remove the password and add it again")
    root, whole = parsed(archive.read("content.xml")) if "content.xml" in archive else (None, False)
    if root is None:
        raise Unreadable(f"the {KIND} file is damaged: it has no content; create or download it again")
    body = next(root.iter("{*}spreadsheet"), root)
    reader = _OdsReader(archive)
    parts, unread = list[Part](), list[str]()
    if not whole:
        unread.append("the file is damaged, and its rest was not read; create or download it again")
    for table in body:
        if local_name(table) == "table":
            name = one_line(_attribute(table, "name"))
            sheet = reader.read(table)
            if part := _part(name, sheet):
                parts.append(part)
            if sheet.formulas:
                cell, formula = sheet.formulas[0]
                count = "1 formula" if len(sheet.formulas) == 1 else f"{len(sheet.formulas):,} formulas"
                unread.append(
                    f'sheet "{name}" has {count} without a stored value, such as {cell} {formula[:60]}; '
                    "open the file in LibreOffice and save it again"
                )
    title = _title(archive)
    return FileReading(tuple(parts), title, (*archive.unread(), *unread))


def _part(name: str, sheet: _OdsSheet) -> Part | None:
    blocks = [*markdown_of(sheet.grid), *sheet.drawn]
    if sheet.notes:
        blocks.append("\n".join(sheet.notes))
    if not blocks:
        return None
    plain = ";\n".join((name, *sheet.plain))
    return Part("\n\n".join((f"## {name}", *blocks)), plain, f'sheet "{name}"')


def _title(archive: Archive) -> str | None:
    root = parsed(archive.read("meta.xml"))[0] if "meta.xml" in archive else None
    return next((element.text for element in root.iter("{*}title")), None) if root is not None else None


class _OdsReader:
    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._cells = self._chars = 0

    def read(self, table: Element) -> _OdsSheet:
        """Return a sheet; rows in groups and headers are rows like any others."""
        sheet, number = _OdsSheet(), 0
        for row in table.iter("{*}table-row", "{*}shapes"):
            if local_name(row) == "shapes":
                self._draw(row, sheet)
                continue
            if next(row.iterancestors("{*}table"), None) is not table:
                continue
            cells = self._row(row, number, sheet)
            repeated = _count(row, "number-rows-repeated")
            if cells:
                self._count(len(cells) * (repeated - 1), sum(map(len, cells.values())) * repeated)
                for following in range(number, number + repeated):
                    sheet.grid.rows[following] = cells
            number += repeated
        sheet.grid.merges = sheet.merges
        sheet.plain = list(_plain(table))
        return sheet

    def _row(self, row: Element, number: int, sheet: _OdsSheet) -> dict[int, str]:
        cells, column = dict[int, str](), 0
        for cell in row:
            if local_name(cell) not in _CELLS:
                continue
            repeated = _count(cell, "number-columns-repeated")
            text = self._cell(cell, number, column, sheet)
            if text:
                self._count(repeated, 0)
                cells.update(dict.fromkeys(range(column, column + repeated), text))
                across, down = _count(cell, "number-columns-spanned"), _count(cell, "number-rows-spanned")
                if across > 1 or down > 1:
                    sheet.merges.append(CellRange(number, number + down - 1, column, column + across - 1))
            column += repeated
        return cells

    def _count(self, cells: int, chars: int) -> None:
        self._cells += cells
        self._chars += chars
        if self._cells > _MOST_CELLS or self._chars > MOST_SHOWN_CHARS:
            raise Unreadable(_TOO_LARGE)

    def _cell(self, cell: Element, row: int, column: int, sheet: _OdsSheet) -> str:
        lines = list[str]()
        for child in cell:
            name = local_name(child)
            if name == "annotation":
                lines_of_note = [_text(line) for line in child.iter("{*}p")]
                author = next((element.text or "" for element in child.iter("{*}creator")), "")
                by = f" by {author.strip()}" if author.strip() else ""
                text = " ".join(filter(None, (line.strip() for line in lines_of_note)))
                if text:
                    sheet.notes.append(f"- Comment on {column_letters(column)}{row + 1}{by}: {text}")
            elif name in _OUTSIDE:
                self._draw(child, sheet)
            elif name in ("p", "h"):
                lines.append(_text(child))
        text = "\n".join(lines).strip()
        if text:
            return text
        value = _value(cell)
        formula = _attribute(cell, "formula").partition(":")[2] or _attribute(cell, "formula")
        if formula and not value and not _attribute(cell, "value-type"):
            sheet.formulas.append((f"{column_letters(column)}{row + 1}", formula))
            return formula
        return value

    def _draw(self, element: Element, sheet: _OdsSheet) -> None:
        """Add the texts of drawings, and their charts."""
        lines = [text for line in element.iter("{*}p", "{*}h") if (text := _text(line).strip())]
        if lines:
            sheet.drawn.append(paragraph("\n".join(lines)))
        for embedded in element.iter("{*}object"):
            sheet.drawn += self._chart(normpath(_attribute(embedded, "href")))

    def _chart(self, folder: str) -> Iterator[str]:
        part = f"{folder}/content.xml"
        root = parsed(self._archive.read(part))[0] if part in self._archive else None
        chart = next(root.iter("{*}chart"), None) if root is not None else None
        if chart is None:
            return
        titles = [_all_text(title) for title in chart.iter("{*}title", "{*}subtitle")]
        yield paragraph("Chart: " + "; ".join(filter(None, titles)))
        for table in chart.iter("{*}table"):
            inner = _OdsReader(self._archive)
            yield from markdown_of(inner.read(table).grid)


def _value(cell: Element) -> str:
    """Return the value of a cell that has no text, as files of programs have."""
    for name in ("string-value", "date-value", "time-value", "boolean-value", "value"):
        if value := _attribute(cell, name):
            unit = _attribute(cell, "currency")
            return f"{value} {unit}" if unit and name == "value" else value
    return ""


def _text(line: Element) -> str:
    """Return the text of a paragraph; spaces, tabs and line breaks are elements."""
    out = [line.text or ""]
    for element in line.iterdescendants():
        name = local_name(element)
        if name == "s":
            out.append(" " * min(_count(element, "c"), _MOST_SPACES))
        elif name in ("tab", "line-break"):
            out.append(" ")
        elif name:
            out.append(element.text or "")
        out.append(element.tail or "")
    return "".join(out)


def _all_text(element: Element) -> str:
    return " ".join(_text(line).strip() for line in element.iter("{*}p"))


def _plain(table: Element) -> Iterator[str]:
    """Yield the text nodes of a sheet by paragraph, wherever they are."""
    for line in table.iter("{*}p", "{*}h"):
        for space in line.iter("{*}s", "{*}tab", "{*}line-break"):
            space.tail = f" {space.tail or ''}"
        yield one_line("".join(line.itertext()))


def _attribute(element: Element, name: str) -> str:
    return next((str(value) for key, value in element.attrib.items() if str(key).rpartition("}")[2] == name), "")


def _count(element: Element, name: str) -> int:
    value = _attribute(element, name)
    return max(1, int(value)) if value.isascii() and value.isdigit() and len(value) < 9 else 1  # noqa: PLR2004
