"""The facts of an HTML page that a crawler needs: its links, its canonical address and its rules for robots."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from html import unescape

from shared.domain.text.tags import Tag, tags
from shared.sources.pages.reading.addresses import normal

MOST_CHARS = 5_000_000
MOST_LINKS = 10_000
_ROBOT = "foreask"
_WITH_VALUES = ("unavailable_after", "max-snippet", "max-image-preview", "max-video-preview")
_CHARSET = re.compile(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", re.IGNORECASE)
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


def facts_of(content: bytes, address: str, headers: Mapping[str, str]) -> PageFacts:
    """Return the facts of a page, from its first five million characters.

    Args:
        content: the page.
        address: its address, to which links are relative.
        headers: headers of the reply, with names in lower case.
    """
    found = _Found(address)
    for tag in tags(_decoded(content, headers.get("content-type", ""))[:MOST_CHARS]):
        if not tag.closing and (read := _READERS.get(tag.name)):
            read(found, tag)
    rules = found.rules & rules_of_header(headers)
    return PageFacts(tuple(found.links) if rules.follow else (), found.canonical, rules)


def rules_of_header(headers: Mapping[str, str]) -> Rules:
    """Return the rules in `X-Robots-Tag`, of which parts may be for named robots."""
    rules, robot = Rules(), _ROBOT
    for part in headers.get("x-robots-tag", "").lower().split(","):
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
        if href and len(self.links) < MOST_LINKS and (address := normal(unescape(href), self.base)):
            self.links[address] = None


_READERS = {
    "a": _Found.link,
    "area": _Found.link,
    "link": _Found.head_link,
    "base": _Found.set_base,
    "meta": _Found.meta,
}


def _relations(tag: Tag) -> list[str]:
    return tag.attributes.get("rel", "").lower().split()


def _decoded(content: bytes, media_type: str) -> str:
    """Return the text of a page, whose markup is ASCII in nearly every encoding."""
    declared = _CHARSET.search(media_type) or _CHARSET.search(content[:2048].decode("latin-1"))
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return content.decode("utf-16", "replace")
    with suppress(LookupError, ValueError):
        return content.decode(declared[1] if declared else "utf-8", "replace")
    return content.decode("utf-8", "replace")
