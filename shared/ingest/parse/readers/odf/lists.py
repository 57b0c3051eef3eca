"""The lists of OpenDocument files, and the numbers of their items and of headings."""

from __future__ import annotations

from dataclasses import dataclass, field

from shared.ingest.parse.readers.markdown import as_item, as_paragraph, one_line
from shared.ingest.parse.readers.odf.styles import Counter, OdfStyles, attribute
from shared.ingest.parse.readers.office.drawingml import number_of
from shared.ingest.parse.readers.xml_tree import Element, local_name

OdfBlock = tuple[str, str]
"""The kind of a block, `text`, `heading`, `item`, `table` or `end`, and its Markdown. Items in a row are one list."""

_DEEPEST = 8


@dataclass(slots=True)
class _ListItem:
    """An item of a list; its label belongs to its first paragraph."""

    start: str | None = None
    is_labelled: bool = False


@dataclass(slots=True)
class _OpenList:
    counter: Counter
    level: int
    has_style: bool
    items: list[_ListItem] = field(default_factory=list)


class Lists:
    """The open lists, the innermost last.

    Args:
        styles: styles of the document.
    """

    def __init__(self, styles: OdfStyles) -> None:
        self._styles = styles
        self._open: list[_OpenList] = []
        self._outer: list[list[_OpenList]] = []
        self._counters: dict[str, Counter] = {}
        self._by_id: dict[str, Counter] = {}
        self._headings = Counter(styles.outline)

    @property
    def is_open(self) -> bool:
        """Return whether a paragraph belongs to a list now."""
        return bool(self._open) and bool(self._open[-1].items)

    def enter(self) -> None:
        """Leave the lists for a cell or a note, which has its own."""
        self._outer.append(self._open)
        self._open = []

    def leave(self) -> None:
        """Return from a cell or a note."""
        self._open = self._outer.pop()

    def start(self, node: Element) -> None:
        """Open a list."""
        name = attribute(node, "style-name")
        if self._open and name is None:
            counter = self._open[-1].counter
        elif attribute(node, "continue-numbering") == "true" and name in self._counters:
            counter = self._counters[name]
        else:
            continued = self._by_id.get(attribute(node, "continue-list") or "")
            counter = continued or self._inherited(name) or Counter(self._styles.list_style(name or ""))
        self._counters[name or ""] = counter
        if key := attribute(node, "id"):
            self._by_id[key] = counter
        has_style = name is not None or (bool(self._open) and self._open[-1].has_style)
        self._open.append(_OpenList(counter, len(self._open) + 1, has_style))

    def _inherited(self, name: str | None) -> Counter | None:
        """Return the counter of the list around it, if it has the same style."""
        if not self._open or self._open[-1].counter.style is not self._styles.list_style(name or ""):
            return None
        return self._open[-1].counter

    def end(self) -> None:
        """Close the innermost list."""
        self._open.pop()

    def start_item(self, node: Element) -> None:
        """Open an item of the innermost list; a header has no number."""
        if self._open:
            is_header = local_name(node) == "list-header"
            self._open[-1].items.append(_ListItem(attribute(node, "start-value"), is_labelled=is_header))

    def start_numbered(self, node: Element) -> None:
        """Open a paragraph that is a list of its own, and continues the numbers of its style."""
        name = attribute(node, "style-name") or ""
        counter = self._counters.setdefault(name, Counter(self._styles.list_style(name)))
        level = number_of(attribute(node, "level"), 1)
        self._open.append(_OpenList(counter, level, has_style=True, items=[_ListItem(attribute(node, "start-value"))]))

    def item(self, text: str, style: str) -> OdfBlock:
        """Return a paragraph of a list: the first one of an item with its label, the others below it."""
        current = self._open[-1]
        if current.items[-1].is_labelled:
            return "item", f"{'  ' * min(current.level, _DEEPEST)}{one_line(text)}"
        label = self._next(current, style)
        return ("item", as_item(text, current.level - 1, label)) if label else ("text", as_paragraph(text))

    def label(self, style: str) -> str:
        """Return the number of a heading in a list; empty for a bullet."""
        current = self._open[-1]
        label = "" if current.items[-1].is_labelled else self._next(current, style)
        return "" if label == "-" else label

    def _next(self, current: _OpenList, style: str) -> str:
        item = current.items[-1]
        item.is_labelled = True
        if not current.has_style and (stated := self._styles.of_paragraph(style)):
            current.counter, current.has_style = Counter(self._styles.list_style(stated)), True
        return current.counter.next(current.level, item.start)

    def heading_number(self, node: Element, style: str, level: int) -> str:
        """Return the number of a heading outside lists; empty if headings of its level or style have none."""
        if local_name(node) != "h" or attribute(node, "is-list-header") == "true":
            return ""
        if self._styles.of_paragraph(style) == "":
            return ""
        label = self._headings.next(level, attribute(node, "start-value"))
        return "" if label == "-" else label
