"""Reader of PowerPoint files (pptx, ppsx, potx): PresentationML of ECMA-376 part 1, section 19.

One part for each slide, hidden ones included, with its notes, comments, charts and diagrams, and one for each document
that is embedded in it. Not read: pictures and sounds. Texts of masters are read once.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from lxml import etree

from shared.ingest.parse.readers.attachments import AttachedFile, Attachments, summed
from shared.ingest.parse.readers.markdown import as_paragraph, one_line
from shared.ingest.parse.readers.office.charts import chart
from shared.ingest.parse.readers.office.drawingml import Links, TextBody, chosen, diagram, number_of, table
from shared.ingest.parse.readers.office.embedded import embedded_file
from shared.ingest.parse.readers.office.package import Package, relation_id
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.slides.designs import (
    Design,
    box_of,
    design_of,
    placeholder,
    placeholder_index,
    shows_master,
)
from shared.ingest.parse.readers.slides.placement import Box, in_reading_order
from shared.ingest.parse.readers.stated_titles import stated_title
from shared.ingest.parse.readers.xml_tree import Element, local_name

_KIND = "PowerPoint presentation"
_EMBEDDED_LEVEL = 3  # below the headings of slides
_TITLES = ("title", "ctrTitle")
_REPEATED = ("dt", "sldNum", "ftr", "hdr", "sldImg")
"""Placeholders that people do not read as text of the slide: its date, number, footer and header. A footer's text is
part of the first slide that shows it."""

_NO_DESCRIPTION = re.compile(r"(?i).*\.(png|jpe?g|gif|emf|wmf|svg|tiff?|bmp)|(picture|image|grafik|bild|photo) ?\d*")
_DOCUMENT = re.compile(r"(?i).*\.(docx?|docm|xlsx?|xlsm|xlsb|pptx?|pptm|sldx|pdf|od[tsp])")
_WRITTEN_BY_PROGRAM = re.compile(
    r"(?i)\s*(description automatically generated|automatisch generierte beschreibung).*", re.DOTALL
)


def read(content: bytes, attachments: Attachments | None = None) -> FileReading:
    """Return a presentation's slides in their order, hidden ones included, each with the documents in it.

    Args:
        content: content of the file.
        attachments: the readers of embedded documents; None if these are only named.

    Raises:
        Unreadable: the file is damaged or protected with a password.
    """
    package = Package(content, _KIND)
    main = package.target("", "officeDocument") or "ppt/presentation.xml"
    presentation = package.xml(main)
    paths = list(_slides(package, main, presentation))
    first = number_of(presentation.get("firstSlideNum"), 1) if presentation is not None else 1
    parts, unread, designs, footers = list[Part](), list[str](), dict[str, Design](), set[str]()
    authors = dict(_authors(package, main))
    for number, path in enumerate(paths, start=first):
        location = f"slide {number}"
        root = package.xml(path) if path else None
        if root is None and path and (text := package.lost(path)):
            parts.append(Part("", text, location, max(number, 1)))
            continue
        if root is None:
            unread.append(f"{location} is missing in the file or damaged; save it in PowerPoint again")
            parts.append(Part("", None, location, max(number, 1)))
            continue
        slide = _PptxSlide(package, path, root, authors, designs)
        parts.append(Part(slide.markdown(footers), slide.plain(), location, max(number, 1)))
        embedded, problems = slide.embedded(location, attachments)
        parts += (replace(part, number=max(number, 1)) for part in embedded)
        unread += problems
    title = stated_title(package.title())
    return FileReading(tuple(parts), title, summed([*package.unread(), *unread]), apart=True)


def _slides(package: Package, main: str, presentation: Element | None) -> Iterator[str]:
    """Yield the paths of the slides in their order; empty for a slide that the file does not name.

    If it names none, the slides are read in the order of their numbers.
    """
    entries = [] if presentation is None else presentation.findall("{*}sldIdLst/{*}sldId")
    relations = package.relations(main)
    named = [relations.get(relation_id(entry)) for entry in entries]
    if any(named):
        yield from (relation.target if relation else "" for relation in named)
        return
    numbered = ((re.fullmatch(r"ppt/slides/slide(\d{1,6})\.xml", name), name) for name in package.names)
    yield from (name for _, name in sorted((int(match[1]), name) for match, name in numbered if match))


def _authors(package: Package, main: str) -> Iterator[tuple[str, str]]:
    """Yield the ids and names of the authors of comments."""
    for path in (*package.targets(main, "commentAuthors"), *package.targets(main, "authors")):
        root = package.xml(path)
        for author in () if root is None else root.iter("{*}cmAuthor", "{*}author"):
            yield author.get("id", ""), author.get("name", "")


class _PptxSlide:
    """A slide with the parts that belong to it."""

    def __init__(
        self,
        package: Package,
        path: str,
        root: Element,
        authors: Mapping[str, str],
        designs: dict[str, Design],
    ) -> None:
        self._package = package
        self._path = path
        self._root = root
        self._authors = authors
        self._design = design_of(package, path, designs)
        self._notes = [
            (found, note) for found in package.targets(path, "notesSlide") if (note := package.xml(found)) is not None
        ]
        self._comments = [
            comments for found in package.targets(path, "comments") if (comments := package.xml(found)) is not None
        ]
        self._graphics: list[Element] = []

    def markdown(self, footers: set[str]) -> str:
        """Return the slide: title, texts in the order of reading, new footers, notes, comments.

        Args:
            footers: texts of footers and masters on earlier slides; new ones are added.
        """
        blocks = list(_Shapes(self, self._path, self._root).blocks())
        repeated = dict.fromkeys((*_footers(self._root), *self._design.texts(shown=shows_master(self._root))))
        blocks += (text for text in repeated if text not in footers)
        footers.update(repeated)
        for path, note in self._notes:
            noted = [block for block in _Shapes(self, path, note).blocks() if block.strip()]
            blocks += _labelled("Speaker notes:", noted)
        for comments in self._comments:
            blocks += (f"{label} {text}" for label, text in self._remarks(comments) if text)
        return "\n\n".join(block for block in blocks if block.strip())

    def plain(self) -> str:
        """Return the same texts from the elements with text alone, without regard to shapes, order or lists."""
        if lost := self._package.lost(self._path):
            return lost
        roots = [self._root, *(note for _, note in self._notes), *self._comments, *self._graphics]
        return "\n".join(line for root in roots for line in _lines(root))

    def embedded(self, location: str, attachments: Attachments | None) -> tuple[list[Part], list[str]]:
        """Return the documents inside the slide, and sentences for documents that were not read."""
        files, unread = list[AttachedFile](), list[str]()
        for path in (path for kind in ("package", "oleObject") for path in self._package.targets(self._path, kind)):
            data = self._package.read(path) if attachments else None
            if data and (file := embedded_file(path, data)):
                files.append(file)
            elif _DOCUMENT.fullmatch(name := posixpath.basename(path)):
                unread.append(f"{location} contains the file {name}, which was not read; add it as a file of its own")
        parts, problems = attachments.read(files, _EMBEDDED_LEVEL, "embedded file") if attachments else ([], [])
        return parts, [*unread, *problems]

    def links(self, path: str) -> Links:
        relations = self._package.relations(path)

        def address(key: str) -> str | None:
            relation = relations.get(key)
            outside = relation and relation.external and relation.target.startswith(("http://", "https://", "mailto:"))
            return relation.target if relation and outside else None

        return address

    def inherited(self, kind: str, index: str) -> list[Element]:
        return list(self._design.inherited(kind, index))

    def style(self, kind: str | None) -> Element | None:
        return self._design.style(kind)

    def graphic(self, path: str, key: str) -> Element | None:
        """Return the chart or diagram with this relationship."""
        relation = self._package.relations(path).get(key)
        root = self._package.xml(relation.target) if relation and not relation.external else None
        if root is None or relation is None:
            return None
        self._graphics.append(root)
        for found in self._package.targets(relation.target, "chartUserShapes"):
            if (shapes := self._package.xml(found)) is not None:
                root.append(shapes)
        return root

    def _remarks(self, comments: Element) -> Iterator[tuple[str, str]]:
        for remark in comments.iter("{*}cm", "{*}reply"):
            name = self._authors.get(remark.get("authorId", ""), "")
            kind = "Reply" if local_name(remark) == "reply" or remark.find(".//{*}parentCm") is not None else "Comment"
            old, body = remark.find("{*}text"), remark.find("{*}txBody")
            text = (old.text or "") if old is not None else TextBody(body).line() if body is not None else ""
            yield f"{kind} by {name}:" if name else f"{kind}:", one_line(text)


def _labelled(label: str, blocks: Sequence[str]) -> Iterator[str]:
    if blocks:
        first, *others = blocks
        is_text = first[:1] not in "-|" and not re.match(r"\d+[.)] ", first)
        yield from ((f"{label} {first}", *others) if is_text else (label, *blocks))


class _Shapes:
    """The shapes of a slide or of its notes."""

    def __init__(self, slide: _PptxSlide, path: str, root: Element) -> None:
        self._slide = slide
        self._path = path
        self._root = root
        self._is_notes = local_name(root) == "notes"
        self._links = slide.links(path)
        self._title: str | None = None

    def blocks(self) -> Iterator[str]:
        """Yield the title, then the texts in the order of reading."""
        tree = self._root.find(".//{*}spTree")
        texts = list(self._ordered(tree)) if tree is not None else []
        if self._title:
            yield f"## {self._title}"
        yield from texts

    def _ordered(self, tree: Element) -> Iterable[str]:
        """Return the blocks of all shapes; the shapes of a group stay together."""
        groups: list[list[tuple[list[str], Box | None]]] = [[]]
        waiting: list[Element | None] = list(reversed(tree))
        boxes: list[Box | None] = []
        while waiting:
            shape = waiting.pop()
            name = local_name(shape) if shape is not None else ""
            if shape is None:
                texts = [text for member in in_reading_order(groups.pop()) for text in member]
                groups[-1].append((texts, boxes.pop()))
            elif name == "grpSp":
                groups.append([])
                boxes.append(box_of(shape))
                waiting += [None, *reversed(shape)]
            elif name in ("AlternateContent", "Choice", "Fallback"):
                waiting += reversed(chosen(shape) if name == "AlternateContent" else shape)
            elif texts := [text for text in self._texts(shape, name) if text.strip()]:
                groups[-1].append((texts, self._position(shape)))
        return [text for member in in_reading_order(groups[0]) for text in member]

    def _texts(self, shape: Element, name: str) -> Iterable[str]:
        if name == "graphicFrame":
            return self._graphic(shape)
        kind = placeholder(shape)
        if kind in _REPEATED:
            return ()
        body = shape.find("{*}txBody")
        if body is None:
            return _description(shape) if name == "pic" else self._other(shape)
        if kind in _TITLES and self._title is None and not self._is_notes:
            self._title = TextBody(body).line()
            return ()
        styles = self._styles(shape, body, kind)
        return TextBody(body, styles, self._links).blocks()

    def _other(self, shape: Element) -> Iterator[str]:
        """Yield the texts of an element that newer programs may add."""
        for body in shape.iter("{*}txBody"):
            yield from TextBody(body, links=self._links).blocks()

    def _styles(self, shape: Element, body: Element, kind: str | None) -> list[Element]:
        bodies = [body]
        if kind and not self._is_notes:
            found = (each.find("{*}txBody") for each in self._slide.inherited(kind, placeholder_index(shape)))
            bodies += [each for each in found if each is not None]
        styles = [each.find("{*}lstStyle") for each in bodies]
        if not self._is_notes:
            styles.append(self._slide.style(kind))
        return [style for style in styles if style is not None]

    def _graphic(self, frame: Element) -> Iterator[str]:
        data = frame.find("{*}graphic/{*}graphicData")
        for each in () if data is None else data.iter():
            name = local_name(each)
            if name == "tbl":
                yield table(each, self._links)
            elif name == "chart" and (space := self._slide.graphic(self._path, relation_id(each))) is not None:
                yield from chart(space)
            elif name == "relIds":
                model = self._slide.graphic(self._path, relation_id(each, "dm"))
                if model is not None:
                    yield diagram(model)

    def _position(self, shape: Element) -> Box | None:
        box, kind = box_of(shape), placeholder(shape)
        if box is None and kind:
            boxes = (box_of(each) for each in self._slide.inherited(kind, placeholder_index(shape)))
            box = next((each for each in boxes if each), None)
        return box


def _description(picture: Element) -> Iterator[str]:
    """Yield the alternative text of a picture, unless it is a file's name."""
    named = picture.find("./*/{*}cNvPr")
    text = one_line(_WRITTEN_BY_PROGRAM.sub("", (named.get("descr") if named is not None else "") or ""))
    if text and not _NO_DESCRIPTION.fullmatch(text):
        yield as_paragraph(f"Picture: {text}")


