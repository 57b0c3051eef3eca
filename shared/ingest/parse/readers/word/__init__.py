"""Reader of Word files (docx, docm, dotx): WordprocessingML of ECMA-376 part 1, section 17.

Read: the body with lists as Word numbers them, tables, notes, comments, text boxes, charts, diagrams and equations, and
parts in other formats and embedded documents. Not read: deleted text, codes of fields, pictures and other embedded
objects; objects that people would open are named. Headers and footers are read if the body has no text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.attachments import AttachedFile, Attachments, summed
from shared.ingest.parse.readers.office import charts, drawingml
from shared.ingest.parse.readers.office.embedded import embedded_file
from shared.ingest.parse.readers.office.package import Relation
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.word import alternatives, plain
from shared.ingest.parse.readers.word.blocks import MarkdownWithPictures, WordBlock, placed
from shared.ingest.parse.readers.word.notes import Notes
from shared.ingest.parse.readers.word.numbering import Numbering
from shared.ingest.parse.readers.word.package import WordPackage
from shared.ingest.parse.readers.word.styles import WordStyles
from shared.ingest.parse.readers.word.walk import blocks_below
from shared.ingest.parse.readers.xml_tree import Element

MOST_NESTED = 3
"""Word files inside of Word files are read to this depth."""

_MARK, _GAP = "![]()", "\n\n"
_ONLY_PICTURES = "the file has pictures but no text; the words in its pictures were not read"
_NO_TITLE = re.compile(
    r"(?:microsoft word\s*-.*|"
    r"(?:untitled|unbenannt|sans titre|sin título|senza titolo|(?:word )?document|dokument|documento)"
    r"[\s_-]?\d*|[^\s/\\]*[/\\].*|.*\.(?:docx?|docm|dotx?|rtf|odt|pdf|wpd|txt)|\W*)",
    re.IGNORECASE,
)
_PROGRAMS = (
    ("subdocument", "subdocument"),
    ("excel", "Excel workbook"),
    ("word", "Word document"),
    ("powerpoint", "PowerPoint presentation"),
    ("acro", "PDF"),
    ("package", "file"),
    ("outlook", "Outlook message"),
    ("visio", "Visio drawing"),
    ("opendocument", "OpenDocument file"),
)


def read(content: bytes, attachments: Attachments | None = None) -> FileReading:
    """Return the text of a Word file, and the embedded documents after it.

    Args:
        content: content of the file.
        attachments: the readers of embedded documents; None if these are only named.

    Raises:
        Unreadable: it is damaged, protected or too large.
    """
    document = _WordDocument(content)
    body = document.body()
    part, title = Part(body.markdown, document.plain()), document.title()
    parts, problems = document.embedded(attachments)
    pictures_only = body.markdown.startswith(_MARK) and not parts
    unread = [*document.unread(), *problems, *([_ONLY_PICTURES] if pictures_only else ())]
    return FileReading((part, *parts), title, summed(unread))


def pictures(content: bytes) -> tuple[str, list[tuple[bytes, int]]]:
    """Return the text of a Word file, and each picture in it with its position in the text.

    Raises:
        Unreadable: the file is damaged, protected or too large.
    """
    document = _WordDocument(content)
    body = document.body()
    found = ((document.package.read(name), at) for name, at in body.pictures)
    return body.markdown, [(data, at) for data, at in found if data]


def _known(program: str) -> str:
    """Return the kind of a program's documents for people; empty for objects that are part of the text."""
    return next((label for word, label in _PROGRAMS if word in program.lower()), "")


def _marked(found: MarkdownWithPictures) -> MarkdownWithPictures:
    """Return a mark for each picture of a file without text, so that a description has a location."""
    step = len(_MARK) + len(_GAP)
    names = [name for name, _ in found.pictures]
    return MarkdownWithPictures(
        _GAP.join(_MARK for _ in names), tuple((name, at * step) for at, name in enumerate(names))
    )


