"""Reader of PowerPoint 97 presentations (MS-PPT): one part for each slide, with its title, texts, tables and notes.

The texts of a slide are in its shapes, and in an outline of the document to which placeholders refer. Masters and
handouts are left out. Pictures and embedded objects have no text.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.compound import CompoundFile, summary_title
from shared.ingest.parse.readers.markdown import as_item, as_paragraph, as_table, one_line
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.slides.placement import Box, in_reading_order
from shared.ingest.parse.readers.stated_titles import stated_title

KIND = "PowerPoint 97 presentation"

_BOTH_FORMATS = "PP97_DUALSTORAGE"  # the folder of the newer form, if PowerPoint 95 can open the file, too
_DAMAGED = f"the {KIND} file is damaged and cannot be read; create or download it again"
_PROTECTED = f"the {KIND} file is protected with a password; remove the password and add it again"
_DOCUMENT, _SLIDE, _SLIDE_ATOM, _NOTES, _NOTES_ATOM = 1000, 1006, 1007, 1008, 1009
_OUTLINE, _PERSIST, _USER_EDIT, _DIRECTORY = 4080, 1011, 4085, 6002
_HEADER, _CHARS, _BYTES, _STYLES, _REFERENCE, _STRING = 3999, 4000, 4008, 4001, 3998, 4026
_COMMENT = 12000
_GROUP, _SHAPE, _PLACE, _CHILD_PLACE, _CLIENT, _TEXTBOX = 0xF003, 0xF004, 0xF010, 0xF00F, 0xF011, 0xF00D
_OUTER = frozenset((_OUTLINE, _SHAPE, _CLIENT, _TEXTBOX, 1036, 0xF002, 5000, 5002))
"""Containers in which texts are searched for."""

_PROPERTIES, _TABLE_PROPERTY = 0xF122, 0x39F
_TITLES, _NOTES_TEXT, _OTHER, _SLIDES, _SLIDE_NOTES = (0, 6), 2, 4, 0, 2
_FIELDS = re.compile(r"[\x00-\x08\x0e-\x1f]")
_MOST_SLIDES = 20_000
_DEEPEST = 24
_SAME_EDGE = 16
"""Cells whose edges differ by less are in one row or column: 1/36 of an inch."""


@dataclass(frozen=True, slots=True)
class _Record:
    kind: int
    instance: int
    is_container: bool
    start: int
    end: int


@dataclass(slots=True)
class _Text:
    """A text: its type, its characters, and the level of each paragraph."""

    sort: int
    text: str = ""
    levels: list[int] = field(default_factory=list)

    @property
    def is_title(self) -> bool:
        return self.sort in _TITLES


_Cells = list[tuple[Box, str]]
"""The cells of a table, with their positions."""


def read(content: bytes) -> FileReading:
    """Return the slides of a presentation.

    Raises:
        Unreadable: it is damaged or protected with a password.
    """
    file = CompoundFile(content, KIND)
    folder = file.root.folders.get(_BOTH_FORMATS, file.root)
    stream = file.read(folder, "PowerPoint Document")
    user = file.read(folder, "Current User")
    if "EncryptedSummary" in folder.streams or user[12:16] == b"\xdf\xc4\xd1\xf3":
        raise Unreadable(_PROTECTED)
    if not stream:
        raise Unreadable(_DAMAGED)
    presentation = _Presentation(stream, user)
    parts = [slide.part(number) for number, slide in enumerate(presentation.slides(), 1)]
    title = stated_title(summary_title(file.read(file.root, "\x05SummaryInformation")))
    return FileReading(tuple(parts), title, apart=True)


class _Presentation:
    def __init__(self, stream: bytes, user: bytes) -> None:
        self._stream = stream
        self._offsets = self._persisted(user)

    def slides(self) -> Iterator[_PptSlide]:
        """Yield the slides in their order; if the document does not name them, in the order of the file."""
        document = self._document()
        listed = list(self._outline(document, _SLIDES)) if document else []
        notes = {identity: offset for offset, identity, _ in self._outline(document, _SLIDE_NOTES)} if document else {}
        if not any(self._at(offset, _SLIDE) for offset, _, _ in listed):
            listed = [
                (record.start - 8, 0, []) for record in self._records(0, len(self._stream)) if record.kind == _SLIDE
            ]
            notes = {}
        for offset, _, outline in listed[:_MOST_SLIDES]:
            record = self._at(offset, _SLIDE)
            slide = _PptSlide(self._stream, outline)
            if record:
                slide.read(record)
                if note := self._at(notes.get(slide.notes_id, -1), _NOTES):
                    slide.read_notes(note)
            yield slide

    def _records(self, at: int, end: int) -> Iterator[_Record]:
        return _records(self._stream, at, end)

    def _at(self, offset: int, kind: int) -> _Record | None:
        record = next(self._records(offset, len(self._stream)), None) if offset >= 0 else None
        return record if record and record.kind == kind else None

    def _document(self) -> _Record | None:
        """Return the document of the last save."""
        by_reference = (self._at(offset, _DOCUMENT) for offset in self._offsets.values())
        whole = (record for record in self._records(0, len(self._stream)) if record.kind == _DOCUMENT)
        return next(filter(None, by_reference), None) or next(whole, None)

    def _outline(self, document: _Record, sort: int) -> Iterator[tuple[int, int, list[_Text]]]:
        """Yield the offset, the identifier and the texts of each slide, or of each page of notes."""
        for found in self._records(document.start, document.end):
            if found.kind != _OUTLINE or found.instance != sort:
                continue
            entry: tuple[int, int, list[_Text]] | None = None
            for record in self._records(found.start, found.end):
                if record.kind == _PERSIST and record.end - record.start >= 16:  # noqa: PLR2004 - up to the identifier
                    if entry:
                        yield entry
                    reference, _, _, identity = struct.unpack_from("<IIII", self._stream, record.start)
                    entry = (self._offsets.get(reference, -1), identity, [])
                elif entry:
                    _take_text(entry[2], record, self._stream)
            if entry:
                yield entry

    def _persisted(self, user: bytes) -> Mapping[int, int]:
        """Return the offsets of the objects of the last save, by number: later saves have precedence."""
        offsets, seen = dict[int, int](), set[int]()
        at = struct.unpack_from("<I", user, 16)[0] if len(user) >= 20 else -1  # noqa: PLR2004 - up to the offset
        while at not in seen and (edit := self._at(at, _USER_EDIT)) and edit.end - edit.start >= 16:  # noqa: PLR2004 - up to the directory
            seen.add(at)
            _, _, at, directory = struct.unpack_from("<IIII", self._stream, edit.start)
            if record := self._at(directory, _DIRECTORY):
                for number, offset in self._entries(record):
                    offsets.setdefault(number, offset)
            if not at:
                break
        # A damaged save may not lead to earlier ones.
        directories = [record for record in self._records(0, len(self._stream)) if record.kind == _DIRECTORY]
        for record in reversed(directories):
            for number, offset in self._entries(record):
                offsets.setdefault(number, offset)
        return offsets

    def _entries(self, directory: _Record) -> Iterator[tuple[int, int]]:
        at = directory.start
        while at + 4 <= directory.end:
            (head,) = struct.unpack_from("<I", self._stream, at)
            first, count = head & 0xFFFFF, min(head >> 20, (directory.end - at - 4) // 4)
            yield from enumerate(struct.unpack_from(f"<{count}I", self._stream, at + 4), first)
            at += 4 + count * 4


def _records(stream: bytes, at: int, end: int) -> Iterator[_Record]:
    """Yield the records between two offsets; a record that is longer than its container ends with it."""
    while at + 8 <= end:
        version, kind, length = struct.unpack_from("<HHI", stream, at)
        stop = min(at + 8 + length, end)
        yield _Record(kind, version >> 4, version & 15 == 15, at + 8, stop)  # noqa: PLR2004 - of a container
        at = stop


def _take_text(texts: list[_Text], record: _Record, stream: bytes) -> None:
    """Add the text of a record, or the levels of its paragraphs to the last text."""
    data = stream[record.start : record.end]
    if record.kind == _HEADER and len(data) >= 4:  # noqa: PLR2004 - the type
        texts.append(_Text(struct.unpack_from("<I", data)[0]))
    elif record.kind in (_CHARS, _BYTES):
        if not texts or texts[-1].text:
            texts.append(_Text(_OTHER))
        texts[-1].text = data.decode("utf-16-le" if record.kind == _CHARS else "latin-1", "replace")
    elif record.kind == _STYLES and texts:
        texts[-1].levels = _levels(data, len(texts[-1].text) + 1)


def _levels(data: bytes, length: int) -> list[int]:
    """Return the levels of paragraphs as runs: the number of characters and the level, one after the other."""
    found, at, covered = list[int](), 0, 0
    while covered < length and at + 10 <= len(data):
        count, level, mask = struct.unpack_from("<IHI", data, at)
        found += (count, level)
        covered += count
        at += 10 + _properties_bytes(data, at + 10, mask)
    return found


def _properties_bytes(data: bytes, at: int, mask: int) -> int:
    """Return the length of a paragraph's properties (TextPFException)."""
    before = sum(2 for bit in (4, 6, 7, 8, 10, 11, 12, 13, 14, 15) if mask >> bit & 1)
    before += (2 if mask & 0xF else 0) + (4 if mask >> 5 & 1 else 0)
    tabs = 0
    if mask >> 20 & 1 and at + before + 2 <= len(data):
        tabs = 2 + 4 * struct.unpack_from("<H", data, at + before)[0]
    return before + tabs + (2 if mask >> 16 & 1 else 0) + (2 if mask & 0xE0000 else 0) + (2 if mask >> 21 & 1 else 0)


