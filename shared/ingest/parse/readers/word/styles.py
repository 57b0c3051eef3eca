"""Styles of paragraphs: their headings and their lists, also inherited ones."""

from __future__ import annotations

import re
from dataclasses import dataclass

from shared.ingest.parse.readers.word.names import Element, W, child, number, value

BODY_LEVEL = 9
"""The outline level of body text; headings have 0 to 8."""

_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|titulo|títol|titolo|kop|rubrik|overskrift|otsikko|nagłówek|nadpis|naslov|"
    r"заголовок|заглавие|επικεφαλίδα|ba\u015fl\u0131k|címsor|titlu|antraštė|virsraksts|pealkiri|fyrirsögn|标题|標題|見出し|제목|"
    r"כותרת|عنوان|หัวเรื่อง|đề mục|tiêu đề)\s?([1-9])",
    re.IGNORECASE,
)
_TITLES = frozenset(("title", "titel", "titre", "título", "titolo", "tittel", "otsikko", "tytuł", "название", "表題"))
_MOST_ANCESTORS = 20


@dataclass(frozen=True, slots=True)
class Style:
    """The properties of a paragraph's style that matter for its text, including inherited ones.

    Args:
        outline: level in the outline, from 0; `BODY_LEVEL` for text; None if neither it nor an ancestor states one.
        title: whether it is the style of a document's title.
        bullet: whether its name says that it is a list with bullets.
        list_id: number of the list; "0" if it leaves the list of its ancestor; None if there is no list.
        list_level: level in the list.
    """

    outline: int | None = None
    title: bool = False
    bullet: bool = False
    list_id: str | None = None
    list_level: int | None = None


_PLAIN = Style()


class Styles:
    """The styles of a file.

    Args:
        root: root of the part with the styles, if there is one.
    """

    def __init__(self, root: Element | None) -> None:
        self._elements: dict[str, Element] = {}
        self._known: dict[str | None, Style] = {}
        self.default: str | None = None
        for style in () if root is None else root.iterchildren(W + "style"):
            identifier = style.get(W + "styleId")
            if identifier and style.get(W + "type", "paragraph") in ("paragraph", "numbering"):
                self._elements.setdefault(identifier, style)
                if style.get(W + "default") in ("1", "true", "on") and style.get(W + "type") == "paragraph":
                    self.default = identifier

    def style(self, identifier: str | None) -> Style:
        """Return a style; a plain one if the file does not define it."""
        identifier = identifier or self.default
        if identifier not in self._known:
            self._known[identifier] = self._read(identifier)
        return self._known[identifier]

    def list_of(self, identifier: str | None) -> str | None:
        """Return the number of the list that a style of numbering defines."""
        return self.style(identifier).list_id

    def _read(self, identifier: str | None) -> Style:
        outline = list_id = list_level = None
        title = bullet = False
        for style in self._chain(identifier):
            properties = child(style, "pPr")
            name = (value(style, "name") or style.get(W + "styleId") or "").strip().lower()
            if outline is None:
                outline = _outline(name, properties)
            if list_id is None:
                list_id = value(properties, "numPr", "numId")
            if list_level is None:
                list_level = number(value(properties, "numPr", "ilvl"))
            title = title or name in _TITLES
            bullet = bullet or name.startswith("list bullet")
        return Style(outline, title, bullet, list_id, list_level)

    def _chain(self, identifier: str | None) -> list[Element]:
        """Return a style and its ancestors, the nearest first; a circle of ancestors ends."""
        chain = list[Element]()
        while identifier and len(chain) < _MOST_ANCESTORS:
            style = self._elements.get(identifier)
            if style is None:
                break
            chain.append(style)
            identifier = value(style, "basedOn")
        return chain


def outline_of(properties: Element | None) -> int | None:
    """Return the outline level that properties of a paragraph state."""
    level = number(value(properties, "outlineLvl"))
    return None if level is None else min(max(level, 0), BODY_LEVEL)


def _outline(name: str, properties: Element | None) -> int | None:
    stated = outline_of(properties)
    if stated is not None:
        return stated
    found = _HEADING.fullmatch(name)
    return int(found[1]) - 1 if found else None
