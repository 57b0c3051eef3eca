"""Conversion of a file to Markdown by the reader of its format."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from shared.domain.errors import Unreadable
from shared.domain.stages.pages import PageText
from shared.ingest.parse import feeds, kinds, pages
from shared.ingest.parse.document import ExtractedText, PagesToRead
from shared.ingest.parse.main_part import main_part
from shared.ingest.parse.payloads import without_comments, without_data
from shared.ingest.parse.readers import doc, epub, html, json, notebook, odf, pdf, rtf, word, xml
from shared.ingest.parse.readers.attachments import Attachments
from shared.ingest.parse.readers.guard import guarded
from shared.ingest.parse.readers.mail import eml, msg
from shared.ingest.parse.readers.markup import latex, org, rst
from shared.ingest.parse.readers.pdf.pictures import pictures_in as pdf_pictures
from shared.ingest.parse.readers.reading import FileReading, Part, Reader
from shared.ingest.parse.readers.sheets import delimited, ods, xls, xlsx
from shared.ingest.parse.readers.slides import ppt, pptx
from shared.ingest.parse.text import clean, decode
from shared.ingest.parse.titles import title_of

_files: Counter[str] = Counter()  # files that native code has read in this process, by kind


@dataclass(frozen=True, slots=True)
class EmbeddedPicture:
    """A picture in a document.

    Args:
        content: its file.
        page: its page, from 1; None if the format has no pages.
        position: its position in the text; None if unknown.
    """

    content: bytes
    page: int | None = None
    position: int | None = None


class PageFinder(Protocol):
    """Finds the pages of a file that must be read by OCR: `scans.finding`, which needs the extra `ocr`."""

    def pages_of_picture(self, content: bytes) -> tuple[int, ...]:
        """Return the numbers of the pages of a picture file, from 1."""
        ...

    def pages_without_text(self, pdf: bytes, texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
        """Return the numbers of the pages of a PDF file with these texts that must be read."""
        ...


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """The use of OCR: a finder of pages, and the texts of pages that have been read."""

    finder: PageFinder
    texts: Mapping[int, PageText]


def extract(
    content: bytes,
    *,
    filename: str | None,
    media_type: str | None,
    max_text_chars: int,
    web_page: bool = False,
    scans: ScanOptions | None = None,
) -> ExtractedText | PagesToRead:
    """Return the text of a file with this content as Markdown, or its pages that must be read first.

    Args:
        content: content of the file.
        filename: name given by the sender.
        media_type: type declared by the sender.
        max_text_chars: a file with more text is rejected.
        web_page: whether only the main part of HTML is read.
        scans: None: pages without text are not read, and pictures are rejected.

    Raises:
        Unreadable: with a sentence that names the problem and the remedy.
    """
    kind = kinds.detect(content, filename=filename, media_type=media_type, pictures=scans is not None)
    if kind.route not in ("text", "code"):
        _files[kind.name] += 1
    extracted: ExtractedText | PagesToRead
    if scans and kind.route == "picture":
        extracted = _pictured(content, kind, scans)
    elif scans and kind is kinds.PDF:
        extracted = _pdf_with_scans(content, scans)
    else:
        route = _web_page if web_page and kind is kinds.HTML else _ROUTES[kind.route]
        extracted = route(content, kind, charset_of(media_type))
    if isinstance(extracted, PagesToRead):
        return extracted
    if len(extracted.text) > max_text_chars:
        raise Unreadable(
            f"the file contains {len(extracted.text):,} characters of text, more than the {max_text_chars:,} allowed; "
            "divide it"
        )
    if not extracted.text.strip():
        reason = _why_empty(kind, len(extracted.page_starts), read=scans is not None)
        raise Unreadable("; ".join((reason, *extracted.unread[:1])))
    return extracted


def charset_of(media_type: str | None) -> str | None:
    """Return the charset that a media type declares."""
    found = re.search(r"charset=\"?([\w.:-]{1,40})", media_type or "", re.IGNORECASE)
    return found[1] if found else None


def _text(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:
    text = without_data(decode(content, charset=charset))
    if kind is kinds.MARKDOWN:
        text = without_comments(text)
    return ExtractedText(text, title_of(text, None), kind.media_type)


def _code(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:
    text = without_data(decode(content, charset=charset))
    return ExtractedText(text, None, kind.media_type, markdown=False)


def _html(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:
    return _checked(html.read(decode(content, charset=charset)), kind)


def _web_page(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:
    page = decode(content, charset=charset)
    return _checked(html.read(page, main_part(page)), kind)


def _feed(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:  # noqa: ARG001 - as below
    feed = feeds.read(content)
    if not feed:
        return _checked(xml.read(content), kinds.XML)
    text = html.markdown_of(feed.html)
    return ExtractedText(text, title_of(text, feed.title), kind.media_type)


def _converted(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:
    """Return the text of a markup file; its source if it cannot be converted."""
    plain = without_data(decode(content, charset=charset))
    reading = _CONVERTERS[kind](plain)
    return _checked(reading, kind) if reading else ExtractedText(plain, None, kind.media_type, markdown=False)


def _pdf_with_scans(content: bytes, scans: ScanOptions) -> ExtractedText | PagesToRead:
    reading = pdf.read(content)
    texts = [(part.number or 0, clean(part.plain or "")) for part in reading.parts]
    numbers = scans.finder.pages_without_text(content, texts)
    if missing := tuple(number for number in numbers if number not in scans.texts):
        return PagesToRead(len(texts), missing, kinds.PDF.media_type)
    read = {number: scans.texts[number] for number in numbers}
    parts = tuple(_as_read(part, read) for part in reading.parts)
    return replace(_checked(replace(reading, parts=parts), kinds.PDF), read_pages=read)


def _as_read(part: Part, read: Mapping[int, PageText]) -> Part:
    """Return a page with the text that OCR has read, if it has."""
    page = read.get(part.number or 0)
    return replace(part, markdown=page.text, plain=None) if page else part


def _pictured(content: bytes, kind: kinds.FileKind, scans: ScanOptions) -> ExtractedText | PagesToRead:
    numbers = scans.finder.pages_of_picture(content)
    if missing := tuple(number for number in numbers if number not in scans.texts):
        return PagesToRead(len(numbers), missing, kind.media_type)
    read = {number: scans.texts[number] for number in numbers}
    text, starts = pages.joined((number, page.text) for number, page in read.items())
    return ExtractedText(text, title_of(text, None), kind.media_type, page_starts=starts, read_pages=read)


def _read(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:  # noqa: ARG001 - as above
    return _checked(_READERS[kind](content), kind)


def _delimited(content: bytes, kind: kinds.FileKind, charset: str | None) -> ExtractedText:
    return _checked(delimited.read(decode(content, charset=charset), tabs=kind is kinds.TSV), kind)


def _checked(reading: FileReading, kind: kinds.FileKind) -> ExtractedText:
    """Return the text of a reading whose words the guard has counted."""
    checked = guarded(reading.parts)
    text, starts = pages.of_parts(checked.parts)
    return ExtractedText(
        text,
        title_of(text, reading.title),
        kind.media_type,
        page_starts=starts,
        coverage=checked.coverage,
        losses=checked.losses,
        unread=reading.unread,
        apart=reading.apart,
    )


def _attached(content: bytes, name: str | None, media_type: str | None, attachments: Attachments) -> FileReading:
    """Read a file inside another file."""
    kind = kinds.detect(content, filename=name, media_type=media_type)
    if outer := _OUTER_READERS.get(kind):
        return outer(content, attachments)
    if reader := _READERS.get(kind):
        return reader(content)
    extracted = _ROUTES[kind.route](content, kind, charset_of(media_type))
    if not extracted.text.strip():
        raise Unreadable(_why_empty(kind, len(extracted.page_starts), read=False))
    text = extracted.text if extracted.markdown else f"~~~\n{extracted.text}\n~~~"
    return FileReading((Part(text),), extracted.title, extracted.unread)


def _outer_reader(kind: kinds.FileKind) -> Reader:
    def read(content: bytes) -> FileReading:
        return _OUTER_READERS[kind](content, Attachments(_attached, html.markdown_of, html.plain_of))

    return read


_OUTER_READERS: Mapping[kinds.FileKind, Callable[[bytes, Attachments], FileReading]] = {
    kinds.EML: eml.read,
    kinds.MBOX: eml.read,
    kinds.MSG: msg.read,
    kinds.DOCX: word.read,
    kinds.PPTX: pptx.read,
    kinds.XLSX: xlsx.read,
}
"""The readers of files that contain other files."""

_READERS: Mapping[kinds.FileKind, Reader] = {
    **{kind: _outer_reader(kind) for kind in _OUTER_READERS},
    kinds.PDF: pdf.read,
    kinds.DOC: doc.read,
    kinds.RTF: rtf.read,
    kinds.EPUB: epub.read,
    kinds.IPYNB: notebook.read,
    kinds.XML: xml.read,
    kinds.ODP: odf.read_presentation,
    kinds.ODT: odf.read_text,
    kinds.PPT: ppt.read,
    kinds.XLS: xls.read,
    kinds.ODS: ods.read,
}
"""The reader of each format of the route `read`."""

_CONVERTERS: Mapping[kinds.FileKind, Callable[[str], FileReading | None]] = {
    kinds.JSON: json.read,
    kinds.RST: rst.read,
    kinds.ORG: org.read,
    kinds.LATEX: latex.read,
}
"""The reader of each format of the route `converted`; None if it cannot read a text."""

_ROUTES = {
    "read": _read,
    "delimited": _delimited,
    "text": _text,
    "code": _code,
    "html": _html,
    "feed": _feed,
    "converted": _converted,
}


def _why_empty(kind: kinds.FileKind, page_count: int, *, read: bool) -> str:
    if page_count and (kind is kinds.PDF or kind.route == "picture"):
        pages_ = "1 page" if page_count == 1 else f"{page_count:,} pages"
        if read:
            return f"the {kind.name} has {pages_}, but no words were found on {'it' if page_count == 1 else 'them'}"
        return f"the {kind.name} has {pages_} but no text; run OCR on it first"
    return f"the {kind.name} file has no text inside"


def pictures_in(content: bytes, extracted: ExtractedText) -> list[EmbeddedPicture]:
    """Return the pictures of a PDF or Word file in order; none for other formats.

    The file is read again, because few documents need their pictures.
    """
    if extracted.media_type == kinds.DOCX.media_type:
        text, found = word.pictures(content)
        same = extracted.text.startswith(clean(text).strip("\n"))  # embedded documents follow it
        return [EmbeddedPicture(data, position=position if same else None) for data, position in found]
    if extracted.media_type == kinds.PDF.media_type:
        return [EmbeddedPicture(picture, page) for page, picture in pdf_pictures(content)]
    return []


def load() -> None:
    """Load the data of pdfium, because a confined process opens no file."""
    pdf.load()


def native_files() -> int:
    """Return the number of files that native code has read in this process."""
    return _files.total()
