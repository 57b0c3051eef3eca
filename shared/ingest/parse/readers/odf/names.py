"""Names of OpenDocument's elements with the usual prefixes, and the elements that people do not read as text."""

from __future__ import annotations

from shared.ingest.parse.readers.odf.styles import attribute
from shared.ingest.parse.readers.xml_tree import Element

SKIPPED = frozenset(
    (
        "text:tracked-changes",
        "text:table-of-content-source",
        "text:illustration-index-source",
        "text:table-index-source",
        "text:object-index-source",
        "text:user-index-source",
        "text:alphabetical-index-source",
        "text:bibliography-source",
        "text:script",
        "office:forms",
        "office:scripts",
        "office:event-listeners",
        "office:binary-data",
        "style:style",
    )
)
"""Elements without text that people see: deleted text, templates of indexes, macros."""

MARKS = tuple("{*}" + name for name in ("span", "soft-page-break", "bookmark", "bookmark-start", "bookmark-end"))
"""Elements that only format or mark the text in them: most elements of most files."""

REPEATED = ("footer", "header", "date-time", "page-number", "page")
"""Classes of frames with the footer, date, number and picture of a slide."""


def key_of(node: Element) -> str:
    """Return the name of an element with the usual prefix of its namespace, such as `text:p`."""
    tag = node.tag
    if not isinstance(tag, str):
        return ""
    key = _KEYS.get(tag)
    if key is None:
        space, _, name = tag.rpartition("}")
        words = space.strip("{").rstrip("/").replace("/", ":").split(":")
        prefix = "dc" if "purl.org" in words else words[-2] if len(words) > 1 else ""
        key = f"{_PREFIXES.get(prefix, prefix)}:{name}"
        if len(_KEYS) < MOST_KEYS:
            _KEYS[tag] = key
    return key


_PREFIXES = {"drawing": "draw", "svg-compatible": "svg"}
_KEYS: dict[str, str] = {}
MOST_KEYS = 2_000


def is_left_out(node: Element, key: str) -> bool:
    """Return whether people do not read an element's text as a part of the document."""
    return key in SKIPPED or (key == "draw:frame" and attribute(node, "class") in REPEATED)


def is_between_paragraphs(key: str) -> bool:
    """Return whether an element is between paragraphs, even if it is inside one, such as a frame."""
    return key.startswith(("draw:", "presentation:")) and key != "draw:a"
