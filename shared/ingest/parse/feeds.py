"""RSS and Atom as one page of HTML: each entry is a section, because people ask about entries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from xml.etree import ElementTree as ET

_ENTRIES = frozenset(("item", "entry"))
_BODIES = ("encoded", "content", "description", "summary")


@dataclass(frozen=True, slots=True)
class Feed:
    title: str | None
    html: str


def read(data: bytes) -> Feed | None:
    """Return the feed in a file, or None if it is not a feed.

    External entities are never fetched by this parser, and expat itself stops entity expansion attacks.
    """
    try:
        root = ET.fromstring(data)  # noqa: S314 - see above; it runs in the sandbox
    except (ET.ParseError, ValueError, LookupError):
        return None
    entries = [element for element in root.iter() if _name(element) in _ENTRIES]
    if not entries:
        return None
    channel = next((element for element in root.iter() if _name(element) == "channel"), root)
    title = _field(channel, "title")
    return Feed(title, "\n".join(_page(title, _field(channel, "description", "subtitle"), entries)))


def _page(title: str | None, description: str | None, entries: list[ET.Element]) -> Iterator[str]:
    if title:
        yield f"<h1>{escape(title)}</h1>"
    if description:
        yield f"<p>{escape(description)}</p>"
    for entry in entries:
        yield f"<h2>{escape(_field(entry, 'title') or 'Untitled')}</h2>"
        facts = (_field(entry, "pubDate", "published", "updated", "date"), _field(entry, "creator", "author"))
        yield "".join(f"<p>{escape(fact)}</p>" for fact in facts if fact)
        yield f"<div>{_field(entry, *_BODIES) or ''}</div>"


def _field(parent: ET.Element, *names: str) -> str | None:
    """Return the text of the first child that has one of the names, the earlier names first."""
    for name in names:
        for child in parent:
            if _name(child) == name and (text := "".join(child.itertext()).strip()):
                return text
    return None


def _name(element: ET.Element) -> str:
    return str(element.tag).rpartition("}")[2]
