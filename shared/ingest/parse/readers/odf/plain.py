"""A second reading of an OpenDocument file: its paragraphs, without regard to lists, tables, styles or order."""

from __future__ import annotations

from collections.abc import Iterator

from lxml import etree

from shared.ingest.parse.readers.odf.names import SKIPPED, is_between_paragraphs, is_left_out, key_of
from shared.ingest.parse.readers.xml_tree import Element

_OWN = ("text:p", "text:h", "svg:title", "svg:desc")
_SEPARATING = ("text:s", "text:tab", "text:line-break", "text:ruby-text")
_NO_WORDS = (
    "text:note-citation",
    "dc:creator",
    "dc:date",
    "loext:sender-initials",
    "text:sender-initials",
    "meta:creator-initials",
    "draw:object",
)


def plain_text(root: Element) -> str:
    """Return the texts of all paragraphs, without regard to lists, tables, styles or order."""
    return "\n".join(_paragraphs(root))


def _paragraphs(root: Element) -> Iterator[str]:
    texts: list[list[str]] = []
    kinds: dict[str, tuple[bool, bool, bool, str]] = {}
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, node in walk:
        kind = kinds.get(node.tag)
        if kind is None:
            kind = kinds[node.tag] = _kind(key_of(node))
        is_own, is_frame, is_skipped, space = kind
        if event == "start":
            if is_own or is_frame:
                texts.append([])
            if is_skipped or (is_frame and is_left_out(node, key_of(node))):
                walk.skip_subtree()
            elif texts:
                texts[-1].append(space + (node.text or ""))
            continue
        if is_own or is_frame:
            own = "".join(texts.pop())
            yield own if is_own else ""
        if texts and node.tail:
            texts[-1].append(node.tail)


def _kind(key: str) -> tuple[bool, bool, bool, str]:
    """Return whether a kind of elements is a paragraph, a frame, or has no words, and the space that replaces it."""
    is_skipped = key in _NO_WORDS or key in SKIPPED
    return key in _OWN, is_between_paragraphs(key), is_skipped, " " if key in _SEPARATING else ""
