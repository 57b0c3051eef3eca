"""The reader of PDF: the text layer of each page in the order of reading, with headings, lists, tables and fields."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pypdfium2
from pypdfium2 import raw

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.pdf.appearances import drawn_texts
from shared.ingest.parse.readers.pdf.blocks import PageBlock, blocks_of, escaped, table_markdown
from shared.ingest.parse.readers.pdf.forms import annotations_of, attachments_of, form_of, unread_form
from shared.ingest.parse.readers.pdf.hyphens import join_divided_words, settle_hyphens
from shared.ingest.parse.readers.pdf.layout.lines import Item
from shared.ingest.parse.readers.pdf.layout.order import arranged, in_place_of, lines_of
from shared.ingest.parse.readers.pdf.margins import PageBlocks, without_running
from shared.ingest.parse.readers.pdf.opening import opened
from shared.ingest.parse.readers.pdf.rulings import Box, Rulings, ruled_tables, rulings_of
from shared.ingest.parse.readers.pdf.stripes import striped_tables
from shared.ingest.parse.readers.pdf.structure import (
    Bookmarks,
    bookmarks_of,
    set_levels,
    state_levels,
    tagged_headings,
    wide_text,
)
from shared.ingest.parse.readers.pdf.tables import join_tables
from shared.ingest.parse.readers.pdf.text.layer import TextLayer, text_layer
from shared.ingest.parse.readers.pdf.text.styles import Fonts
from shared.ingest.parse.readers.pdf.text.words import Word
from shared.ingest.parse.readers.pdf.titles import largest, real_title
from shared.ingest.parse.readers.reading import FileReading, Part

MAX_PAGES = 20_000
MAX_CHARS = 100_000
"""A page with more characters keeps the order of its content."""

_NO_TABLES = Rulings([], [])
_BLANK = b"%PDF-1.4\n1 0 obj<</Pages<</Kids[<<>>]/Count 1>>>>endobj trailer<</Root 1 0 R>>"


def load() -> None:
    """Load pdfium's data, because a confined process can open no file."""
    read(_BLANK)


def read(content: bytes) -> FileReading:
    """Return the pages of a PDF file.

    Raises:
        Unreadable: the file is damaged, protected with a password, or too long.
    """
    with opened(content) as document:
        count = len(document)
        if count > MAX_PAGES:
            raise Unreadable(f"the PDF file has {count:,} pages, more than the {MAX_PAGES:,} allowed; divide it")
        with form_of(document) as form:
            reader = _Reader(document, form)
            pages = [reader.page(number) for number in range(1, count + 1)]
        for number, boxes in reader.drawn.items():
            _add_drawn(pages[number - 1], drawn_texts(document, number, boxes))
        title = real_title(wide_text(raw.FPDF_GetMetaText, document, b"Title"))
        texts = [page.plain for page in pages]
        unread = (*reader.unread, *unread_form(document, texts), *attachments_of(document))
    settle_hyphens(pages)
    without_running(pages)
    join_divided_words(pages)
    set_levels([page.blocks for page in pages])
    join_tables(pages)
    parts = tuple(map(_part, pages))
    return FileReading(parts, title or (largest(pages[0]) if pages else None), unread)


def _add_drawn(page: PageBlocks, texts: Sequence[str]) -> None:
    page.blocks += map(_note, texts)
    page.plain = "\n".join((page.plain, *texts))


def _part(page: PageBlocks) -> Part:
    location = f"page {page.number}"
    return Part(_markdown(page.blocks), page.plain, location, page.number, page.illegible, page.continues)


class _Reader:
    """Reads the pages of a document."""

    def __init__(self, document: pypdfium2.PdfDocument, form: Any) -> None:
        self._form = form
        self.unread = list[str]()
        self.drawn: dict[int, tuple[Box, ...]] = {}
        self._document = document
        self._fonts = Fonts()
        self._tagged = bool(raw.FPDFCatalog_IsTagged(document))
        self._bookmarks: Bookmarks = bookmarks_of(document)

    def page(self, number: int) -> PageBlocks:
        """Return the blocks of a page; none if it is damaged."""
        try:
            page = self._document[number - 1]
        except pypdfium2.PdfiumError:
            self.unread.append(f"page {number:,} is damaged and was not read; create or download the file again")
            return PageBlocks(number, [], "", 0, 0)
        if self._form:  # without it, every box is empty
            raw.FORM_OnAfterLoadPage(page, self._form)
        try:
            return self._read(page, number)
        finally:
            if self._form:
                raw.FORM_OnBeforeClosePage(page, self._form)
            page.close()

    def _read(self, page: pypdfium2.PdfPage, number: int) -> PageBlocks:
        text_page = page.get_textpage()
        try:
            count = text_page.count_chars()
            if count > MAX_CHARS:
                plain = text_page.get_text_range().replace("\r\n", "\n")
                return PageBlocks(number, [_unordered(plain)], plain, 0, 0)
            layer = text_layer(text_page, max(count, 0), self._fonts)
        finally:
            text_page.close()
        notes = annotations_of(page, self._form, layer)
        if notes.drawn:
            self.drawn[number] = notes.drawn
        blocks = _blocks(page, _with_values(layer, notes.values))
        if blocks:
            tags = tagged_headings(page) if self._tagged else {}
            state_levels(blocks, self._bookmarks.get(number, {}), tags)
        blocks += [_note(text) for text in notes.comments]
        plain = "\n".join((layer.plain, *(word.text for word in notes.values), *notes.comments))
        top, bottom = _edges(page, layer)
        return PageBlocks(number, blocks, plain, top, bottom, layer.illegible)


def _blocks(page: Any, layer: TextLayer) -> list[PageBlock]:
    """Return the blocks of a page: the direction with most letters first, then text that is turned to it."""
    blocks = list[PageBlock]()
    for index, (angle, words) in enumerate(layer.groups):
        rulings = _NO_TABLES if index else rulings_of(page, page.get_size(), angle)
        found = blocks_of(_placed(words, rulings))
        for block in found:
            block.turned = index > 0
        blocks += found
    return blocks


def _placed(words: Sequence[Word], rulings: Rulings) -> list[Item]:
    ruled, rest = ruled_tables(words, rulings)
    striped, rest = striped_tables(rest, rulings)
    return arranged([*lines_of(rest), *(in_place_of(table, box) for table, box in (*ruled, *striped))])


def _with_values(layer: TextLayer, values: Sequence[Word]) -> TextLayer:
    if not values:
        return layer
    if not layer.groups:
        return TextLayer(((0, list(values)),), layer.plain)
    (angle, words), *others = layer.groups
    return TextLayer(((angle, [*words, *values]), *others), layer.plain)


def _edges(page: Any, layer: TextLayer) -> tuple[float, float]:
    """Return the heights of the upper and the lower edge of a page, turned as its words."""
    left, bottom, right, top = page.get_bbox()
    angle = layer.groups[0][0] if layer.groups else 0
    return {90: (-left, -right), 180: (-bottom, -top), 270: (right, left)}.get(angle, (top, bottom))


def _note(text: str) -> PageBlock:
    return PageBlock("note", escaped(text), 0, 0, 0)


def _unordered(plain: str) -> PageBlock:
    return PageBlock("note", escaped(plain), 0, 0, 0)


def _markdown(blocks: Sequence[PageBlock]) -> str:
    return "\n\n".join(filter(None, map(_block, blocks)))


def _block(block: PageBlock) -> str:
    if block.kind == "table":
        return table_markdown(block.rows, continues=block.continues)
    if block.level:
        return f"{'#' * block.level} {' '.join(block.text.split())}"
    return block.text
