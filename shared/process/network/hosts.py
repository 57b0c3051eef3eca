"""Hosts of addresses, for people."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_NEXT_URL = re.compile(r",(?=\s*\w+://)")  # a password may contain a comma


def hosts_of(url: str) -> str:
    """Return the host and port of a URL, or of each of several, without users and passwords; '' if it has none.

    Raises:
        ValueError: it is not a URL.
    """
    return ", ".join(urlsplit(each.strip()).netloc.rpartition("@")[2] for each in _NEXT_URL.split(url))
