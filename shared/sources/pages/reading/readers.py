"""Readers of the contents of sites, which run in a confined process: see `shared.confined`."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, BinaryIO

import orjson

from shared.sources.pages.reading.addresses import normal
from shared.sources.pages.reading.robots import read_robots

_ROBOTS_BYTES = 500 * 1024  # the least that RFC 9309 demands; the rest is ignored


def robots(options: Mapping[str, Any], files: Sequence[BinaryIO]) -> Generator[bytes]:
    """Yield the rules of robots.txt for this robot, the pause between requests, and the addresses of sitemaps."""
    found = read_robots(files[0].read(_ROBOTS_BYTES).decode("utf-8-sig", "replace"))
    sitemaps = (normal(link, options["address"]) for link in found.sitemaps)
    yield orjson.dumps([found.group.rules, found.group.delay, list(dict.fromkeys(filter(None, sitemaps)))])


READERS = {"robots": robots}
