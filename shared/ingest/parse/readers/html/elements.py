"""Kinds of elements of HTML (HTML Standard, section 15.3), and elements that a page hides."""

from __future__ import annotations

import re

from lxml import etree

from shared.ingest.parse.readers.xml_tree import Element


def names(text: str) -> frozenset[str]:
    """Return the names in a text."""
    return frozenset(text.split())


UNSEEN = names("script style template noscript title svg iframe noembed datalist annotation annotation-xml")
"""Elements whose content is never shown."""

BLOCKS = names(
    "address article aside blockquote body br caption center dd details dialog dir div dl dt fieldset figcaption figure"
    " footer form frameset h1 h2 h3 h4 h5 h6 head header hgroup hr html legend li listing main menu nav ol optgroup p"
    " pre search section summary table tbody td tfoot th thead tr ul xmp"
)
"""Elements that end the line before them and their own last line."""

_MAY_HIDE = etree.XPath("descendant-or-self::*[@hidden or @style]")
_HIDING = re.compile(r"display\s*+:\s*+none|visibility\s*+:\s*+hidden", re.IGNORECASE)


def hidden_below(root: Element) -> frozenset[Element]:
    """Return the elements that a page hides, found at once, because a test of each element takes longer."""
    return frozenset(filter(is_hidden, _MAY_HIDE(root)))


def is_hidden(element: Element) -> bool:
    """Return whether the attributes of an element hide it."""
    hidden = element.get("hidden")
    if hidden is not None and hidden.lower() != "until-found":
        return True
    style = element.get("style")
    return style is not None and _HIDING.search(style) is not None
