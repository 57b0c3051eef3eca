"""Styles of paragraphs: their headings and their lists, also inherited ones."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import unescape

from shared.ingest.parse.readers.word.names import W, child, number, value
from shared.ingest.parse.readers.word.package import is_usual, word_tree
from shared.ingest.parse.readers.xml_tree import Element

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
_STYLE = re.compile(rb"<w:style(\s[^<>]*)>")
_STATED = re.compile(rb'\sw:(\w{1,20})\s{0,9}=\s{0,9}["\']([^"\'<>]*)["\']')
_DEFAULTS = {"styleId": "", "type": "paragraph", "default": ""}
_OPENED = b'<w:styles xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'


@dataclass(frozen=True, slots=True)
class WordStyle:
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


_PLAIN = WordStyle()


class WordStyles:
    """The styles of a file.

    Args:
        data: XML of the part with the styles, if there is one.
    """

    def __init__(self, data: bytes | None) -> None:
        self._elements: dict[str, Element | bytes] = {}
        self._known: dict[str | None, WordStyle] = {}
        self.default: str | None = None
        for attributes, style in _defined(data or b""):
            identifier = attributes.get("styleId")
            if identifier and attributes.get("type", "paragraph") in ("paragraph", "numbering"):
                self._elements.setdefault(identifier, style)
                if attributes.get("default") in ("1", "true", "on") and attributes.get("type") == "paragraph":
                    self.default = identifier

    def style(self, identifier: str | None) -> WordStyle:
        """Return a style; a plain one if the file does not define it."""
        identifier = identifier or self.default
        if identifier not in self._known:
            self._known[identifier] = self._read(identifier)
        return self._known[identifier]

    def list_of(self, identifier: str | None) -> str | None:
        """Return the number of the list that a style of numbering defines."""
        return self.style(identifier).list_id

    def _read(self, identifier: str | None) -> WordStyle:
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
        return WordStyle(outline, title, bullet, list_id, list_level)

    def _chain(self, identifier: str | None) -> list[Element]:
        """Return a style and its ancestors, the nearest first; a circle of ancestors ends."""
        chain = list[Element]()
        while identifier and len(chain) < _MOST_ANCESTORS:
            style = self._elements.get(identifier)
            if style is None:
                break
            if isinstance(style, bytes):
                style = self._elements[identifier] = _parsed(style)
            chain.append(style)
            identifier = value(style, "basedOn")
        return chain


def _defined(data: bytes) -> Iterator[tuple[Mapping[str, str], Element | bytes]]:
    """Yield the attributes of each style, and the style itself; of usual files its XML, because most are not used."""
    if is_usual(data):
        for found in _STYLE.finditer(data):
            end = found.end() if found[1].endswith(b"/") else data.find(b"</w:style>", found.end())
            stated = {
                name.decode(): unescape(text.decode("utf-8", "replace")) for name, text in _STATED.findall(found[1])
            }
            yield stated, data[found.start() : end if end >= 0 else len(data)]
        return
    root = word_tree(data).root if data else None
    for style in () if root is None else root.iterchildren(W + "style"):
        yield {name: style.get(W + name, default) for name, default in _DEFAULTS.items()}, style


def _parsed(style: bytes) -> Element:
    """Return the element of a style."""
    end = b"" if style.endswith(b"/>") else b"</w:style>"
    root = word_tree(_OPENED + style + end + b"</w:styles>").root
    assert root is not None
    return root[0]


def outline_level(stated: str | None) -> int | None:
    """Return the outline level that a paragraph or a style states."""
    level = number(stated)
    return None if level is None else min(max(level, 0), BODY_LEVEL)


def _outline(name: str, properties: Element | None) -> int | None:
    stated = outline_level(value(properties, "outlineLvl"))
    if stated is not None:
        return stated
    found = _HEADING.fullmatch(name)
    return int(found[1]) - 1 if found else None
