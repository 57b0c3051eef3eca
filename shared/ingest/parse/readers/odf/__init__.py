"""Reader of OpenDocument texts and presentations, also of flat XML files (ODF 1.3 part 2, section 2, and part 3).

Pictures, deleted text, macros and templates of indexes are not read; spreadsheets have `sheets.ods`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape

from lxml import etree

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.archive import Archive
from shared.ingest.parse.readers.markdown import as_paragraph, one_line
from shared.ingest.parse.readers.odf.names import MARKS, key_of
from shared.ingest.parse.readers.odf.plain import plain_text
from shared.ingest.parse.readers.odf.styles import OdfStyles, attribute
from shared.ingest.parse.readers.odf.text import Content, OdfFlow, joined
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.slides.placement import Box, in_reading_order
from shared.ingest.parse.readers.stated_titles import stated_title
from shared.ingest.parse.readers.xml_tree import Element, local_name, parsed

_TEXT = "OpenDocument text"
_PRESENTATION = "OpenDocument presentation"
_LENGTH = re.compile(r"(-?\d{1,9}(?:\.\d{1,9})?)(mm|cm|in|pt|pc|px)?")
_MILLIMETRES = {"mm": 1.0, "cm": 10.0, "in": 25.4, "pt": 0.3528, "pc": 4.2333, "px": 0.2646}
_TAG = re.compile(r"<[^<>]*>")
_BREAK = re.compile(r"</text:[ph]>|<text:(?:tab|s|line-break)\b")


def read_text(content: bytes) -> FileReading:
    """Return the text of an OpenDocument text.

    Raises:
        Unreadable: the file is damaged or protected with a password.
    """
    source = _Source(content, _TEXT)
    body = _body(source)
    if body is None:
        return source.reading([Part("", source.lost() or None)])
    flow = OdfFlow(source.content)
    flow.read(body)
    markdown = joined(flow.blocks)
    return source.reading([Part(markdown, source.lost() or plain_text(body))])


def read_presentation(content: bytes) -> FileReading:
    """Return the slides of an OpenDocument presentation.

    Raises:
        Unreadable: the file is damaged or protected with a password.
    """
    source = _Source(content, _PRESENTATION)
    body = _body(source)
    slides = [] if body is None else [page for page in body if local_name(page) == "page"]
    parts, shown = list[Part](), set[str]()
    for number, page in enumerate(slides, start=1):
        repeated = [text for text in dict.fromkeys(source.repeated(page)) if text not in shown]
        shown.update(repeated)
        parts.append(Part(_slide(page, source.content, repeated), plain_text(page), f"slide {number}", number))
    if lost := source.lost():
        parts = [Part("\n\n".join(part.markdown for part in parts), lost, "", 1)]
    return source.reading(parts, apart=True)


class _Source:
    """The XML of the file: parts of an archive, or one flat file."""

    def __init__(self, content: bytes, kind: str) -> None:
        self._whole = True
        self._archive = Archive(content, kind) if content.startswith(b"PK") else None
        if self._archive is None:
            self._xml = content
        else:
            self._check(self._archive, kind)
            self._xml = self._archive.read("content.xml")
        self.root, self._whole = parsed(self._xml)
        self._meta = self.root if self._archive is None else self._part("meta.xml")
        self._styles = self.root if self._archive is None else self._part("styles.xml")
        styles = OdfStyles(self._styles, self.root)
        self.content = Content(styles, self._part)

    @staticmethod
    def _check(archive: Archive, kind: str) -> None:
        manifest = archive.read("META-INF/manifest.xml") if "META-INF/manifest.xml" in archive else b""
        if b"encryption-data" in manifest or b"encrypted-package" in manifest or "encrypted-package" in archive:
            raise Unreadable(f"the {kind} file is protected with a password; remove the password and add it again")
        if "content.xml" not in archive:
            raise Unreadable(f"the {kind} file is damaged: it has no content; create or download it again")

    def _part(self, path: str) -> Element | None:
        if self._archive is None or path not in self._archive:
            return None
        return parsed(self._archive.read(path))[0]

    def lost(self) -> str:
        """Return the texts of a file that could not be parsed to its end; empty for other files."""
        if self._whole:
            return ""
        xml = self._xml.decode("utf-8", "replace")
        body = xml[max(0, xml.find("<office:body")) :]
        return unescape(_TAG.sub("", _BREAK.sub(r"\n\g<0>", body)))

    def repeated(self, page: Element) -> Iterator[str]:
        """Yield the footer of a slide, and the texts of its master, which more slides have."""
        footer, master = attribute(page, "use-footer-name"), attribute(page, "master-page-name")
        for declared in page.itersiblings("{*}footer-decl", preceding=True):
            if attribute(declared, "name") == footer:
                yield as_paragraph(one_line(declared.text or ""))
        for found in () if self._styles is None else self._styles.iter("{*}master-page"):
            if attribute(found, "name") == master:
                yield from self._fixed(found)

    def _fixed(self, master: Element) -> Iterator[str]:
        for shape in master:
            if local_name(shape) == "notes" or attribute(shape, "class") not in (None, "footer"):
                continue
            flow = OdfFlow(self.content)
            for child in shape:
                flow.read(child)
            yield from (text for _, text in flow.blocks if text)

    def reading(self, parts: Sequence[Part], *, apart: bool = False) -> FileReading:
        """Return the reading with these parts, which names damaged parts of the archive."""
        unread = () if self._archive is None else tuple(self._archive.unread())
        return FileReading(tuple(parts), self._title(), unread, apart)

    def _title(self) -> str | None:
        """Return the title in the properties, unless a program made it up."""
        found = self._meta.find(".//{*}meta/{*}title") if self._meta is not None else None
        return stated_title(found.text if found is not None else None)


def _body(source: _Source) -> Element | None:
    """Return the body of a document, in which elements that only mark text are joined with the text around them."""
    body = source.root.find("{*}body") if source.root is not None else None
    if body is None:
        return None
    etree.strip_tags(body, *MARKS)
    return next((child for child in body if local_name(child)), None)


def _slide(page: Element, content: Content, repeated: Sequence[str]) -> str:
    shapes: list[tuple[list[tuple[str, str]], Box | None]] = []
    title, notes, comments = "", list[tuple[str, str]](), list[tuple[str, str]]()
    for shape in page:
        flow = OdfFlow(content)
        flow.read(shape)
        kind = local_name(shape)
        if kind == "notes":
            notes += flow.blocks
        elif kind == "annotation":
            comments += flow.blocks
        elif attribute(shape, "class") == "title" and not title:
            title = one_line(" ".join(text for _, text in flow.blocks))
        elif flow.blocks:
            shapes.append((flow.blocks, _box(shape)))
    texts = [block for blocks in in_reading_order(shapes) for block in (*blocks, ("end", ""))]
    if notes and notes[0][0] == "text":
        notes[0] = ("text", f"Speaker notes: {notes[0][1]}")
    elif notes:
        notes.insert(0, ("text", "Speaker notes:"))
    heading = [("heading", f"## {title}")] if title else []
    return joined([*heading, *texts, *(("text", text) for text in repeated), *notes, *comments])


def _box(shape: Element) -> Box | None:
    """Return the position of a shape, or of the shapes of a group together."""
    if local_name(shape) != "g":
        sides = [_length(attribute(shape, name)) for name in ("x", "y", "width", "height")]
        left, top, width, height = sides
        return None if left is None or top is None else Box(left, top, width or 0, height or 0)
    boxes = [box for each in shape.iterdescendants() if local_name(each) != "g" and (box := _box_of_member(each))]
    if not boxes:
        return None
    left, top = min(box.left for box in boxes), min(box.top for box in boxes)
    right, bottom = max(box.left + box.width for box in boxes), max(box.top + box.height for box in boxes)
    return Box(left, top, right - left, bottom - top)


def _box_of_member(shape: Element) -> Box | None:
    return _box(shape) if isinstance(shape.tag, str) and key_of(shape).startswith("draw:") else None


def _length(text: str | None) -> float | None:
    found = _LENGTH.fullmatch(text or "")
    return float(found[1]) * _MILLIMETRES[found[2] or "mm"] if found else None