class _PptSlide:
    """A slide.

    Args:
        stream: the document.
        outline: texts of its placeholders.
    """

    def __init__(self, stream: bytes, outline: Sequence[_Text]) -> None:
        self._stream = stream
        self._outline = outline
        self._used: set[int] = set()
        self._shapes: list[tuple[str, Box | None]] = []
        self._title = ""
        self._notes: list[str] = []
        self._comments: list[str] = []
        self._plain = [_shown(text.text) for text in outline]
        self.notes_id = 0

    def part(self, number: int) -> Part:
        """Return the slide as a part."""
        left = [text for index, text in enumerate(self._outline) if index not in self._used and text.text.strip()]
        for text in left:
            self._add(text, None)
        blocks = [f"# {self._title}"] if self._title else []
        blocks += in_reading_order(self._shapes)
        blocks += (f"Speaker notes:\n\n{notes}" for notes in ["\n\n".join(self._notes)] if notes)
        blocks += self._comments
        return Part("\n\n".join(blocks), "\n".join(self._plain), f"slide {number}", number)

    def read(self, record: _Record) -> None:
        """Read the shapes and comments of the slide."""
        for inner in _records(self._stream, record.start, record.end):
            if inner.kind == _SLIDE_ATOM and inner.end - inner.start >= 20:  # noqa: PLR2004 - up to the notes
                self.notes_id = struct.unpack_from("<I", self._stream, inner.start + 16)[0]
        for text, box in self._walk(record):
            if isinstance(text, list):
                self._table(text)
            else:
                self._plain.append(_shown(text.text))
                self._add(text, box)

    def read_notes(self, record: _Record) -> None:
        """Read the text of a page of notes."""
        for text, _ in self._walk(record):
            if isinstance(text, _Text) and text.sort in (_NOTES_TEXT, _OTHER) and _shown(text.text).strip("*\n "):
                self._plain.append(_shown(text.text))
                self._notes.append(as_paragraph(_shown(text.text).strip()))

    def _add(self, text: _Text, box: Box | None) -> None:
        shown = _shown(text.text)
        if text.is_title and not self._title and shown.strip():
            self._title = one_line(shown)
        elif shown.strip() and shown.strip() != "*":  # the field of a number or a date
            self._shapes.append((_listed(shown, text.levels), box))

    def _table(self, cells: _Cells) -> None:
        lefts = _edges(box.left for box, _ in cells)
        tops = _edges(box.top for box, _ in cells)
        rows = [[""] * len(lefts) for _ in tops]
        for box, text in cells:
            row, column = _edge(tops, box.top), _edge(lefts, box.left)
            rows[row][column] = f"{rows[row][column]} {text}".strip()
        area = min((box for box, _ in cells), key=lambda box: (box.top, box.left))
        if table := as_table(row for row in rows if any(row)):
            self._shapes.append((table, area))

    def _walk(self, record: _Record) -> Iterator[tuple[_Text | _Cells, Box | None]]:
        """Yield the texts and tables in a container, without recursion."""
        waiting = [(record, 0)]
        while waiting:
            container, depth = waiting.pop()
            if container.kind == _GROUP and depth and (table := self._cells(container)):
                yield table, None
                continue
            if container.kind == _SHAPE:
                yield from self._shape(container)
                continue
            inner = list(_records(self._stream, container.start, container.end))
            if container.kind == _COMMENT:
                self._comment(inner)
            elif depth < _DEEPEST:
                waiting += [
                    (each, depth + 1)
                    for each in reversed(inner)
                    if each.is_container and (each.kind in _OUTER or each.kind in (_GROUP, _COMMENT))
                ]

    def _cells(self, group: _Record) -> _Cells | None:
        """Return a table; None for another group."""
        shapes = [each for each in _records(self._stream, group.start, group.end) if each.kind == _SHAPE]
        if not shapes or not self._is_table(shapes[0]):
            return None
        cells: _Cells = []
        for shape in shapes[1:]:
            for text, box in self._shape(shape):
                shown = _shown(text.text)
                self._plain.append(shown)
                if box and shown.strip():
                    cells.append((box, one_line(shown)))
        return cells or None

    def _is_table(self, shape: _Record) -> bool:
        return any(
            _TABLE_PROPERTY in struct.unpack(f"<{'H4x' * count}", self._stream[each.start : each.start + 6 * count])
            for each in _records(self._stream, shape.start, shape.end)
            if each.kind == _PROPERTIES and (count := min(each.instance, (each.end - each.start) // 6))
        )

    def _shape(self, shape: _Record) -> Iterator[tuple[_Text, Box | None]]:
        box, texts = None, list[_Text]()
        for each in _records(self._stream, shape.start, shape.end):
            size = each.end - each.start
            if each.kind == _PLACE and size >= 8:  # noqa: PLR2004 - four short numbers
                top, left, right, bottom = struct.unpack_from("<4h", self._stream, each.start)
                box = Box(left, top, right - left, bottom - top)
            elif each.kind == _CHILD_PLACE and size >= 16:  # noqa: PLR2004 - four numbers
                left, top, right, bottom = struct.unpack_from("<4i", self._stream, each.start)
                box = Box(left, top, right - left, bottom - top)
            elif each.kind == _TEXTBOX:
                for record in _records(self._stream, each.start, each.end):
                    if record.kind == _REFERENCE and record.end - record.start >= 4:  # noqa: PLR2004 - an index
                        self._refer(struct.unpack_from("<I", self._stream, record.start)[0], box)
                    else:
                        _take_text(texts, record, self._stream)
        yield from ((text, box) for text in texts if text.text)

    def _refer(self, index: int, box: Box | None) -> None:
        if index < len(self._outline) and index not in self._used:
            self._used.add(index)
            self._add(self._outline[index], box)

    def _comment(self, records: Sequence[_Record]) -> None:
        texts = {
            each.instance: self._stream[each.start : each.end].decode("utf-16-le", "replace")
            for each in records
            if each.kind == _STRING
        }
        if text := texts.get(1, "").strip():
            self._plain.append(text)
            by = f" by {texts[0].strip()}" if texts.get(0, "").strip() else ""
            self._comments.append(as_paragraph(f"Comment{by}: {one_line(text)}"))


def _shown(text: str) -> str:
    return _FIELDS.sub("", text.replace("\r\n", "\n").replace("\r", "\n").replace("\x0b", "\n"))


def _listed(text: str, levels: Sequence[int]) -> str:
    """Return a text of several paragraphs; if their levels differ, as a list."""
    lines = text.split("\n")
    runs = [(levels[at], levels[at + 1]) for at in range(0, len(levels) - 1, 2)]
    if not any(level for _, level in runs):
        return as_paragraph("\n".join(line.strip() for line in lines if line.strip()))
    items, position, run, covered = list[str](), 0, 0, runs[0][0]
    for line in lines:
        while position >= covered and run + 1 < len(runs):
            run += 1
            covered += runs[run][0]
        if line.strip():
            items.append(as_item(line, runs[run][1]))
        position += len(line) + 1
    return "\n".join(items)


def _edges(values: Iterator[float]) -> list[float]:
    edges = list[float]()
    for value in sorted(set(values)):
        if not edges or value - edges[-1] > _SAME_EDGE:
            edges.append(value)
    return edges


def _edge(edges: Sequence[float], value: float) -> int:
    return max(index for index, edge in enumerate(edges) if edge <= value)
