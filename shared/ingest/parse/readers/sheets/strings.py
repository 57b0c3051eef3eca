"""Strings of a workbook: shared ones (ECMA-376 part 1, section 18.4), and strings in cells; no pronunciations."""

from __future__ import annotations

import re
from io import BytesIO

from lxml import etree

from shared.ingest.parse.readers.sheets import xml_bytes
from shared.ingest.parse.readers.xml_tree import Element, local_name, parsed

_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")


def unescaped(text: str) -> str:
    """Return a text of Excel without escapes such as `_x000D_`."""
    if "_x" not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace("\r\n", "\n").replace("\r", "\n")


def shared_strings(content: bytes) -> list[str]:
    """Return the texts of the part `sharedStrings.xml`, without pronunciations."""
    try:
        return [
            unescaped(text) if isinstance(text, str) else _parsed_string(text) for text in xml_bytes.strings(content)
        ]
    except xml_bytes.NeedsParserError:
        return _parsed_strings(content)


def _parsed_string(xml_of_string: bytes) -> str:
    item = parsed(xml_of_string)[0]
    return string_of(item) if item is not None else ""


def _parsed_strings(content: bytes) -> list[str]:
    found = list[str]()
    try:
        for _, item in etree.iterparse(BytesIO(content), tag="{*}si", **PARSING):
            found.append(string_of(item))
            forget(item)
    except etree.XMLSyntaxError:
        pass
    return found


PARSING = {"events": ("end",), "resolve_entities": False, "no_network": True, "huge_tree": True, "recover": True}


def forget(element: Element) -> None:
    """Free the memory of an element that was read, and of its siblings before it."""
    element.clear(keep_tail=False)
    parent = element.getparent()
    while parent is not None and element.getprevious() is not None:
        del parent[0]


def string_of(item: Element) -> str:
    """Return the text of a string with or without formatted parts, without its pronunciation."""
    if len(item) == 1 and local_name(item[0]) == "t":
        return unescaped(item[0].text or "")
    texts = (text.text or "" for text in item.iter("{*}t") if local_name(text.getparent()) != "rPh")
    return unescaped("".join(texts))
