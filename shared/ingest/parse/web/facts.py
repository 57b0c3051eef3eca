"""The facts of an HTML page that a crawler needs: its links, its canonical address and its rules for robots."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from html import unescape

from shared.domain.text.tags import Tag, tags
from shared.ingest.parse.web.addresses import normal

MOST_CHARS = 5_000_000
MOST_LINKS = 10_000
MOST_LINK_BYTES = 1_500_000  # of all links, so that they fit into one message of the process that reads them
_ROBOT = "foreask"
_WITH_VALUES = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_REFRESH = re.compile(r"\s*[\d.]*\s*[;,]?\s*url\s*=\s*[\"']?([^\"'\s]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rules:
    """Permissions of a page: to be a document (`index`), and to follow its links (`follow`)."""

    index: bool = True
    follow: bool = True

    def __and__(self, other: Rules) -> Rules:
        return Rules(self.index and other.index, self.follow and other.follow)


@dataclass(frozen=True, slots=True)
class PageFacts:
    """Facts of a page.

    Args:
        links: normal addresses of its links, without those with rel=nofollow.
        canonical: its canonical address, if it names one.
        rules: its rules for robots.
    """

    links: tuple[str, ...] = ()
    canonical: str | None = None
    rules: Rules = field(default_factory=Rules)


def facts_of(page: str, address: str, robots: str = "") -> PageFacts:
    """Return the facts of a page, from its first five million characters.

    Args:
        page: the page.
        address: its address, to which links are relative.
        robots: its header `X-Robots-Tag`.
    """
    found = _Found(address)
    for tag in tags(page[:MOST_CHARS]):
        if not tag.closing and (read := _READERS.get(tag.name)):
            read(found, tag)
    rules = found.rules & rules_of_header(robots)
    return PageFacts(tuple(found.links) if rules.follow else (), found.canonical, rules)


def rules_of_header(value: str) -> Rules:
    """Return the rules in an `X-Robots-Tag`, of which parts may be for named robots."""
    rules, robot = Rules(), _ROBOT
    for part in value.lower().split(","):
        name, colon, directive = part.partition(":")
        if colon and name.strip() not in _WITH_VALUES:
            robot = name.strip()
        if robot == _ROBOT:
            rules &= _rules([directive if colon else name])
    return rules


def _rules(words: Iterable[str]) -> Rules:
    directives = {word.strip() for word in words}
    return Rules(not directives & {"noindex", "none"}, not directives & {"nofollow", "none"})


class _Found:
    """The facts found so far; a page's first canonical address and base count."""

    def __init__(self, address: str) -> None:
        self.base = address
        self.links: dict[str, None] = {}
        self.canonical: str | None = None
        self.rules = Rules()
        self._has_base = False
        self._bytes_left = MOST_LINK_BYTES

    def link(self, tag: Tag) -> None:
        if "nofollow" not in _relations(tag):
            self._add(tag.attributes.get("href"))

    def head_link(self, tag: Tag) -> None:
        if "canonical" in _relations(tag) and self.canonical is None:
            self.canonical = normal(unescape(tag.attributes.get("href", "")), self.base)

    def set_base(self, tag: Tag) -> None:
        href = tag.attributes.get("href")
        if href and not self._has_base:
            self.base, self._has_base = normal(unescape(href), self.base) or self.base, True

    def meta(self, tag: Tag) -> None:
        content = unescape(tag.attributes.get("content", ""))
        if tag.attributes.get("name", "").lower() in ("robots", _ROBOT):
            self.rules &= _rules(content.lower().split(","))
        elif tag.attributes.get("http-equiv", "").lower() == "refresh" and (target := _REFRESH.match(content)):
            self._add(target[1])

    def _add(self, href: str | None) -> None:
        if not href or len(self.links) >= MOST_LINKS:
            return
        address = normal(unescape(href), self.base)
        if address and address not in self.links and len(address) <= self._bytes_left:
            self.links[address] = None
            self._bytes_left -= len(address)


_READERS = {
    "a": _Found.link,
    "area": _Found.link,
    "link": _Found.head_link,
    "base": _Found.set_base,
    "meta": _Found.meta,
}


def _relations(tag: Tag) -> list[str]:
    return tag.attributes.get("rel", "").lower().split()