def _footers(root: Element) -> Iterator[str]:
    for shape in root.iter("{*}sp"):
        body = shape.find("{*}txBody")
        if body is not None and placeholder(shape) == "ftr" and (text := TextBody(body).line()):
            yield as_paragraph(text)


def _lines(root: Element) -> Iterator[str]:
    """Yield the text of each paragraph below an element, without alternatives that are not shown."""
    walk = etree.iterwalk(root, events=("start",))
    for _, node in walk:
        name = local_name(node)
        skipped = name == "Fallback" and node.getparent().find("{*}Choice") is not None
        if (
            skipped
            or (name == "sp" and placeholder(node) in _REPEATED)
            or (name == "pt" and node.get("type") == "pres")
        ):
            walk.skip_subtree()
        elif name == "p":
            yield "".join(_pieces(node))
        elif name == "text":
            yield node.text or ""
    texts = root.iterfind(".//{*}strCache/{*}pt/{*}v")
    yield from dict.fromkeys(value.text or "" for value in texts)  # each series repeats the categories


def _pieces(paragraph: Element) -> Iterator[str]:
    """Yield the texts of a paragraph. The runs of a formula are words if they are in different elements of it."""
    before = None
    for node in paragraph.iter("{*}t", "{*}br"):
        above = node.getparent()
        holder = above.getparent() if above is not None else None
        yield " " if holder is not before and paragraph not in (holder, before) else ""
        yield " " if local_name(node) == "br" else node.text or ""
        before = holder
