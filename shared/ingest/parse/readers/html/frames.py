"""Elements with a form of their own in Markdown: each collects blocks, and becomes blocks of the element around it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from shared.ingest.parse.readers.html import inline
from shared.ingest.parse.readers.html.tables import HtmlBlock, HtmlCell, HtmlRow, table_blocks, value
from shared.ingest.parse.readers.markdown import as_text
from shared.ingest.parse.readers.xml_tree import Element

FrameKind = Literal["page", "list", "item", "quote", "table", "cell", "caption", "term", "definition", "heading"]
_LONG_HEADING_CHARS = 400


@dataclass(slots=True)
class Frame:
    """An element that collects its blocks, because it has a form of its own in Markdown."""

    kind: FrameKind
    element: Element | None = None
    blocks: list[HtmlBlock] = field(default_factory=list)
    marker: str = ""  # of an item
    number: int = 1  # of the next item of a list
    step: int = 1
    style: str = ""
    rows: list[HtmlRow] = field(default_factory=list)  # of a table
    in_head: bool = False


def joined(blocks: Iterable[HtmlBlock]) -> str:
    """Return the text of blocks."""
    return "\n\n".join(map(rendered, blocks))


def rendered(block: HtmlBlock) -> str:
    """Return the text of a block, in which no character is markup at the start of a line by accident."""
    return as_text(block.text) if block.kind in ("text", "term", "entry") else block.text


def add_cell(table: Frame, frame: Frame) -> None:
    """Add a cell to the last row of its table."""
    if not table.rows:
        table.rows.append(HtmlRow(table.in_head))
    assert frame.element is not None
    columns, rows = _span(frame.element, "colspan"), _span(frame.element, "rowspan")
    table.rows[-1].cells.append(HtmlCell(frame.blocks, columns, rows, frame.element.tag == "th"))


def _span(element: Element, name: str) -> int:
    stated = element.get(name)
    if stated is None:
        return 1
    text = stated.strip()
    return int(text) if text.isdecimal() and len(text) <= 5 else 1  # noqa: PLR2004 - the most that HTML permits


def folded(frame: Frame, above: Frame) -> Iterable[HtmlBlock]:
    """Return the blocks of an element that ends."""
    match frame.kind:
        case "term":
            return _term(frame.blocks, above.blocks)
        case "definition":
            return _definition(frame.blocks, above.blocks)
        case kind:
            return _FOLDS[kind](frame) if kind in _FOLDS else frame.blocks


def _heading(frame: Frame) -> list[HtmlBlock]:
    """Return a heading; its first line and the blocks after it if it contains more, because its end tag is missing."""
    texts = [block for block in frame.blocks if block.kind == "text"]
    title = inline.title(" ".join(block.text for block in texts))
    if len(texts) < len(frame.blocks) or len(title) > _LONG_HEADING_CHARS:
        first, *rest = frame.blocks
        title = inline.title(first.text) if first.kind == "text" else ""
        if not 0 < len(title) <= _LONG_HEADING_CHARS:
            return frame.blocks
        return [_titled(frame, title), *rest]
    return [_titled(frame, title)] if title else []


def _titled(frame: Frame, title: str) -> HtmlBlock:
    return HtmlBlock("heading", f"{'#' * frame.number} {title}")


def _item(frame: Frame) -> list[HtmlBlock]:
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


def _list(frame: Frame) -> Iterator[HtmlBlock]:
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


def _quote(frame: Frame) -> Iterator[HtmlBlock]:
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


def _table(frame: Frame) -> list[HtmlBlock]:
    presentation = frame.element is not None and frame.element.get("role") in ("presentation", "none")
    return [*frame.blocks, *table_blocks(frame.rows, presentation=presentation)]


_FOLDS: dict[FrameKind, Callable[[Frame], Iterable[HtmlBlock]]] = {
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
