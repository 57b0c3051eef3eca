"""Preformatted text of HTML as fenced code."""

from __future__ import annotations

import re

from lxml import etree

from shared.ingest.parse.readers.html.elements import BLOCKS, UNSEEN, is_hidden
from shared.ingest.parse.readers.xml_tree import Element

_LANGUAGE = re.compile(r"(?:^|\s)(?:language-|lang-|highlight-source-|highlight-|brush:\s*+)([\w+#.-]{1,30})")


def preformatted(element: Element) -> str:
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
        elif tag in UNSEEN or is_hidden(part):
            walker.skip_subtree()
        elif part.text:
            pieces.append(part.text)
        elif tag == "br":
            pieces.append("\n")
    lines = "".join(pieces).expandtabs(4).split("\n")
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def language_of(element: Element) -> str:
    """Return the language that the classes of a `pre`, its `code` or the element around it state."""
    code, around = element.find("code"), element.iterancestors()
    for part in (element, code, next(around, None), next(around, None)):
        if part is not None and (found := _LANGUAGE.search(part.get("class") or "")):
            return "" if found[1] in ("default", "none") else found[1]
    return ""


def fenced(text: str, language: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text}\n{fence}"
