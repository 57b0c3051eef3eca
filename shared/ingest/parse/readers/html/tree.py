"""The Markdown of a tree of HTML. The tree is walked without recursion, however deep it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass

from lxml import etree

from shared.ingest.parse.readers.html import inline
from shared.ingest.parse.readers.html.code import fenced, language_of, preformatted
from shared.ingest.parse.readers.html.elements import BLOCKS, UNSEEN, hidden_below, names
from shared.ingest.parse.readers.html.frames import Frame, FrameKind, add_cell, folded, joined
from shared.ingest.parse.readers.html.numbers import marker, set_number
from shared.ingest.parse.readers.html.tables import HtmlBlock, HtmlRow
from shared.ingest.parse.readers.xml_tree import Element

MAX_FRAMES = 40
"""Lists, quotations and tables that are nested deeper lose their markup, because each level copies its text."""

_FRAMES: dict[str, FrameKind] = {
    **dict.fromkeys(("ul", "ol", "menu", "dir"), "list"),
    **dict.fromkeys(("td", "th"), "cell"),
    **dict.fromkeys(("h1", "h2", "h3", "h4", "h5", "h6"), "heading"),
    "li": "item",
    "blockquote": "quote",
    "table": "table",
    "caption": "caption",
    "dt": "term",
    "dd": "definition",
}
_MARKS = {
    **dict.fromkeys(("b", "strong", "summary"), inline.STRONG),
    **dict.fromkeys(("code", "tt", "samp"), inline.CODE),
    **dict.fromkeys(("del", "s", "strike"), inline.DELETED),
    "sup": inline.RAISED,
    "q": ("\u201c", "\u201d"),
    **dict.fromkeys(("mi", "mn", "mo", "mtext", "ms"), (" ", " ")),
}
_FIELDS_WITH_TEXT = names("text search url tel email number date month week time datetime-local submit button reset")
_SENTENCE_CHARS = 20
"""A shorter alternative text may be a value, such as `yes` in a table, which another row has, too."""

_FILE_NAME = re.compile(r"[\w .()-]{1,80}\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?|avif|ico)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Elements of a name.

    Args:
        is_unseen: whether their content is not read.
        is_block: whether they end the line before them.
        mark: marks at their start and end.
        frame: the form that they have in Markdown.
    """

    is_unseen: bool
    is_block: bool
    mark: tuple[str, str] | None
    frame: FrameKind | None


_KINDS = {
    name: _Kind(name in UNSEEN, name in BLOCKS and name != "br", _MARKS.get(name), _FRAMES.get(name))
    for name in (*UNSEEN, *BLOCKS, *_FRAMES, *_MARKS, "a", "img", "input", "select", "textarea")
}
"""All kinds of elements that are more than the text in them."""


def markdown_of_tree(root: Element, paragraphs: Collection[str] = ()) -> str:
    """Return the text of a tree of HTML as Markdown.

    Args:
        root: the tree.
        paragraphs: its paragraphs, which alternative texts of pictures do not repeat: a card of a list of articles
            often has its headline twice.
    """
    page = _Page(hidden_below(root), paragraphs)
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        tag = element.tag
        kind = _KINDS.get(tag)
        if event == "end":
            if kind:
                page.end(element, tag, kind)
            text = element.tail
        elif page.start(element, tag, kind):
            text = element.text
        else:
            walker.skip_subtree()
            continue
        if text:
            page.line.append(text)
    return page.markdown()


