"""Fifty documents of ten formats, each with a fact about a bridge among sentences with the same words.

The facts have abbreviations, decimals, quotation marks, umlauts and line breaks, are items of lists or rows of tables,
or are repeated in other words.
"""

from __future__ import annotations

import csv
import io
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal
from xml.sax.saxutils import escape

from tests.support.pdfs import pdf

_FIRST = ("ba", "ce", "di", "fo", "gu", "ha", "je", "ki", "lo", "mu")
_SECOND = ("ra", "se", "ti", "vo", "zu")
_OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"
_ODF = "urn:oasis:names:tc:opendocument:xmlns:"


@dataclass(frozen=True)
class Block:
    """A paragraph or an item of a list with one cell, whose lines may be broken, or a row of a table."""

    kind: Literal["paragraph", "item", "row"]
    cells: tuple[str, ...]

    @property
    def text(self) -> str:
        return self.cells[0]


@dataclass(frozen=True)
class Fact:
    """A document with a fact.

    Args:
        name: name of the file.
        question: a question that only the fact answers.
        words: the fact as a reader sees it.
        original: whether the page shows the original next to the text.
    """

    name: str
    content: bytes
    question: str
    words: str
    original: Literal["pdf", "table"] | None


def facts() -> Iterator[Fact]:
    for first, (suffix, write) in zip(_FIRST, _FORMATS.items(), strict=True):
        for variant, second in enumerate(_SECOND):
            name = (first + second).capitalize()
            before, fact, after, question = _VARIANTS[variant](name, f"{name}bach", f"{name}mann")
            blocks = [*before, fact, *after]
            if suffix in _TABLES:
                blocks = [_row(f"{name}{number}", *block.cells) for number, block in enumerate(blocks)]
            elif variant == _LISTED and suffix not in _WITH_TABLES:
                blocks = [Block("item", (", ".join(block.cells),)) for block in blocks]
            words = " ".join(blocks[len(before)].cells)
            if blocks[0].kind == "paragraph":
                blocks = [_paragraph(" ".join(block.text for block in blocks))]
            yield Fact(f"{name.lower()}.{suffix}", write(blocks), question, words, _ORIGINALS.get(suffix))


def _paragraph(text: str) -> Block:
    return Block("paragraph", (text,))


def _row(*cells: str) -> Block:
    return Block("row", cells)


_Variant = tuple[list[Block], Block, list[Block], str]


def _abbreviated(name: str, river: str, keeper: str) -> _Variant:
    fact = f"According to Dr. K. {keeper}, the bridge of {name} bears 12.5 tonnes, i.e. one lorry, since No. 7 exists."
    before = _paragraph("The ferry leaves at 6.30 a.m. every day. Its toll is 3.20 euros.")
    question = f"How many tonnes does the bridge of {name} bear according to Dr. K. {keeper}, since No. 7 exists?"
    after = _paragraph(f"The {river} is 4.5 m deep. It freezes in Jan. and Feb.")
    return [before], _paragraph(fact), [after], question


def _quoted(name: str, river: str, keeper: str) -> _Variant:
    fact = f"Die Brücke über die {river} bei {name} heißt „Grüne Möwe“, gehört {keeper} und trägt zwölf Tonnen."
    question = f"Wie heißt die Brücke über die {river} bei {name}, die {keeper} gehört und zwölf Tonnen trägt?"
    before = _paragraph("Der Zoll beträgt 3,20 Euro. Im Winter ist sie geschlossen.")
    after = _paragraph("„Wir schließen um 22 Uhr“, sagt der Wärter. Am 3. Oktober ist frei.")
    return [before], _paragraph(fact), [after], question


def _broken(name: str, river: str, keeper: str) -> _Variant:
    fact = f"The bridge of {name} was built\nof oak and iron in the year 1874\nby the guild of {keeper}."
    before = _paragraph("The quay was built of granite.\nIts stairs are steep.")
    after = _paragraph(f"The {river} has two other bridges.\nThey are of steel.")
    question = f"Was the bridge of {name} built of oak and iron by the guild of {keeper}, and in which year?"
    return [before], _paragraph(fact), [after], question


def _listed(name: str, river: str, keeper: str) -> _Variant:
    rows = [("Place", "Material", "Load", "Keeper"), ("Quay", "granite of the hills", "40.5 t", "the guild")]
    fact = _row(name, f"oak of the {river}", "12.5 t", keeper)
    after = [_row("Pier", "iron of the north", "7.25 t", "the port")]
    return [_row(*row) for row in rows], fact, after, f"{name}, oak of the {river}, keeper {keeper}: how many t?"


