"""Addresses as a crawl compares them: short digests for its notes, patterns, and loops of links."""

from __future__ import annotations

import hashlib
import re
from collections import Counter

from shared.ingest.parse.web.addresses import path_of

_DIGITS = re.compile(r"\d+")
_MOST_SEGMENTS = 20
_MOST_PARAMETERS = 8
_MOST_REPETITIONS = 3


def digest_of(address: str) -> str:
    """Return 16 hexadecimal digits for an address, as short notes refer to it."""
    return hashlib.sha256(address.encode()).hexdigest()[:16]


def pattern_of(address: str) -> str:
    """Return the pattern of an address: pages that a server generates without end, such as a calendar's, share one.

    Each number of the path is `#`, and parameters have no values.
    """
    path, _, query = address.partition("?")
    names = sorted({parameter.partition("=")[0] for parameter in query.split("&")})
    return _DIGITS.sub("#", path) + ("?" + "&".join(names) if query else "")


def is_trap(address: str) -> bool:
    """Return whether an address looks like the result of a loop of links.

    A wrong relative link such as `a/` on each page leads to `/a/a/a/...`, and filters are combined without end.
    """
    path, _, query = path_of(address).partition("?")
    segments = [segment for segment in path.split("/") if segment]
    repeated = max(Counter(segments).values(), default=0) > _MOST_REPETITIONS
    return repeated or len(segments) > _MOST_SEGMENTS or query.count("&") >= _MOST_PARAMETERS
