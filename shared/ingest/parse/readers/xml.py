"""Reader of XML of any vocabulary: read as the HTML that looks like it, by names of DocBook and JATS.

Read: texts, and attributes in records. Not read: comments, processing instructions, styles, and files
that entities name.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from html import escape, unescape
from html.entities import html5

from lxml import etree

from shared.ingest.parse.payloads import without_data
from shared.ingest.parse.readers import html
from shared.ingest.parse.readers.guard import escaped
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.xml_tree import Element, require_memory, well_formed
from shared.ingest.parse.text import decode

_TITLES = frozenset(("title", "article-title", "head", "heading", "titel", "headline"))
_SECTIONS = re.compile(r"sect(?:ion)?\d?|sec|chapter|appendix|part|preface|div\d?|article|book|refsect\d?|app")
_PROSE = frozenset(("p", "para", "simpara", "sec", "section", "chapter", "sect1"))
"""A file with one of these elements is a document; another one has records with fields."""

_COUNTERPARTS = (
    ("p", "p para simpara fpara"),
    ("ul", "ul list itemizedlist simplelist"),
    ("ol", "ol orderedlist procedure"),
    ("li", "li listitem list-item step member"),
    ("dl", "dl variablelist def-list"),
    ("dt", "dt term"),
    ("dd", "dd def"),
    ("pre", "pre programlisting screen literallayout preformat codeblock"),
    ("table", "table"),
    ("caption", "caption"),
    ("thead", "thead"),
    ("tr", "tr row"),
    ("th", "th"),
    ("td", "td entry"),
    ("blockquote", "blockquote disp-quote"),
    ("sup", "sup superscript"),
    ("sub", "sub subscript"),
    ("code", "code literal"),
    ("b", "b bold strong"),
    ("q", "quote"),
    ("br", "br"),
)
_SAME = {name: tag for tag, names in _COUNTERPARTS for name in names.split()}
_INLINE = frozenset(("sup", "sub", "code", "q", "b", "br"))
_UNSEEN = frozenset(("style", "script"))

_DECLARATION = re.compile(r"\s{0,100}<\?xml\b[^<>]{0,500}\?>")
_DOCTYPE = re.compile(r"<!DOCTYPE\b[^\[<>]*+(?:\[(.*?)\]\s*+)?>", re.DOTALL | re.IGNORECASE)
_DECLARED = re.compile(r"<!ENTITY\s+([\w.-]{1,100})\s+(?:\"([^\"<]{0,1000})\"|'([^'<]{0,1000})')\s*>")
_ENTITY = re.compile(r"<!\[CDATA\[.*?(?:\]\]>|\Z)|&([A-Za-z][\w.-]{0,100});|&(?!#)", re.DOTALL)
_PREDEFINED = frozenset(("amp", "lt", "gt", "quot", "apos"))
_MAX_DECLARED_CHARS = 1_000_000
"""Text of declared entities in a file; further references are left out."""

_NOT_TEXT = re.compile(
    r"<!--.*?(?:-->|\Z)|<!\[CDATA\[(.*?)(?:\]\]>|\Z)|<\?.*?(?:\?>|\Z)|<[!/A-Za-z_:][^<>]*+(?:>|\Z)", re.DOTALL
)
_HTML = re.compile(r"</?(?:p|br|div|ul|ol|li|a|b|i|strong|em|span|table|h[1-6])(?:\s[^<>]*+|/)?>", re.IGNORECASE)
_TOO_DEEP = "Excessive depth"


def read(content: bytes) -> FileReading:
    """Return the text of an XML file. Entities are replaced by declared text only; nothing is fetched."""
    source = _without_entities(_DECLARATION.sub("", decode(content), 1))
    parser = etree.XMLParser(
        resolve_entities=False, no_network=True, huge_tree=True, recover=True, remove_comments=True, remove_pis=True
    )
    try:
        root = etree.fromstring(well_formed(source.encode("utf-8", "replace")), parser)
    except etree.XMLSyntaxError:
        root = None
    require_memory(parser)
    if root is None or any(_TOO_DEEP in error.message for error in parser.error_log):
        return FileReading((Part(escaped(without_data(_stripped(source)))),))
    if _name(root) == "html":
        return html.read(source)
    markdown, plain = html.markdown_of("".join(_page(root))), "".join(_plain(root))
    return FileReading((Part(without_data(markdown), without_data(plain)),))


def _without_entities(source: str) -> str:
    """Return a file in which references to entities are text: its own entities, and the entities of HTML."""
    doctype = _DOCTYPE.search(source, 0, 1 << 20)
    declared = {name: first or second for name, first, second in _DECLARED.findall(doctype[1] or "" if doctype else "")}
    left = _MAX_DECLARED_CHARS

    def text(reference: re.Match[str]) -> str:
        nonlocal left
        name = reference[1]
        if not name:
            return "&amp;" if reference[0] == "&" else reference[0]
        if name in _PREDEFINED:
            return reference[0]
        value = declared[name] if name in declared else html5.get(f"{name};", reference[0])
        left -= len(value)
        return escape(unescape(value), quote=False) if left > 0 else ""

    body = source[: doctype.start()] + source[doctype.end() :] if doctype else source
    return _ENTITY.sub(text, body)


def _stripped(source: str) -> str:
    """Return the text between the tags of a file that has no tree."""
    return "\n".join(" ".join(line.split()) for line in unescape(_NOT_TEXT.sub(_text_of, source)).split("\n"))


def _text_of(found: re.Match[str]) -> str:
    return found[1] or " "


def _plain(root: Element) -> Iterator[str]:
    """Yield the texts of a tree; elements in a text do not divide its words."""
    mixed = list[bool]()
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        if event == "end":
            yield "" if mixed.pop() else "\n"
            text = element.tail
        else:
            is_inline = any(mixed[-1:]) and _SAME.get(_name(element), "b") in _INLINE
            yield "" if is_inline else "\n"
            mixed.append(is_inline or _is_mixed(element))
            text = "" if _name(element) in _UNSEEN else element.text
        if text:
            yield html.plain_of(text) if _HTML.search(text) else text


def _name(element: Element) -> str:
    return element.tag.rpartition("}")[2].lower() if isinstance(element.tag, str) else ""


def _is_mixed(element: Element) -> bool:
    """Return whether an element has text next to its elements."""
    if element.text and element.text.strip():
        return True
    return any(child.tail and child.tail.strip() for child in element)


def _page(root: Element) -> Iterator[str]:
    """Yield the HTML of a file."""
    is_prose = any(_name(element) in _PROSE or (len(element) and _is_mixed(element)) for element in root.iter())
    writer = _Prose() if is_prose else _Records()
    walker = etree.iterwalk(root, events=("start", "end"))
    for event, element in walker:
        name = _name(element)
        if name in _UNSEEN:
            if event == "start":
                walker.skip_subtree()
        elif event == "start":
            yield writer.start(element, name)
            if element.text:
                yield _text(element.text)
        else:
            yield writer.end(element)
        if event == "end" and element.tail:
            yield _text(element.tail)


def _text(text: str) -> str:
    return text if _HTML.search(text) else escape(text, quote=False)


class _Prose:
    """Writes documents: titles become headings, and known elements their counterparts in HTML."""

    def __init__(self) -> None:
        self._sections = 0
        self._ends = list[tuple[str, bool]]()  # of each open element: its end tag, and whether its children are inline

    def start(self, element: Element, name: str) -> str:
        is_inline = bool(self._ends) and self._ends[-1][1]
        mixed = _is_mixed(element)
        self._sections += bool(_SECTIONS.fullmatch(name))
        tag = _SAME.get(name, "")
        if name in _TITLES and not is_inline:
            tag = f"h{min(6, max(1, self._sections))}"
        elif not tag and mixed and not is_inline:
            tag = "p"
        self._ends.append((f"</{tag}>" if tag else "", mixed or (is_inline and (not tag or tag in _INLINE))))
        return f"<{tag}>" if tag else "" if is_inline else "<hr>"

    def end(self, element: Element) -> str:
        self._sections -= bool(_SECTIONS.fullmatch(_name(element)))
        return self._ends.pop()[0]


class _Records:
    """Writes data: a line for each field, and a paragraph for each record."""

    def start(self, element: Element, name: str) -> str:
        label = element.tag.rpartition("}")[2] if isinstance(element.tag, str) else name
        facts = [(key, value) for key, value in element.attrib.items() if "}" not in key and value.strip()]
        if len(element) or not (element.text and element.text.strip()):
            return "<hr>" + "".join(f"{escape(key)}: {escape(value)}<br>" for key, value in facts)
        values = ", ".join(escape(value) for _, value in facts)
        return f"{escape(label)} ({values}): " if values else f"{escape(label)}: "

    def end(self, element: Element) -> str:
        return "<hr>" if len(element) else "<br>"
