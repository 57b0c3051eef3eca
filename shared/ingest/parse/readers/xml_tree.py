"""XML as a tree: the one parser of all readers whose files are XML, and the names of elements.

Entities are neither resolved nor fetched (XML 1.0, section 4.4). Comments and processing instructions are left out.
libxml2 stops at elements that are more than 2,048 levels deep, and says so only in its log.
"""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from lxml import etree

Element: TypeAlias = etree._Element  # noqa: SLF001 - lxml has no public name for it

_WIDE = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_DECLARED = re.compile(r"^\ufeff?\s*<\?xml[^>]{0,200}\?>")
_HALVES = re.compile(rb"(?:&#(?:x0{0,8}[dD][89a-fA-F][0-9a-fA-F]{2}|0{0,8}5[5-7]\d{3});)+")
"""References to halves of a character, such as `&#xD83D;&#xDE00;`, and to some characters of as many digits."""


class Tree(NamedTuple):
    """The tree of an XML text.

    Args:
        root: its root; None if it has none.
        is_whole: whether the tree has all of the text.
    """

    root: Element | None
    is_whole: bool


def well_formed(xml: bytes) -> bytes:
    """Return XML in UTF-8 if it was in UTF-16, and with references to characters instead of their halves.

    Some programs write a character beyond 16 bits as two references. libxml2 puts the halves into its tree, where
    lxml cannot decode them.
    """
    if encoding := _WIDE.get(xml[:2]):
        xml = _DECLARED.sub("", xml.decode(encoding, "replace")).encode("utf-8", "replace")
    return _HALVES.sub(_whole_characters, xml) if b"&#" in xml else xml


def _whole_characters(halves: re.Match[bytes]) -> bytes:
    codes = [int(code[1:], 16) if code[:1] == b"x" else int(code) for code in halves[0][2:-1].split(b";&#")]
    text = "".join(map(chr, codes)).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return "".join(f"&#{ord(character)};" for character in text).encode()


def parsed(xml: bytes) -> Tree:
    """Return the tree of an XML text, as much of it as can be read.

    Raises:
        MemoryError: memory ended the parse.
    """
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        huge_tree=True,
        recover=True,
        remove_comments=True,
        remove_pis=True,
        collect_ids=False,
    )
    try:
        root = etree.fromstring(well_formed(xml), parser)
    except (etree.XMLSyntaxError, ValueError):
        root = None
    log = parser.error_log
    if not len(log):
        return Tree(root, root is not None)
    require_memory(parser)
    return Tree(root, root is not None and not log.filter_from_fatals())


def require_memory(parser: etree.XMLParser | etree.HTMLParser) -> None:
    """Check after a parse that memory did not end it, because the rest of the file would be missing without a word.

    Raises:
        MemoryError: it did.
    """
    if any(error.type == etree.ErrorTypes.ERR_NO_MEMORY for error in parser.error_log):
        raise MemoryError


def local_name(element: Element) -> str:
    """Return the name of an element without its namespace; empty for comments and processing instructions."""
    tag = element.tag
    return tag[tag.rfind("}") + 1 :] if isinstance(tag, str) else ""