def _repeated(name: str, river: str, keeper: str) -> _Variant:
    fact = f"The bridge of {name} over the {river} may carry lorries of {keeper} of up to twelve tonnes."
    before = _paragraph(f"Lorries of twelve tonnes, but none that is heavier, can use it: {name} has no other.")
    after = _paragraph(f"{keeper} owns lorries. Each of them weighs nine tonnes.")
    question = f"The bridge of {name} over the {river} may carry lorries of {keeper} of up to how many tonnes?"
    return [before], _paragraph(fact), [after], question


_VARIANTS: Sequence[Callable[[str, str, str], _Variant]] = (_abbreviated, _quoted, _broken, _listed, _repeated)
_LISTED = 3  # the variant of a list or table
_TABLES = ("csv", "xlsx")
_ORIGINALS: Mapping[str, Literal["pdf", "table"]] = {"pdf": "pdf", "csv": "table", "xlsx": "table"}
_WITH_TABLES = ("md", "html", "docx", "odt")


def _text(blocks: Sequence[Block]) -> bytes:
    return "\n\n".join(f"- {block.text}" if block.kind == "item" else block.text for block in blocks).encode()


def _markdown(blocks: Sequence[Block]) -> bytes:
    if blocks[0].kind != "row":
        return b"# Bridges\n\n" + _text(blocks)
    lines = [f"| {' | '.join(block.cells)} |" for block in blocks]
    return "\n".join(["# Bridges", "", lines[0], "|---|---|--:|---|", *lines[1:], ""]).encode()


def _rst(blocks: Sequence[Block]) -> bytes:
    return b"Bridges\n=======\n\n" + _text(blocks) + b"\n"


def _html(blocks: Sequence[Block]) -> bytes:
    if blocks[0].kind == "row":
        rows = ["".join(f"<td>{escape(cell)}</td>" for cell in block.cells) for block in blocks]
        body = "<table>" + "".join(f"<tr>{row}</tr>" for row in rows) + "</table>"
    else:
        body = "".join(f"<p>{escape(block.text)}</p>" for block in blocks)
    head = '<meta charset="utf-8"><title>Bridges</title>'
    return f"<html><head>{head}</head><body><h1>Bridges</h1>{body}</body></html>".encode()


def _pdf(blocks: Sequence[Block]) -> bytes:
    filler = ["This page describes the tides, which change", "with the moon and the wind.", "It has no bridge."]
    texts = [f"- {block.text}" if block.kind == "item" else block.text for block in blocks]
    lines = [line for text in texts for line in text.split("\n")]
    return pdf([filler, _filled(lines), filler])


def _filled(lines: Sequence[str], width: int = 72) -> list[str]:
    """Break lines that are wider than the page."""
    filled = []
    for line in lines:
        rest = line
        while len(rest) > width:
            cut = rest.rindex(" ", 0, width)
            filled.append(rest[:cut])
            rest = rest[cut + 1 :]
        filled.append(rest)
    return filled


def _table(blocks: Sequence[Block]) -> list[tuple[str, ...]]:
    head = ("no", "place", "material", "load", "keeper")
    return [head[: len(blocks[0].cells)], *(block.cells for block in blocks)]


def _csv(blocks: Sequence[Block]) -> bytes:
    file = io.StringIO()
    csv.writer(file).writerows(_table(blocks))
    return file.getvalue().encode()


def _archive(parts: Mapping[str, str]) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    return file.getvalue()


def _office(main: str, media_type: str, parts: Mapping[str, str]) -> bytes:
    """Return an Office file with a main part and its other parts.

    Args:
        main: name of the main part.
        media_type: media type of the main part, without its prefix.
    """
    kind = f"application/vnd.openxmlformats-officedocument.{media_type}.main+xml"
    types = (
        f'<Types xmlns="{_PACKAGE}/content-types"><Default Extension="xml" ContentType="application/xml"/><Default'
        ' Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        f'<Override PartName="/{main}" ContentType="{kind}"/></Types>'
    )
    return _archive({"[Content_Types].xml": types, "_rels/.rels": _relations("officeDocument", main), **parts})


def _relations(kind: str, target: str) -> str:
    relation = f'<Relationship Id="r1" Type="{_OFFICE}/{kind}" Target="{target}"/>'
    return f'<Relationships xmlns="{_PACKAGE}/relationships">{relation}</Relationships>'