class _WordDocument:
    """A Word file, and the state of its reading.

    Args:
        content: content of the file.
        depth: number of Word files around it.
    """

    def __init__(self, content: bytes, depth: int = 0) -> None:
        self.package = WordPackage(content)
        self.styles = WordStyles(self.package.related_data("styles"))
        self.numbering = Numbering(lambda: self.package.related("numbering"), self.styles)
        self._notes = Notes(self.package, self._note_blocks)
        self.note = self._notes.note
        self.comment = self._notes.comment
        self._depth = depth
        self._left_out: dict[str, int] = {}
        self._embedded: dict[str, tuple[str, bytes]] = {}
        self._tree, self._data = self.package.main_part()

    def body(self) -> MarkdownWithPictures:
        """Return the Markdown of the file, and its pictures.

        If its body has no text, its headers and footers are read.
        """
        root = self._tree.root
        blocks = [] if root is None else blocks_below(root, self, self.package.main_relations)
        found = placed((*blocks, *self._notes.rest()))
        if found.markdown.strip():
            return found
        found = placed((*blocks, *self._margins()))
        return found if found.markdown.strip() else _marked(found)

    def plain(self) -> str | None:
        """Return the nodes of the text of the body and the notes; None if there are none."""
        notes = map(self.package.related, ("footnotes", "endnotes"))
        texts = [self._plain_body(), *(plain.text_of(root) for root in notes if root is not None)]
        return "\n".join(texts) if any(map(str.strip, texts)) else None

    def _plain_body(self) -> str:
        if not self._tree.is_whole:
            return plain.text_of_damaged(self._data)
        if plain.is_simple(self._data):
            return plain.text_of_simple(self._data)
        return "" if self._tree.root is None else plain.text_of(self._tree.root)

    def title(self) -> str | None:
        """Return the title in the properties of the file; None if a program has set it."""
        title = self.package.title()
        return None if _NO_TITLE.fullmatch(title) else title

    def unread(self) -> Iterator[str]:
        """Yield a sentence for each kind of object that was left out, and for damaged parts."""
        yield from self.package.unread()
        for name, count in self._left_out.items():
            if count == 1:
                yield f"an embedded {name} was not read; save it as a file of its own and add that file"
            else:
                yield f"{count} embedded {name}s were not read; save each as a file of its own and add those files"

    def figure(self, kind: str, relation: Relation) -> list[WordBlock]:
        """Return the data of a chart or a diagram."""
        root = None if relation.external else self.package.xml(relation.target)
        if root is None:
            return []
        texts = charts.chart(root) if kind == "chart" else (drawingml.diagram(root),)
        return [WordBlock(text, "markdown") for text in texts if text]

    def alternative(self, relation: Relation) -> WordBlock | None:
        """Return the text of a part in another format."""
        data = None if relation.external else self.package.read(relation.target)
        if data is None:
            return None
        text = self._inner(data) if data.startswith(b"PK") else self._other(data)
        return WordBlock(text, "markdown") if text else None

    def embed(self, program: str, relation: Relation | None) -> None:
        """Record an object of a program; it is only named if the file does not contain it."""
        data = self.package.read(relation.target) if relation and not relation.external else None
        if data is None or relation is None:
            self.leave_out(program)
        else:
            self._embedded[relation.target] = (program, data)

    def embedded(self, attachments: Attachments | None) -> tuple[list[Part], list[str]]:
        """Return the embedded documents, and why others were not read."""
        files = list[AttachedFile]()
        for path, (program, data) in self._embedded.items():
            file = embedded_file(path, data, _known(program)) if attachments else None
            if file:
                files.append(file)
            else:
                self.leave_out(program)
        return attachments.read(files, 1, "embedded file") if attachments else ([], [])

    def leave_out(self, program: str) -> None:
        """Record an object of a program that is not read."""
        if known := _known(program):
            self._left_out[known] = self._left_out.get(known, 0) + 1

    def _other(self, data: bytes) -> str:
        try:
            return alternatives.markdown_of(data)
        except Unreadable:
            self.leave_out("package")
            return ""

    def _inner(self, data: bytes) -> str:
        if self._depth >= MOST_NESTED:
            self.leave_out("word")
            return ""
        try:
            inner = _WordDocument(data, self._depth + 1)
            text = inner.body().markdown
        except Unreadable:
            self.leave_out("word")
            return ""
        for name, count in inner._left_out.items():
            self._left_out[name] = self._left_out.get(name, 0) + count
        self._embedded |= {f"{len(self._embedded)}/{path}": found for path, found in inner._embedded.items()}
        return text

    def _note_blocks(self, element: Element, part: str) -> list[WordBlock]:
        name = next(iter(self.package.related_names(part)), "")
        return blocks_below(element, self, self.package.relations(name))

    def _margins(self) -> Iterable[WordBlock]:
        for kind in ("header", "footer"):
            for name in self.package.related_names(kind):
                root = self.package.xml(name)
                if root is not None:
                    yield from blocks_below(root, self, self.package.relations(name))
