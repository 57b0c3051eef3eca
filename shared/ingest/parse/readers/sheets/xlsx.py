"""Reader of Excel workbooks (xlsx, xlsm, xltx): SpreadsheetML of ECMA-376 part 1, section 18.

One part for each sheet, hidden ones included: values as Excel shows them, comments, text boxes, charts as tables, and
printed headers; then the documents that are embedded in it. Not read: pictures, pivot caches and macros.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from posixpath import dirname, join, split

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.attachments import AttachedFile, Attachments, summed
from shared.ingest.parse.readers.office.charts import chart
from shared.ingest.parse.readers.office.embedded import embedded_file
from shared.ingest.parse.readers.office.package import Package, Relation
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.sheets.cell_styles import CellStyles
from shared.ingest.parse.readers.sheets.drawings import (
    control_texts,
    plain_shapes,
    rich_text,
    shape_texts,
    without_fallbacks,
)
from shared.ingest.parse.readers.sheets.grid import markdown_of
from shared.ingest.parse.readers.sheets.plain_cells import plain_cells, plain_strings
from shared.ingest.parse.readers.sheets.references import range_of
from shared.ingest.parse.readers.sheets.strings import shared_strings
from shared.ingest.parse.readers.sheets.tables import one_line, paragraph
from shared.ingest.parse.readers.sheets.worksheets import Worksheet, WorksheetReader
from shared.ingest.parse.readers.sheets.xml_bytes import without_empty_cells
from shared.ingest.parse.readers.xml_tree import Element, local_name

KIND = "Excel workbook"

_PLACEHOLDER = "[Threaded comment]"
_PAGE_CODE = re.compile(r'&(?:"[^"]{0,200}"|K[0-9A-Fa-f]{6}|\d{1,3}|[A-Za-z+-])')
_VALUE_SHOWN_CHARS = 60
_EMBEDDED_LEVEL = 3  # below the headings of sheets

_END = re.compile(rb"(?:sheet|/)>\s*+(?:<!--[^>]*+>\s*+)?\Z")
_END_BYTES = 400


def read(content: bytes, attachments: Attachments | None = None) -> FileReading:
    """Return the sheets of a workbook, each with the documents in it.

    Args:
        content: content of the file.
        attachments: the readers of embedded documents; None if these are only named.

    Raises:
        Unreadable: it is damaged, too large, or a binary workbook.
    """
    package = Package(content, KIND)
    main = next(
        (each.target for each in package.relations("").values() if each.kind == "officeDocument"), "xl/workbook.xml"
    )
    if main.endswith(".bin"):
        raise Unreadable(f"the {KIND} file is a binary workbook (xlsb); save it as xlsx")
    workbook = _XlsxWorkbook(package, main)
    parts = list[Part]()
    for name, part_name in workbook.sheets():
        if part := workbook.part(name, part_name):
            parts.append(part)
        parts += workbook.embedded(name, part_name, attachments)
    if not parts and (unread := (*package.unread(), *workbook.unread)):
        raise Unreadable(f"the {KIND} file has no text that can be read: {unread[0]}")
    title = workbook.title()
    return FileReading(tuple(parts), title, summed([*package.unread(), *workbook.unread]))


class _XlsxWorkbook:
    def __init__(self, package: Package, main: str) -> None:
        self._package, self._main = package, main
        self._root = package.xml(main)
        self._relations = package.relations(main)
        self.unread: list[str] = []
        strings = self._related("sharedStrings") or b""
        self._strings, self._plain_strings = shared_strings(strings), plain_strings(strings)
        since_1904 = any(_is_true(element.get("date1904")) for element in self._all("workbookPr"))
        self._styles = CellStyles(self._related("styles"), since_1904=since_1904)
        recalculates = any(_is_true(element.get("fullCalcOnLoad")) for element in self._all("calcPr"))
        self._reader = WorksheetReader(self._strings, self._styles, recalculates=recalculates)
        self._people = dict(self._persons())
        self._page_texts: set[str] = set()

    def _all(self, name: str) -> Iterator[Element]:
        return self._root.iter("{*}" + name) if self._root is not None else iter(())

    def _related(self, kind: str) -> bytes | None:
        part = next(
            (each.target for each in self._relations.values() if each.kind == kind),
            join(dirname(self._main), f"{kind}.xml"),
        )
        return self._package.read(part)

    def sheets(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the part of each sheet."""
        found = False
        for element in self._all("sheet"):
            identifier = next((value for key, value in element.attrib.items() if str(key).endswith("}id")), "")
            if relation := self._relations.get(str(identifier)):
                found = True
                yield one_line(element.get("name") or ""), relation.target
        if not found:
            names = (name for name in self._package.names if re.fullmatch(r"/?xl/worksheets/[^/]+\.xml", name))
            yield from ((split(name)[1].removesuffix(".xml"), name) for name in sorted(names))

    def title(self) -> str | None:
        """Return the title in the properties of the file."""
        return self._package.title() or None

    def part(self, name: str, part: str) -> Part | None:
        """Return a sheet; None if it shows nothing."""
        content = self._package.read(part)
        if content is None:
            self.unread.append(f'sheet "{name}" is missing in the file; save it again in Excel')
            return None
        relations = [each for each in self._package.relations(part).values() if not each.external]
        content = without_empty_cells(content)
        sheet = self._reader.read(content)
        sheet.grid.headers = {*sheet.grid.headers, *self._table_headers(relations)}
        if not _END.search(content[-_END_BYTES:]):
            self.unread.append(f'sheet "{name}" is damaged, and its end was not read; save it again in Excel')
        self._note_unread(name, sheet)
        blocks = list(markdown_of(sheet.grid))
        drawn, drawn_plain = self._drawn(relations)
        blocks += drawn
        notes = list(self._notes(relations, sheet))
        blocks += notes
        blocks += self._page_lines(sheet)
        if not blocks:
            return None
        cells = plain_cells(content, self._plain_strings, self._styles, stale=sheet.stale)
        plain = " ;\n".join((*cells, *drawn_plain))  # as a word of its own, which the guard counts faster
        heading = f"## {name}"
        return Part("\n\n".join((heading, *blocks)), f"{name}\n{plain}", f'sheet "{name}"')

    def _table_headers(self, relations: Sequence[Relation]) -> Iterator[int]:
        for relation in relations:
            root = self._package.xml(relation.target) if relation.kind == "table" else None
            if root is not None and root.get("headerRowCount") != "0" and (area := range_of(root.get("ref") or "")):
                yield area.top

    def _note_unread(self, name: str, sheet: Worksheet) -> None:
        if sheet.formulas:
            cell, formula = sheet.formulas[0]
            count = "1 formula" if len(sheet.formulas) == 1 else f"{len(sheet.formulas):,} formulas"
            self.unread.append(
                f'sheet "{name}" has {count} without a stored value, such as {cell} {formula[:60]}; '
                "open the file in Excel or LibreOffice and save it again"
            )

    def embedded(self, name: str, part: str, attachments: Attachments | None) -> list[Part]:
        """Return the documents that are embedded in a sheet; the others are named."""
        files, others = list[AttachedFile](), 0
        for relation in self._package.relations(part).values():
            if relation.kind not in ("package", "oleObject"):
                continue
            data = self._package.read(relation.target) if attachments and not relation.external else None
            if data and (file := embedded_file(relation.target, data)):
                files.append(file)
            else:
                others += 1
        if others:
            count = "1 embedded file" if others == 1 else f"{others:,} embedded files"
            self.unread.append(f'sheet "{name}" has {count}, which cannot be read here; add each of them as a file')
        parts, problems = attachments.read(files, _EMBEDDED_LEVEL, "embedded file") if attachments else ([], [])
        self.unread += problems
        return parts

    def _drawn(self, relations: Sequence[Relation]) -> tuple[list[str], list[str]]:
        """Return the blocks of a sheet's drawings, and the texts of their shapes without an XML parser."""
        blocks, plain = list[str](), list[str]()
        for relation in relations:
            root = self._package.xml(relation.target) if relation.kind in ("drawing", "vmlDrawing") else None
            if root is None:
                continue
            if relation.kind == "vmlDrawing":
                blocks += control_texts(root)
                continue
            without_fallbacks(root)
            blocks += shape_texts(root)
            plain += plain_shapes(self._package.read(relation.target) or b"")
            for inner in self._package.relations(relation.target).values():
                blocks += self._inside_drawing(inner)
        return blocks, plain

    def _inside_drawing(self, relation: Relation) -> Iterator[str]:
        if relation.kind not in ("chart", "chartEx", "diagramData"):
            return
        root = self._package.xml(relation.target)
        if root is None:
            return
        if relation.kind == "diagramData":
            if text := rich_text(root):
                yield paragraph(text)
            return
        without_fallbacks(root)
        yield from chart(root, cells_are_read=True)
        for inner in self._package.relations(relation.target).values():
            shapes = self._package.xml(inner.target) if inner.kind == "chartUserShapes" else None
            if shapes is not None:
                yield from shape_texts(shapes)

    def _persons(self) -> Iterator[tuple[str, str]]:
        for relation in self._relations.values():
            root = self._package.xml(relation.target) if relation.kind == "person" else None
            for person in root.iter("{*}person") if root is not None else ():
                yield person.get("id") or "", person.get("displayName") or ""

    def _notes(self, relations: Sequence[Relation], sheet: Worksheet) -> Iterator[str]:
        """Yield the comments of cells, each with its cell, the value in it and its author."""
        lines = list[str]()
        for relation in relations:
            root = self._package.xml(relation.target) if relation.kind in ("comments", "threadedComment") else None
            if root is None:
                continue
            authors = [author.text or "" for author in root.iter("{*}author")]
            for comment in root.iter("{*}comment", "{*}threadedComment"):
                text = "".join(
                    part.text or "" for part in comment.iter("{*}t", "{*}text") if local_name(part.getparent()) != "rPh"
                )
                author = self._people.get(comment.get("personId") or "", "")
                index = comment.get("authorId") or ""
                if index.isdigit() and int(index) < len(authors):
                    author = authors[int(index)]
                if text.strip() and not text.startswith(_PLACEHOLDER) and not author.startswith("tc={"):
                    lines.append(_comment_line(comment.get("ref") or "", author, text, sheet))
        if lines:
            yield "\n".join(lines)

    def _page_lines(self, sheet: Worksheet) -> Iterator[str]:
        """Yield the texts of the printed header and footer that no earlier sheet has."""
        for code in sheet.page_texts:
            text = one_line(_PAGE_CODE.sub(" ", code.replace("&&", "\ue000"))).replace("\ue000", "&")
            text = " ".join(text.split())
            if any(char.isalpha() for char in text) and text not in self._page_texts:
                self._page_texts.add(text)
                yield paragraph(f"Page header or footer: {text}")


def _comment_line(reference: str, author: str, text: str, sheet: Worksheet) -> str:
    area = range_of(reference)
    value = sheet.grid.rows.get(area.top, {}).get(area.left, "") if area else ""
    shown = f' ("{one_line(value)}")' if value and len(value) <= _VALUE_SHOWN_CHARS else ""
    text = " ".join(text.split())
    by = f" by {author.strip()}" if author.strip() else ""
    return f"- Comment on {reference}{shown}{by}: {text.removeprefix(f'{author}:').strip()}"


def _is_true(text: str | None) -> bool:
    return text in ("1", "true", "on")