def _docx(blocks: Sequence[Block]) -> bytes:
    def paragraph(text: str) -> str:
        lines = "<w:br/>".join(f"<w:t>{escape(line)}</w:t>" for line in text.split("\n"))
        return f"<w:p><w:r>{lines}</w:r></w:p>"

    if blocks[0].kind == "row":
        rows = ["".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in block.cells) for block in blocks]
        body = "<w:tbl>" + "".join(f"<w:tr>{row}</w:tr>" for row in rows) + "</w:tbl>"
    else:
        body = "".join(paragraph(block.text) for block in blocks)
    document = f'<w:document xmlns:w="{_WORD}"><w:body>{body}</w:body></w:document>'
    return _office("word/document.xml", "wordprocessingml.document", {"word/document.xml": document})


def _xlsx(blocks: Sequence[Block]) -> bytes:
    rows = ""
    for number, cells in enumerate(_table(blocks), 1):
        columns = "".join(
            f'<c r="{"ABCDEF"[index]}{number}" t="inlineStr"><is><t>{escape(cell)}</t></is></c>'
            for index, cell in enumerate(cells)
        )
        rows += f'<row r="{number}">{columns}</row>'
    sheets = '<sheets><sheet name="Bridges" sheetId="1" r:id="r1"/></sheets>'
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_OFFICE}">{sheets}</workbook>',
        "xl/_rels/workbook.xml.rels": _relations("worksheet", "worksheets/sheet1.xml"),
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{rows}</sheetData></worksheet>',
    }
    return _office("xl/workbook.xml", "spreadsheetml.sheet", parts)


def _pptx(blocks: Sequence[Block]) -> bytes:
    def paragraph(text: str) -> str:
        lines = "<a:br/>".join(f"<a:r><a:t>{escape(line)}</a:t></a:r>" for line in text.split("\n"))
        return f"<a:p>{lines}</a:p>"

    def shape(number: int, texts: Sequence[str]) -> str:
        body = "".join(map(paragraph, texts))
        name = f'<p:nvSpPr><p:cNvPr id="{number}" name="Text {number}"/><p:cNvSpPr/><p:nvPr/></p:nvSpPr>'
        return f"<p:sp>{name}<p:spPr/><p:txBody><a:bodyPr/>{body}</p:txBody></p:sp>"

    group = '<p:nvGrpSpPr><p:cNvPr id="1" name=""/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>'
    tree = f"<p:spTree>{group}{shape(2, ['Bridges'])}{shape(3, [block.text for block in blocks])}</p:spTree>"
    spaces = f'xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}" xmlns:r="{_OFFICE}"'
    slides = '<p:sldIdLst><p:sldId id="256" r:id="r1"/></p:sldIdLst>'
    parts = {
        "ppt/presentation.xml": f"<p:presentation {spaces}>{slides}</p:presentation>",
        "ppt/_rels/presentation.xml.rels": _relations("slide", "slides/slide1.xml"),
        "ppt/slides/slide1.xml": f"<p:sld {spaces}><p:cSld>{tree}</p:cSld></p:sld>",
    }
    return _office("ppt/presentation.xml", "presentationml.presentation", parts)


def _odt(blocks: Sequence[Block]) -> bytes:
    def paragraph(text: str) -> str:
        return f"<text:p>{'<text:line-break/>'.join(map(escape, text.split(chr(10))))}</text:p>"

    if blocks[0].kind == "row":
        rows = [
            "".join(f"<table:table-cell>{paragraph(cell)}</table:table-cell>" for cell in block.cells)
            for block in blocks
        ]
        body = "<table:table>" + "".join(f"<table:table-row>{row}</table:table-row>" for row in rows) + "</table:table>"
    else:
        body = "".join(paragraph(block.text) for block in blocks)
    spaces = " ".join(f'xmlns:{name}="{_ODF}{name}:1.0"' for name in ("office", "text", "table"))
    content = (
        f'<office:document-content {spaces} office:version="1.3"><office:body><office:text>{body}</office:text>'
        "</office:body></office:document-content>"
    )
    kind = "application/vnd.oasis.opendocument.text"
    entries = f'<m:file-entry m:full-path="/" m:media-type="{kind}"/>'
    manifest = f'<m:manifest xmlns:m="{_ODF}manifest:1.0">{entries}</m:manifest>'
    return _archive({"mimetype": kind, "META-INF/manifest.xml": manifest, "content.xml": content})


_FORMATS: Mapping[str, Callable[[Sequence[Block]], bytes]] = {
    "txt": _text,
    "md": _markdown,
    "rst": _rst,
    "html": _html,
    "pdf": _pdf,
    "docx": _docx,
    "odt": _odt,
    "pptx": _pptx,
    "csv": _csv,
    "xlsx": _xlsx,
}
