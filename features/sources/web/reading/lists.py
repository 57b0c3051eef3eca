"""Addresses in a text file, a JSON file, a sitemap or a feed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice

from features.sources.web.reading import elements
from shared.ingest.parse.web.addresses import normal

MOST_ADDRESSES = 10_000_000  # more than 50 MB contain
_ENTRIES = ("item", "entry")
_MOST_LINKS = 1_000  # of an entry


class BadList(ValueError):
    """A file of addresses cannot be used; the message is a clause with the remedy."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The addresses of pages, and of further sitemaps."""

    pages: list[str] = field(default_factory=list)
    sitemaps: list[str] = field(default_factory=list)


def read_list(content: bytes, base: str) -> Iterator[str]:
    """Yield the normal addresses of a list: a text with an address per line, or a JSON array of addresses.

    Raises:
        BadList: it is neither, or an address in it is wrong. The list is then refused as a whole, because the page of
            that address would look deleted.
    """
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadList("it is not UTF-8: save it in UTF-8") from error
    for where, link in _of_json(text) if text.lstrip().startswith(("[", "{")) else _of_lines(text):
        address = normal(link, base) if link.strip() else None
        if address is None:
            raise BadList(f"{where} is not an address that starts with http:// or https://")
        yield address


def _of_lines(text: str) -> Iterator[tuple[str, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            yield f"line {number:,}", line


def _of_json(text: str) -> Iterator[tuple[str, str]]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadList("it is not valid JSON") from error
    items = value.get("urls") if isinstance(value, dict) else value
    if not isinstance(items, list):
        raise BadList('it must be an array of addresses, or an object such as {"urls": ["https://example.org/a"]}')
    for number, item in enumerate(items, 1):
        link = item.get("url") if isinstance(item, dict) else item
        yield f"address {number:,}", link if isinstance(link, str) else ""


def read_sitemap(content: bytes, base: str, most: int = MOST_ADDRESSES) -> Sitemap:
    """Return the first `most` addresses in a sitemap, an index of sitemaps, or a sitemap that is a plain list.

    `lastmod` is ignored, because many sites set it to the time of the request: the page itself is asked. Addresses of
    pictures and news have other namespaces, and are not read.

    Raises:
        BadList: it is not a sitemap.
    """
    if not content.lstrip().startswith(b"<"):
        return Sitemap(pages=list(islice(read_list(content, base), most)))
    found, roots = Sitemap(), set[str]()

    def visit(path: tuple[str, ...], _: Mapping[str, str], text: str) -> None:
        roots.add(path[0])
        address = normal(text, base) if path[-1] == "loc" else None
        if address and path[:-1] == ("urlset", "url"):
            found.pages.append(address)
        elif address and path[:-1] == ("sitemapindex", "sitemap"):
            found.sitemaps.append(address)
        if len(found.pages) + len(found.sitemaps) >= most:
            raise elements.StopVisit

    _read(content, visit)
    if not roots & {"urlset", "sitemapindex"}:
        raise BadList("it is not a sitemap, whose first element is <urlset> or <sitemapindex>")
    return found


def read_feed(content: bytes, base: str, most: int = MOST_ADDRESSES) -> list[str]:
    """Return the addresses of the first `most` entries of an RSS or Atom feed.

    Raises:
        BadList: it is not a feed.
    """
    links: list[tuple[str, str]] = []
    found: list[str | None] = []
    roots = set[str]()

    def visit(path: tuple[str, ...], attributes: Mapping[str, str], text: str) -> None:
        names = [name.rpartition(" ")[2] for name in path[:1] + path[-2:]]
        roots.add(names[0].lower())
        name = names[-1]
        if names[-2] in _ENTRIES:
            links.extend(islice(_links(name, attributes, text), _MOST_LINKS - len(links)))
        elif name in _ENTRIES:
            found.append(normal(min(links)[1], base) if links else None)
            links.clear()
        if len(found) >= most:
            raise elements.StopVisit

    _read(content, visit)
    if not roots & {"rss", "feed", "rdf"}:
        raise BadList("it is not a feed, whose first element is <rss> or <feed>")
    return list(dict.fromkeys(filter(None, found)))


def _links(name: str, attributes: Mapping[str, str], text: str) -> Iterable[tuple[str, str]]:
    """Yield the link of an entry in an element, after its rank: a page's link is preferred to a permanent id."""
    if name == "link" and attributes.get("rel", "alternate") == "alternate" and (link := attributes.get("href", text)):
        yield "1", link
    elif name == "guid" and attributes.get("isPermaLink", "true") == "true" and text:
        yield "2", text


def _read(content: bytes, visit: elements.Visit) -> None:
    try:
        elements.read(content, visit)
    except elements.NotXml as error:
        raise BadList(str(error)) from error
