"""The Markdown of a tree of HTML. The tree is walked without recursion, however deep it is."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from lxml import etree

from shared.ingest.parse.readers.html import inline
from shared.ingest.parse.readers.html.tables import HtmlBlock, HtmlCell, HtmlRow, table_blocks, value
from shared.ingest.parse.readers.numerals import numeral

MAX_FRAMES = 40
"""Lists, quotations and tables that are nested deeper lose their markup, because each level copies its text."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


UNSEEN = _names("script style template noscript title svg iframe noembed datalist annotation annotation-xml")
"""Elements whose content is never shown."""

BLOCKS = _names(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure"
    " footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main menu nav ol optgroup p"
    " pre search section summary table tbody td tfoot th thead tr ul xmp"
)
"""Elements that end the line before them and their own last line."""

FrameKind = Literal["page", "list", "item", "quote", "table", "cell", "caption", "term", "definition", "heading"]

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
_KNOWN = BLOCKS | _FRAMES.keys() | _MARKS.keys() | {"a", "img", "input", "select", "textarea"}
_FIELDS_WITH_TEXT = _names("text search url tel email number date month week time datetime-local submit button reset")
_MAY_HIDE = etree.XPath("descendant-or-self::*[@hidden or @style]")
_HIDING = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)
_FILE_NAME = re.compile(r"[\w .()-]{1,80}\.(?:png|jpe?g|gif|svg|webp|bmp|tiff?|avif|ico)", re.IGNORECASE)
_LANGUAGE = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-|brush:\s*+)([\w+#.-]{1,30})")
_STYLE = re.compile(r"list-style(?:-type)?\s*+:\s*+(lower|upper)-(alpha|latin|roman)", re.IGNORECASE)
_TYPES = {"a": "lower-alpha", "A": "upper-alpha", "i": "lower-roman", "I": "upper-roman"}
_LONG_HEADING_CHARS = 400
_MAX_NUMBER = 999_999_999


def markdown_of_tree(root: etree._Element) -> str:
    """Return the text of a tree of HTML as Markdown."""
    page = _Page(_hidden_below(root))
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        tag = element.tag
        if event == "end":
            if tag in _KNOWN:
                page.end(element, tag)
            text = element.tail
        elif page.start(element, tag):
            text = element.text
        else:
            walker.skip_subtree()
            continue
        if text:
            page.line.append(text)
    return page.markdown()


@dataclass(slots=True)
class _Frame:
    """An element that collects its blocks, because it has a form of its own in Markdown."""

    kind: FrameKind
    element: etree._Element | None = None
    blocks: list[HtmlBlock] = field(default_factory=list)
    marker: str = ""  # of an item
    number: int = 1  # of the next item of a list
    step: int = 1
    style: str = ""
    rows: list[HtmlRow] = field(default_factory=list)  # of a table
    in_head: bool = False


class _Page:
    """Collects the blocks of a page. `line` has the pieces of the current line."""

    def __init__(self, hidden: Collection[etree._Element]) -> None:
        self._hidden = hidden
        self.line: list[str] = []
        self._frames = [_Frame("page")]
        self._special: dict[str, Callable[[etree._Element], bool]] = {
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
        self._flush()
        return joined(self._frames[0].blocks)

    def start(self, element: etree._Element, tag: str) -> bool:
        """Open an element; return whether its content is read."""
        if tag in UNSEEN or (self._hidden and element in self._hidden):
            return False
        if tag not in _KNOWN:
            return True
        if self.line and tag in BLOCKS and tag != "br":
            self._flush()
        if mark := _MARKS.get(tag):
            self.line.append(mark[0])
        if (kind := _FRAMES.get(tag)) and len(self._frames) < MAX_FRAMES:
            self._open(kind, element, tag)
        if special := self._special.get(tag):
            return special(element)
        return True

    def end(self, element: etree._Element, tag: str) -> None:
        """Close an element."""
        if self._frames[-1].element is element:
            if mark := _MARKS.get(tag):
                self.line.append(mark[1])
            self._close()
        else:
            self._end(element, tag)

    def _end(self, element: etree._Element, tag: str) -> None:
        if mark := _MARKS.get(tag):
            self.line.append(mark[1])
        if self.line and tag in BLOCKS and tag != "br":
            self._flush()
        if tag == "a":
            self._address(element)
        elif tag == "thead":
            self._frames[-1].in_head = False
        elif tag == "textarea":
            self.line.append(" ")

    def _open(self, kind: FrameKind, element: etree._Element, tag: str) -> None:
        above = self._frames[-1]
        frame = _Frame(kind, element)
        if kind in ("cell", "caption") and above.kind != "table":
            return
        if kind == "list" and tag == "ol":
            _number(frame, element)
        elif kind == "list":
            frame.style = "bullet"
        elif kind == "item":
            frame.marker = _marker(above, element)
        elif kind == "heading":
            frame.number = int(tag[1])
        self._frames.append(frame)

    def _close(self) -> None:
        self._flush()
        frame = self._frames.pop()
        above = self._frames[-1]
        if frame.kind == "cell":
            _add_cell(above, frame)
        else:
            above.blocks += _folded(frame, above)

    def _flush(self) -> None:
        """End the current line."""
        if not self.line:
            return
        pieces, self.line = self.line, []
        if len(pieces) == 1 and pieces[0].isspace():
            return
        blocks = self._frames[-1].blocks
        for text in inline.paragraphs(pieces):
            blocks.append(HtmlBlock("text", text))

    def _break(self, _: etree._Element) -> bool:
        self.line.append(inline.BREAK)
        return False

    def _row(self, _: etree._Element) -> bool:
        frame = self._frames[-1]
        if frame.kind == "table":
            frame.rows.append(HtmlRow(frame.in_head))
        return True

    def _head(self, _: etree._Element) -> bool:
        self._frames[-1].in_head = True
        return True

    def _picture(self, element: etree._Element) -> bool:
        alt = " ".join((element.get("alt") or "").split())
        if alt and not alt.startswith("data:") and not _FILE_NAME.fullmatch(alt):
            self.line.append(f" {alt} ")
        return False

    def _field(self, element: etree._Element) -> bool:
        kind = (element.get("type") or "text").lower()
        if kind in ("checkbox", "radio"):
            self.line.append(" [x] " if element.get("checked") is not None else " [ ] ")
        elif kind in _FIELDS_WITH_TEXT:
            self.line.append(f" {element.get('value') or ''} ")
        return False

    def _choice(self, element: etree._Element) -> bool:
        options = (" ".join("".join(option.itertext()).split()) for option in element.iter("option"))
        self.line.append(f" {', '.join(option for option in options if option)} ")
        return False

    def _code(self, element: etree._Element) -> bool:
        text = _preformatted(element)
        if text.strip():
            self._frames[-1].blocks.append(HtmlBlock("code", _fenced(text, _language(element))))
        return False

    def _address(self, element: etree._Element) -> None:
        target = element.get("href") or ""
        if target[:7].lower() == "mailto:":
            address = target[7:].partition("?")[0]
            if address and address not in "".join(element.itertext()):
                self.line.append(f" ({address})")


def joined(blocks: Iterable[HtmlBlock]) -> str:
    """Return the text of blocks."""
    return "\n\n".join(map(rendered, blocks))


def rendered(block: HtmlBlock) -> str:
    """Return the text of a block, in which no character is markup at the start of a line by accident."""
    return inline.escaped(block.text) if block.kind in ("text", "term", "entry") else block.text


def _hidden_below(root: etree._Element) -> frozenset[etree._Element]:
    """Return the elements that a page hides, found at once, because a test of each element takes longer."""
    return frozenset(filter(_is_hidden, _MAY_HIDE(root)))


def _is_hidden(element: etree._Element) -> bool:
    hidden = element.get("hidden")
    if hidden is not None and hidden.lower() != "until-found":
        return True
    style = element.get("style")
    return style is not None and _HIDING.search(style) is not None


def _add_cell(table: _Frame, frame: _Frame) -> None:
    if not table.rows:
        table.rows.append(HtmlRow(table.in_head))
    assert frame.element is not None
    columns, rows = _span(frame.element, "colspan"), _span(frame.element, "rowspan")
    table.rows[-1].cells.append(HtmlCell(frame.blocks, columns, rows, frame.element.tag == "th"))


def _span(element: etree._Element, name: str) -> int:
    stated = element.get(name)
    if stated is None:
        return 1
    text = stated.strip()
    return int(text) if text.isdecimal() and len(text) <= 5 else 1  # noqa: PLR2004 - the most that HTML permits


def _folded(frame: _Frame, above: _Frame) -> Iterable[HtmlBlock]:
    """Return the blocks of an element that ends."""
    match frame.kind:
        case "term":
            return _term(frame.blocks, above.blocks)
        case "definition":
            return _definition(frame.blocks, above.blocks)
        case kind:
            return _FOLDS[kind](frame) if kind in _FOLDS else frame.blocks


def _heading(frame: _Frame) -> list[HtmlBlock]:
    texts = [block for block in frame.blocks if block.kind == "text"]
    title = inline.title(" ".join(block.text for block in texts))
    if len(texts) < len(frame.blocks) or len(title) > _LONG_HEADING_CHARS:
        return frame.blocks
    return [HtmlBlock("heading", f"{'#' * frame.number} {title}")] if title else []


def _item(frame: _Frame) -> list[HtmlBlock]:
    """Return an item of a list; a heading or a table in it is not part of the list."""
    if any(block.kind == "heading" for block in frame.blocks):
        return frame.blocks
    own = next((at for at, block in enumerate(frame.blocks) if block.kind == "table"), len(frame.blocks))
    if not own:
        return frame.blocks
    text = ""
    for block in frame.blocks[:own]:
        gap = "" if not text else "\n" if block.kind == "list" else "\n\n"
        text += gap + rendered(block)
    return [HtmlBlock("item", frame.marker + _indented(text, " " * len(frame.marker))), *frame.blocks[own:]]


def _list(frame: _Frame) -> Iterator[HtmlBlock]:
    items = list[str]()
    for block in frame.blocks:
        if block.kind == "item":
            items.append(block.text)
        elif block.kind == "list" and items:
            items.append("  " + _indented(block.text, "  "))
        else:
            if items:
                yield HtmlBlock("list", "\n".join(items))
                items = []
            yield block
    if items:
        yield HtmlBlock("list", "\n".join(items))


def _quote(frame: _Frame) -> Iterator[HtmlBlock]:
    quoted = list[HtmlBlock]()
    for block in frame.blocks:
        if block.kind in ("heading", "table"):
            if quoted:
                yield HtmlBlock("quote", "> " + joined(quoted).replace("\n", "\n> "))
                quoted = []
            yield block
        else:
            quoted.append(block)
    if quoted:
        yield HtmlBlock("quote", "> " + joined(quoted).replace("\n", "\n> "))


def _table(frame: _Frame) -> list[HtmlBlock]:
    presentation = frame.element is not None and frame.element.get("role") in ("presentation", "none")
    return [*frame.blocks, *table_blocks(frame.rows, presentation=presentation)]


_FOLDS: dict[FrameKind, Callable[[_Frame], Iterable[HtmlBlock]]] = {
    "heading": _heading,
    "item": _item,
    "list": _list,
    "quote": _quote,
    "table": _table,
}


def _term(blocks: Sequence[HtmlBlock], above: list[HtmlBlock]) -> list[HtmlBlock]:
    text = value(blocks)
    if text and above and above[-1].kind == "term":
        text = f"{above.pop().text}\n{text}"
    return [HtmlBlock("term", text)] if text else []


def _definition(blocks: Sequence[HtmlBlock], above: list[HtmlBlock]) -> list[HtmlBlock]:
    if blocks and blocks[0].kind == "text" and above and above[-1].kind in ("term", "entry"):
        return [HtmlBlock("entry", f"{above.pop().text}\n{blocks[0].text}"), *blocks[1:]]
    return list(blocks)


def _indented(text: str, indent: str) -> str:
    if "\n" not in text:
        return text
    first, *lines = text.split("\n")
    return "\n".join((first, *(indent + line if line else line for line in lines)))


def _number(frame: _Frame, element: etree._Element) -> None:
    """Set the first number and the style of a numbered list."""
    start = _integer(element.get("start"))
    if element.get("reversed") is not None:
        frame.step = -1
        frame.number = sum(1 for _ in element.iterchildren("li")) if start is None else start
    else:
        frame.number = 1 if start is None else start
    style = _STYLE.search(element.get("style") or "")
    frame.style = f"{style[1]}-{style[2]}".lower() if style else _TYPES.get(element.get("type") or "", "")


def _marker(above: _Frame, element: etree._Element) -> str:
    """Return the marker of the next item of a list."""
    if above.kind != "list" or above.style == "bullet":
        return "- "
    stated = _integer(element.get("value"))
    number = above.number if stated is None else stated
    above.number = number + above.step
    case, _, letters = above.style.partition("-")
    text = str(number)
    if letters == "roman" and 0 < number < 4000:  # noqa: PLR2004 - larger ones have no Roman number
        text = numeral(number, "i")
    elif letters and letters != "roman" and number > 0:
        text = _letters(number)
    return f"{text.upper() if case == 'upper' else text}. "


def _integer(text: str | None) -> int | None:
    try:
        number = int(text or "")
    except ValueError:
        return None
    return number if abs(number) <= _MAX_NUMBER else None


def _letters(number: int) -> str:
    text = ""
    while number:
        number, letter = divmod(number - 1, 26)
        text = chr(ord("a") + letter) + text
    return text


def _preformatted(element: etree._Element) -> str:
    """Return the text of a `pre`, with its line ends."""
    pieces = list[str]()
    walker = etree.iterwalk(element, events=("start", "end"))
    for event, part in walker:
        tag = part.tag
        breaks = tag == "br" or (tag in BLOCKS and part is not element)
        if event == "end":
            if breaks and pieces and not pieces[-1].endswith("\n"):
                pieces.append("\n")
            if part is not element and part.tail:
                pieces.append(part.tail)
        elif tag in UNSEEN or _is_hidden(part):
            walker.skip_subtree()
        elif part.text:
            pieces.append(part.text)
        elif tag == "br":
            pieces.append("\n")
    lines = "".join(pieces).expandtabs(4).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def _language(element: etree._Element) -> str:
    """Return the language that the classes of a `pre`, its `code` or the element around it state."""
    code, around = element.find("code"), element.iterancestors()
    for part in (element, code, next(around, None), next(around, None)):
        if part is not None and (found := _LANGUAGE.search(part.get("class") or "")):
            return "" if found[1] in ("default", "none") else found[1]
    return ""


def _fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
