"""Facts about an HTML page from the standard library, for cases that the converter misses."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

_TITLE = re.compile(r"<title\b[^<>]{0,200}>([^<]{1,1000})</title", re.IGNORECASE)
_INLINE = frozenset(("a", "abbr", "b", "code", "em", "font", "i", "img", "mark", "s", "small", "span", "strong", "u"))
_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]{0,20})")
_LEVELS = {"table": 4, "ul": 2, "ol": 2, "dl": 2}
"""Levels of nesting that a container adds, including rows, cells or items whose end tags pages omit."""

_VOID = frozenset(("area", "base", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"))
_LEFT_OPEN = frozenset(("p", "li", "dd", "dt", "td", "th", "tr", "tbody", "thead", "option"))
_UNSEEN = frozenset(("script", "style", "template", "noscript", "head"))


def page_title(page: str) -> str | None:
    """Return the `<title>`; only the top of the page is searched."""
    found = _TITLE.search(page, 0, 65_536)
    return html.unescape(found[1]).strip() if found else None


def nesting(page: str) -> int:
    """Return the approximate nesting depth of a page's elements; it is never much too low."""
    depth = deepest = 0
    for closing, name in _TAG.findall(page):
        tag = name.lower()
        if tag not in _VOID and tag not in _LEFT_OPEN:
            depth = max(0, depth + (-1 if closing else 1) * _LEVELS.get(tag, 1))
            deepest = max(deepest, depth)
    return deepest


def page_text(page: str) -> str:
    """Return the words of a page, one paragraph per block; linear time and no recursion, even for deep nesting."""
    reader = _Words()
    reader.feed(page)
    reader.close()
    paragraphs = ("".join(part).split() for part in reader.paragraphs)
    return "\n\n".join(" ".join(words) for words in paragraphs if words)


class _Words(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.paragraphs: list[list[str]] = [[]]
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002
        self._unseen += tag in _UNSEEN
        self._break(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in _UNSEEN and self._unseen:
            self._unseen -= 1
        self._break(tag)

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.paragraphs[-1].append(data)

    def _break(self, tag: str) -> None:
        if tag not in _INLINE and self.paragraphs[-1]:
            self.paragraphs.append([])
