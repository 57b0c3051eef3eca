"""Readers of the contents of sites, which run in a confined process: see `shared.confined`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import islice
from typing import Any, BinaryIO

import orjson

from features.sources.web.bodies import MOST_BYTES, BadBody, BodyTooLarge, is_packed, unpacked
from features.sources.web.reading import lists
from features.sources.web.reading.robots import read_robots
from shared.domain.errors import Unreadable
from shared.ingest.parse.web.addresses import normal

_BATCH = 1_000  # addresses of a message
_ROBOTS_BYTES = 500 * 1024  # the least that RFC 9309 demands; the rest is ignored


def robots(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the rules of robots.txt for this robot, the pause between requests, and the addresses of sitemaps."""
    found = read_robots(files[0].read(_ROBOTS_BYTES).decode("utf-8-sig", "replace"))
    sitemaps = (normal(link, options["address"]) for link in found.sitemaps)
    yield orjson.dumps([found.group.rules, found.group.delay, list(dict.fromkeys(filter(None, sitemaps)))])


def addresses(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the addresses of pages and of sitemaps in a list, sitemap or feed, at most `most`.

    A list with an error is refused as a whole, before the first message.
    """
    content = files[0].read()
    try:
        if is_packed(content):
            content = unpacked(content, MOST_BYTES)
        found = _READ[options["kind"]](content, options["base"], options["most"])
    except lists.BadList as error:
        raise Unreadable(str(error)) from error
    except (BadBody, BodyTooLarge) as error:
        raise Unreadable(f"it cannot be unpacked, or has more than {MOST_BYTES:,} bytes") from error
    for at in range(0, len(found.pages), _BATCH):
        yield orjson.dumps([found.pages[at : at + _BATCH], []])
    for at in range(0, len(found.sitemaps), _BATCH):
        yield orjson.dumps([[], found.sitemaps[at : at + _BATCH]])


_READ: Mapping[str, Callable[[bytes, str, int], lists.Sitemap]] = {
    "list": lambda content, base, most: lists.Sitemap(list(islice(lists.read_list(content, base), most))),
    "sitemap": lists.read_sitemap,
    "feed": lambda content, base, most: lists.Sitemap(lists.read_feed(content, base, most)),
}
READERS = {"robots": robots, "addresses": addresses}