class _Page:
    """Collects the blocks of a page. `line` has the pieces of the current line."""

    def __init__(self, hidden: Collection[Element], paragraphs: Collection[str]) -> None:
        self._hidden = hidden
        self._paragraphs = paragraphs
        self.line: list[str] = []
        self._frames = [Frame("page")]
        self._special: dict[str, Callable[[Element], bool]] = {
            "br": self._break,
            "img": self._picture,
            "input": self._field,
            "select": self._choice,
            **dict.fromkeys(("pre", "listing", "xmp"), self._code),
            "tr": self._row,
            "thead": self._head,
        }

    def markdown(self) -> str:
        """Return the text of all blocks."""
        while len(self._frames) > 1:
            self._close()
        if self.line:
            self._flush()
        return joined(self._frames[0].blocks)

    def start(self, element: Element, tag: str, kind: _Kind | None) -> bool:
        """Open an element; return whether its content is read."""
        if self._hidden and element in self._hidden:
            return False
        if kind is None:
            return True
        if kind.is_unseen:
            return False
        if kind.is_block and self.line:
            self._flush()
        if kind.mark:
            self.line.append(kind.mark[0])
        if kind.frame and len(self._frames) < MAX_FRAMES:
            self._open(kind.frame, element, tag)
        special = self._special.get(tag)
        return special(element) if special else True

    def end(self, element: Element, tag: str, kind: _Kind) -> None:
        """Close an element."""
        if kind.is_unseen:
            return
        if kind.mark:
            self.line.append(kind.mark[1])
        if kind.frame and self._frames[-1].element is element:
            self._close()
            return
        if kind.is_block and self.line:
            self._flush()
        if tag == "a":
            self._address(element)
        elif tag == "thead":
            self._frames[-1].in_head = False
        elif tag == "textarea":
            self.line.append(" ")

    def _open(self, kind: FrameKind, element: Element, tag: str) -> None:
        above = self._frames[-1]
        frame = Frame(kind, element)
        if kind in ("cell", "caption") and above.kind != "table":
            return
        if kind == "list" and tag == "ol":
            set_number(frame, element)
        elif kind == "list":
            frame.style = "bullet"
        elif kind == "item":
            frame.marker = marker(above, element)
        elif kind == "heading":
            frame.number = int(tag[1])
        self._frames.append(frame)

    def _close(self) -> None:
        if self.line:
            self._flush()
        frame = self._frames.pop()
        above = self._frames[-1]
        if frame.kind == "cell":
            add_cell(above, frame)
        else:
            above.blocks += folded(frame, above)

    def _flush(self) -> None:
        """End the current line, which has pieces."""
        pieces, self.line = self.line, []
        if len(pieces) == 1 and pieces[0].isspace():
            return
        blocks = self._frames[-1].blocks
        for text in inline.paragraphs(pieces):
            blocks.append(HtmlBlock("text", text))

    def _break(self, _: Element) -> bool:
        self.line.append(inline.BREAK)
        return False

    def _row(self, _: Element) -> bool:
        frame = self._frames[-1]
        if frame.kind == "table":
            frame.rows.append(HtmlRow(frame.in_head))
        return True

    def _head(self, _: Element) -> bool:
        self._frames[-1].in_head = True
        return True

    def _picture(self, element: Element) -> bool:
        alt = " ".join((element.get("alt") or "").split())
        if alt and not alt.startswith("data:") and not _FILE_NAME.fullmatch(alt) and not self._repeats(alt):
            self.line.append(f" {alt} ")
        return False

    def _repeats(self, alt: str) -> bool:
        return len(alt) >= _SENTENCE_CHARS and alt in self._paragraphs

    def _field(self, element: Element) -> bool:
        kind = (element.get("type") or "text").lower()
        if kind in ("checkbox", "radio"):
            self.line.append(" [x] " if element.get("checked") is not None else " [ ] ")
        elif kind in _FIELDS_WITH_TEXT:
            self.line.append(f" {element.get('value') or ''} ")
        return False

    def _choice(self, element: Element) -> bool:
        options = (" ".join("".join(option.itertext()).split()) for option in element.iter("option"))
        self.line.append(f" {', '.join(option for option in options if option)} ")
        return False

    def _code(self, element: Element) -> bool:
        text = preformatted(element)
        if text.strip():
            self._frames[-1].blocks.append(HtmlBlock("code", fenced(text, language_of(element))))
        return False

    def _address(self, element: Element) -> None:
        target = element.get("href") or ""
        if target[:7].lower() == "mailto:":
            address = target[7:].partition("?")[0]
            if address and address not in "".join(element.itertext()):
                self.line.append(f" ({address})")
