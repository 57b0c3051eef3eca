"""What the standard library can tell of an HTML page, for where the converter does not."""

from __future__ import annotations

import html
import re
from html.parser import HTMLParser

_TITLE = re.compile(r"<title\b[^<>]{0,200}>([^<]{1,1000})</title", re.IGNORECASE)
_INLINE = frozenset(("a", "abbr", "b", "code", "em", "font", "i", "img", "mark", "s", "small", "span", "strong", "u"))
_UNSEEN = frozenset(("script", "style", "template", "noscript", "head"))


def page_title(page: str) -> str | None:
    """The `<title>`, which stands near the top or nowhere."""
    found = _TITLE.search(page, 0, 65_536)
    return html.unescape(found[1]).strip() if found else None


def page_text(page: str) -> str:
    """The words of a page, a paragraph for each block; in linear time and without recursion, however deep it is."""
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
