"""The text of OpenDocument's elements (ODF 1.3 part 3, sections 5 to 10), as blocks of Markdown."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from lxml import etree

from shared.ingest.parse.readers.markdown import as_paragraph, one_line
from shared.ingest.parse.readers.odf.forms import controls
from shared.ingest.parse.readers.odf.lists import Lists, OdfBlock
from shared.ingest.parse.readers.odf.names import MOST_KEYS, REPEATED, SKIPPED, is_between_paragraphs, key_of
from shared.ingest.parse.readers.odf.styles import OdfStyles, attribute
from shared.ingest.parse.readers.odf.tables import OdfTable
from shared.ingest.parse.readers.office.drawingml import number_of
from shared.ingest.parse.readers.office.mathml import formula
from shared.ingest.parse.readers.xml_tree import Element, local_name

_SPACES = re.compile(r"[ \t\r\n]+")
_MOST_SPACES = 40
_LOWEST_HEADING = 6
_MOST_NESTED = 3
"""Documents inside documents that are read."""

_ADDRESS = re.compile(r"(?:https?://|mailto:)[^\s()<>]{1,2000}")


@dataclass(slots=True)
class Content:
    """A document, as far as its elements refer to it.

    Args:
        styles: its styles.
        part: returns the root of a part of the file.
        depth: number of documents around it.
        controls: texts of its form's controls by their ids.
        seen: paths of the objects that were read.
    """

    styles: OdfStyles
    part: Callable[[str], Element | None]
    depth: int = 0
    controls: dict[str, str] = field(default_factory=dict)
    seen: set[str] = field(default_factory=set)


def joined(blocks: Iterable[OdfBlock]) -> str:
    """Return blocks as one Markdown text."""
    parts, before = list[str](), ""
    for kind, text in blocks:
        if text.strip():
            parts += ("\n" if kind == before == "item" else "\n\n", text)
        if text.strip() or kind == "end":
            before = kind
    return "".join(parts[1:])


@dataclass(frozen=True, slots=True)
class _Handlers:
    """Handlers of a kind of elements.

    Args:
        start: is called at its start.
        end: is called at its end.
        is_gate: whether it is between paragraphs, even if it is inside one.
        is_closed: whether its content is not read with the text around it.
        is_frame: whether its class may say that it is left out.
    """

    start: Callable[[Element], None] | None
    end: Callable[[Element], None] | None
    is_gate: bool
    is_closed: bool
    is_frame: bool


class OdfFlow:
    """Reads elements in their order, without recursion.

    Args:
        content: the document.
    """

    def __init__(self, content: Content) -> None:
        self.blocks: list[OdfBlock] = []
        self._content = content
        # The blocks of the document, then of each open paragraph (they follow it), cell or note.
        self._targets = [self.blocks]
        # The texts of the open paragraph; None between paragraphs, because spaces do not count there.
        self._open: list[list[str] | None] = [None]
        self._lists = Lists(content.styles)
        self._tables: list[OdfTable] = []
        self._links: list[int] = []
        self._handlers: dict[str, _Handlers] = {}
        self._starts = self._start_handlers()
        self._ends = self._end_handlers()

    def read(self, element: Element) -> None:
        """Read an element and everything in it; `blocks` has the result."""
        opened, known = self._open, self._handlers
        walk = etree.iterwalk(element, events=("start", "end"))
        for event, node in walk:
            handlers = known.get(node.tag) or self._handlers_of(node)
            if event == "start":
                if handlers.start:
                    handlers.start(node)
                if handlers.is_gate:
                    opened.append(None)
                if handlers.is_closed or (handlers.is_frame and attribute(node, "class") in REPEATED):
                    walk.skip_subtree()
                    continue
                text = node.text
            else:
                if handlers.is_gate:
                    opened.pop()
                elif handlers.end:
                    handlers.end(node)
                text = node.tail if node is not element else None
            if text and (texts := opened[-1]) is not None:
                texts.append(text if text.isprintable() and "  " not in text else _SPACES.sub(" ", text))

    def _handlers_of(self, node: Element) -> _Handlers:
        """Return the handlers of elements with this tag, which are kept, because their names are slow to compare."""
        key = key_of(node)
        handlers = _Handlers(
            self._starts.get(key),
            self._ends.get(key),
            is_gate=is_between_paragraphs(key) or key in SKIPPED,
            is_closed=key in SKIPPED or key == "draw:object",
            is_frame=key == "draw:frame",
        )
        if len(self._handlers) < MOST_KEYS:
            self._handlers[node.tag] = handlers
        return handlers

    def _start_handlers(self) -> Mapping[str, Callable[[Element], None]]:
        return {
            "text:p": self._start_paragraph,
            "text:h": self._start_paragraph,
            "svg:title": self._start_paragraph,
            "svg:desc": self._start_paragraph,
            "text:list": self._lists.start,
            "text:list-item": self._lists.start_item,
            "text:list-header": self._lists.start_item,
            "text:numbered-paragraph": self._lists.start_numbered,
            "table:table": self._start_table,
            "table:table-row": self._start_row,
            "table:table-cell": self._enter,
            "table:covered-table-cell": self._enter,
            "text:note": self._start_note,
            "office:annotation": self._enter,
            "office:forms": self._start_forms,
            "text:s": self._spaces,
            "text:tab": self._spaces,
            "text:line-break": self._line_break,
            "text:ruby-text": self._start_ruby,
            "text:a": self._start_link,
            "draw:object": self._object,
            "draw:control": self._control,
        }

    def _end_handlers(self) -> Mapping[str, Callable[[Element], None]]:
        return {
            "text:p": self._end_paragraph,
            "text:h": self._end_paragraph,
            "svg:title": self._end_description,
            "svg:desc": self._end_description,
            "text:list": self._end_list,
            "text:numbered-paragraph": self._end_list,
            "table:table": self._end_table,
            "table:table-row": self._end_row,
            "table:table-cell": self._end_cell,
            "table:covered-table-cell": self._end_cell,
            "text:note": self._end_note,
            "office:annotation": self._end_comment,
            "text:ruby-text": self._end_ruby,
            "text:a": self._end_link,
        }

    def _add(self, text: str) -> None:
        """Add text to the open paragraph, if there is one."""
        if text and (texts := self._open[-1]) is not None:
            texts.append(text)

    def _emit(self, block: OdfBlock) -> None:
        self._targets[-1].append(block)

    # Paragraphs and headings

    def _start_paragraph(self, _: Element) -> None:
        self._open.append([])
        self._targets.append([])

    def _end_paragraph(self, node: Element) -> None:
        text, after = self._closed()
        if text:
            self._emit(self._block(node, text))
        self._targets[-1] += after

    def _end_description(self, _: Element) -> None:
        text, after = self._closed()
        self._targets[-1] += [("text", as_paragraph(one_line(text))), *after]

    def _closed(self) -> tuple[str, list[OdfBlock]]:
        """Close a paragraph, and return its text and the blocks of its frames and notes."""
        texts = self._open.pop() or []
        text = "".join(texts).strip()
        if "\n" in text:
            text = "\n".join(line.strip() for line in text.split("\n"))
        return text, self._targets.pop()

    def _block(self, node: Element, text: str) -> OdfBlock:
        style = attribute(node, "style-name") or ""
        level = self._level(node, style)
        if level:
            label = self._lists.label(style) if self._lists.is_open else self._lists.heading_number(node, style, level)
            return "heading", f"{'#' * level} {one_line(f'{label} {text}')}".rstrip()
        return self._lists.item(text, style) if self._lists.is_open else ("text", as_paragraph(text))

    def _level(self, node: Element, style: str) -> int:
        """Return the level of a heading; 0 for a paragraph, and for all text in tables, notes and frames."""
        if len(self._targets) > 1:
            return 0
        if local_name(node) == "h":
            return min(max(number_of(attribute(node, "outline-level"), 1), 1), _LOWEST_HEADING)
        return 1 if self._content.styles.is_title(style) and not self._lists.is_open else 0

    def _end_list(self, _: Element) -> None:
        self._lists.end()
        if not self._lists.is_open:
            self._emit(("end", ""))

    # Tables

    def _start_table(self, _: Element) -> None:
        self._tables.append(OdfTable())

    def _start_row(self, _: Element) -> None:
        if self._tables:
            self._tables[-1].start_row()

    def _end_row(self, node: Element) -> None:
        if self._tables:
            self._tables[-1].end_row(node)

    def _end_cell(self, node: Element) -> None:
        blocks = self._leave()
        if self._tables:
            self._tables[-1].add(node, blocks)

    def _end_table(self, _: Element) -> None:
        table = self._tables.pop()
        if table.is_frame:
            self._targets[-1] += table.blocks
        elif self._tables:
            self._emit(("text", table.text()))
        else:
            self._emit(("table", table.markdown()))

    # Notes, comments and cells: text with its own blocks

    def _enter(self, _: Element) -> None:
        self._targets.append([])
        self._open.append(None)
        self._lists.enter()

    def _leave(self) -> list[OdfBlock]:
        self._lists.leave()
        self._open.pop()
        return self._targets.pop()

    def _start_note(self, node: Element) -> None:
        self._add(f"[^{_citation(node)}]")
        self._enter(node)

    def _end_note(self, node: Element) -> None:
        text = one_line(" ".join(text for _, text in self._leave()))
        self._emit(("text", f"[^{_citation(node)}]: {text}"))

    def _end_comment(self, node: Element) -> None:
        author = one_line(node.findtext("{*}creator") or "")
        text = one_line(" ".join(text for _, text in self._leave()))
        if text:
            self._emit(("text", f"Comment by {author}: {text}" if author else f"Comment: {text}"))

    # Parts of a paragraph

    def _spaces(self, node: Element) -> None:
        self._add(" " * min(number_of(attribute(node, "c"), 1), _MOST_SPACES))

    def _line_break(self, _: Element) -> None:
        self._add("\n")

    def _start_ruby(self, _: Element) -> None:
        self._add(" (")

    def _end_ruby(self, _: Element) -> None:
        self._add(")")

    def _start_link(self, _: Element) -> None:
        self._links.append(len(self._open[-1] or ()))

    def _end_link(self, node: Element) -> None:
        start, texts, address = self._links.pop(), self._open[-1], attribute(node, "href") or ""
        if texts is None or not _ADDRESS.fullmatch(address):
            return
        shown = "".join(texts[start:])
        if shown.strip() and shown.strip().rstrip("/") != address.removeprefix("mailto:").rstrip("/"):
            texts[start:] = [f"[{shown}]({address})"]

    # Objects

    def _start_forms(self, node: Element) -> None:
        self._content.controls.update(controls(node))

    def _control(self, node: Element) -> None:
        text = self._content.controls.get(attribute(node, "control") or "", "")
        if self._open[-1] is None and text:
            self._emit(("text", as_paragraph(text)))
        self._add(f" {text} ")

    def _object(self, node: Element) -> None:
        """Read an embedded formula, chart, table or text."""
        path = (attribute(node, "href") or "").removeprefix("./").strip("/")
        root = next((child for child in node if local_name(child) in ("math", "document")), None)
        if root is None and path and path not in self._content.seen:
            self._content.seen.add(path)
            root = self._content.part(f"{path}/content.xml")
        if root is None:
            return
        if local_name(root) != "math":
            self._targets[-1] += _embedded(root, self._content)
            return
        texts = self._open[-2] if len(self._open) > 1 else None
        if texts is None:
            self._emit(("text", as_paragraph(formula(root))))
        else:
            texts.append(f" {formula(root)} ")


def _citation(note: Element) -> str:
    return one_line(note.findtext("{*}note-citation") or "") or "*"


def _embedded(root: Element, around: Content) -> list[OdfBlock]:
    if around.depth >= _MOST_NESTED:
        return []
    flow = OdfFlow(Content(OdfStyles(root), around.part, around.depth + 1, seen=around.seen))
    body = root.find("{*}body")
    flow.read(root if body is None else body)
    is_chart = body is not None and body.find("{*}chart") is not None
    if is_chart and flow.blocks and flow.blocks[0][0] == "text":
        flow.blocks[0] = ("text", f"Chart: {flow.blocks[0][1]}")
    return flow.blocks
