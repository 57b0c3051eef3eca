"""A second reading of a Word file: the nodes of its text, without styles, lists, fields and tables."""

from __future__ import annotations

import re
from html import unescape

from lxml import etree

from shared.ingest.parse.readers.office.omml import linear
from shared.ingest.parse.readers.word.names import MC, M, W
from shared.ingest.parse.readers.word.package import is_usual
from shared.ingest.parse.readers.xml_tree import Element

_SPACES = {W + "tab": " ", W + "br": "\n", W + "cr": "\n", W + "noBreakHyphen": "-"}
_ENDS = frozenset((W + "p", W + "txbxContent"))
_DELETED = {W + "tr": f"{W}trPr/{W}del", W + "tc": f"{W}tcPr/{W}cellDel"}
_MAYBE_UNSEEN = frozenset((W + "del", W + "moveFrom", MC + "Fallback", *_DELETED))
_TAGS = (*_MAYBE_UNSEEN, *_SPACES, *_ENDS, W + "t", M + "oMath")
_NODE = re.compile(r"<(?:\w+:)?(?:t(?: [^<>]*)?>([^<]*)|(?:p|tr|br|tab|cr)[ />])")
_NOT_SIMPLE = (b"<w:del", b"<w:moveFrom", b":Fallback", b":oMath", b":dropCap")
_SIMPLE_NODE = re.compile(rb"<(?:w:(?:t(?:\s[^<>]*)?>([^<]*)|(?:tab|br|cr)\b)|(w:noBreakHyphen)|(/w:p)>)")
_ENTITY = re.compile(r"&(?!(?:amp|lt|gt|quot|apos|#\w{1,8});)\w{1,40};")


def text_of(root: Element) -> str:
    """Return the text of a part, one paragraph in a line."""
    texts: list[str] = []
    walk = etree.iterwalk(root, events=("start", "end"), tag=_TAGS)
    for event, element in walk:
        tag = element.tag
        if event == "end":
            if tag in _ENDS and not _is_initial(element):
                texts.append("\n")
        elif tag in _MAYBE_UNSEEN:
            if _is_unseen(element):
                walk.skip_subtree()
        elif tag == W + "t":
            texts.append(element.text or "")
        elif tag == M + "oMath":
            texts.append(f" {linear(element)} ")
            walk.skip_subtree()
        elif tag in _SPACES:
            texts.append(_SPACES[tag])
    return "".join(texts)


def is_simple(data: bytes) -> bool:
    """Return whether XML has no deleted text, equations, initials, or content for older programs."""
    return is_usual(data) and not any(name in data for name in _NOT_SIMPLE)


def text_of_simple(data: bytes) -> str:
    """Return the text of simple XML, one paragraph in a line."""
    texts = list[bytes]()
    for found in _SIMPLE_NODE.finditer(data):
        text, hyphen, end = found.groups()
        texts.append(text if text is not None else b"\n" if end else b"-" if hyphen else b" ")
    text = b"".join(texts).decode("utf-8", "replace")
    return unescape(text) if "&" in text else text


def text_of_damaged(data: bytes) -> str:
    """Return the text in XML that no parser reads completely."""
    xml = _ENTITY.sub("", _without_fallbacks(data.decode("utf-8", "replace")))
    nodes = _NODE.finditer(xml)
    return "".join(unescape(found[1]) if found[1] is not None else "\n" for found in nodes)


def _without_fallbacks(xml: str) -> str:
    """Return XML without its content for older programs; an unclosed part is kept."""
    kept, at = list[str](), 0
    while (start := xml.find("<mc:Fallback", at)) >= 0 and (end := xml.find("</mc:Fallback>", start)) >= 0:
        kept.append(xml[at:start])
        at = end
    return "".join((*kept, xml[at:]))


def _is_unseen(element: Element) -> bool:
    """Return whether people do not see an element: deleted or moved text, or content for older programs."""
    if element.tag == MC + "Fallback":
        return _has_choice(element)
    mark = _DELETED.get(element.tag)
    return mark is None or element.find(mark) is not None


def _has_choice(fallback: Element) -> bool:
    parent = fallback.getparent()
    return parent is not None and any(len(choice) for choice in parent.iterchildren(MC + "Choice"))


def _is_initial(paragraph: Element) -> bool:
    frame = paragraph.find(f"{W}pPr/{W}framePr")
    return frame is not None and frame.get(W + "dropCap", "none") != "none"
