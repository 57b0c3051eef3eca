"""Text, lists, tables and diagrams of Office's drawings, as Markdown blocks."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from shared.ingest.parse.readers.markdown import as_item, as_paragraph, as_table, one_line
from shared.ingest.parse.readers.numerals import numeral
from shared.ingest.parse.readers.office.omml import linear
from shared.ingest.parse.readers.xml_tree import Element, local_name

Links = Callable[[str], str | None]
"""Returns the address of a relationship's id, if it leads out of the file."""

_LEVELS = 9
_LINE_BREAK = "\n"
_NUMBERINGS = {
    "arabic": "1",
    "alphaLc": "a",
    "alphaUc": "A",
    "romanLc": "i",
    "romanUc": "I",
}
_NUMBERING = re.compile(r"(arabic|alphaLc|alphaUc|romanLc|romanUc)(ParenBoth|ParenR|Period|Plain)")
_AROUND = {"ParenBoth": "({})", "ParenR": "{})", "Period": "{}.", "Plain": "{}"}


def no_links(_: str) -> None:
    """Return no address."""


@dataclass(slots=True)
class TextBody:
    """The paragraphs of a shape.

    Args:
        element: the body of text.
        styles: styles of lists that the shape inherits, the nearest first.
        links: addresses of its links.
    """

    element: Element
    styles: Sequence[Element] = ()
    links: Links = no_links
    _counts: dict[int, tuple[str, int]] = field(default_factory=dict)

    def blocks(self) -> Iterator[str]:
        """Yield paragraphs, and lists as one block each."""
        items: list[str] = []
        for paragraph in self.element.iterchildren("{*}p"):
            text = paragraph_text(paragraph, self.links).strip()
            level, label = self._label(paragraph, empty=not text)
            if not text:
                continue
            if label:
                items.append(as_item(text, level, label))
                continue
            if items:
                yield "\n".join(items)
                items = []
            yield as_paragraph(text)
        if items:
            yield "\n".join(items)

    def line(self) -> str:
        """Return the whole text in one line."""
        return one_line(" ".join(paragraph_text(p, self.links) for p in self.element.iterchildren("{*}p")))

    def _label(self, paragraph: Element, *, empty: bool) -> tuple[int, str]:
        """Return the level of a paragraph and its number or dash; an empty label if it is not in a list."""
        stated = paragraph.find("{*}pPr")
        level = min(number_of(stated.get("lvl"), 0), _LEVELS - 1) if stated is not None else 0
        bullet = self._bullet(stated, level)
        name = local_name(bullet) if bullet is not None else ""
        if empty:
            return level, ""
        for deeper in [known for known in self._counts if known > level]:
            del self._counts[deeper]
        if bullet is None or name != "buAutoNum":
            self._counts.pop(level, None)
            return level, "" if name in ("", "buNone") else "-"
        return level, self._numbered(bullet, level)

    def _numbered(self, bullet: Element, level: int) -> str:
        scheme, start = bullet.get("type", ""), number_of(bullet.get("startAt"), 1)
        before = self._counts.get(level)
        number = before[1] + 1 if before and before[0] == f"{scheme} {start}" else start
        self._counts[level] = (f"{scheme} {start}", number)
        kind = _NUMBERING.match(scheme)
        if kind is None:
            return f"{number}."
        return _AROUND[kind[2]].format(numeral(number, _NUMBERINGS[kind[1]]))

    def _bullet(self, stated: Element | None, level: int) -> Element | None:
        properties = [] if stated is None else [stated]
        for style in self.styles:
            found = style.find(f"{{*}}lvl{level + 1}pPr")
            if found is not None:
                properties.append(found)
        for each in properties:
            for child in each:
                if local_name(child) in ("buNone", "buChar", "buAutoNum", "buBlip"):
                    return child
        return None


def paragraph_text(paragraph: Element, links: Links = no_links) -> str:
    """Return the text of a paragraph, with the addresses of its links; an alternative content is read once."""
    parts: list[str] = []
    waiting = list(reversed(paragraph))
    while waiting:
        node = waiting.pop()
        name = local_name(node)
        if name in ("r", "fld"):
            parts.append(_linked(node, "".join(t.text or "" for t in node.iterchildren("{*}t")), links))
        elif name == "br":
            parts.append(_LINE_BREAK)
        elif name in ("oMath", "oMathPara"):
            parts.append(f" {linear(node)} ")
        elif name == "m":
            waiting.extend(reversed(node))
        elif name == "AlternateContent":
            waiting.extend(reversed(chosen(node)))
    return "".join(parts)


def chosen(alternatives: Element) -> list[Element]:
    """Return the content of the first choice, or of the fallback if there is no choice."""
    choice = alternatives.find("{*}Choice")
    if choice is None:
        choice = alternatives.find("{*}Fallback")
    return [] if choice is None else list(choice)


def table(element: Element, links: Links = no_links) -> str:
    """Return a table; each cell of merged cells has their text."""
    rows: list[list[str]] = []
    for row in element.iterchildren("{*}tr"):
        cells: list[str] = []
        for cell in row.iterchildren("{*}tc"):
            body = cell.find("{*}txBody")
            text = TextBody(body, links=links).line() if body is not None else ""
            if not text and is_on(cell.get("hMerge")) and cells:
                text = cells[-1]
            elif not text and is_on(cell.get("vMerge")) and rows and len(cells) < len(rows[-1]):
                text = rows[-1][len(cells)]
            cells.append(text)
        rows.append(cells)
    return as_table(rows)


def diagram(model: Element) -> str:
    """Return the points of a SmartArt graphic as a list with levels."""
    points = {
        point.get("modelId", ""): point for point in model.iter("{*}pt") if local_name(point.getparent()) == "ptLst"
    }
    children: dict[str, list[tuple[int, str]]] = {}
    for link in model.iter("{*}cxn"):
        if link.get("type", "parOf") == "parOf":
            order = number_of(link.get("srcOrd"), 0)
            children.setdefault(link.get("srcId", ""), []).append((order, link.get("destId", "")))
    below = {destination for links in children.values() for _, destination in links}
    tops = [point for point in points if point not in below]
    lines, seen = list[str](), set[str]()
    waiting = [(point, 0) for point in reversed([*tops, *points])]
    waiting.sort(key=lambda entry: points[entry[0]].get("type") == "doc")
    while waiting:
        point, level = waiting.pop()
        if point in seen or point not in points:
            continue
        seen.add(point)
        text = _point_text(points[point])
        if text:
            lines.append(as_item(text, level))
        following = sorted(children.get(point, ()), key=lambda link: link[0])
        waiting += [(destination, level + bool(text)) for _, destination in reversed(following)]
    return "\n".join(lines)


def _point_text(point: Element) -> str:
    body = point.find("{*}t")
    return "" if body is None or point.get("type") == "pres" else TextBody(body).line()


def _linked(run: Element, text: str, links: Links) -> str:
    link = run.find("{*}rPr/{*}hlinkClick")
    if link is None or not text.strip():
        return text
    target = next((links(value) for key, value in link.attrib.items() if key.endswith("}id")), None)
    bare = text.strip()
    if not target or target.removeprefix("mailto:").rstrip("/") == bare.rstrip("/") or set("()<> ") & set(target):
        return text
    return text.replace(bare, f"[{bare}]({target})", 1)


def number_of(text: str | None, default: int) -> int:
    """Return a number of at most six digits, or else the default."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 7 else default  # noqa: PLR2004


def is_on(text: str | None) -> bool:
    """Return the value of a switch."""
    return text in ("1", "true", "on")
