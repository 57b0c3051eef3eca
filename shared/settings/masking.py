"""Masks secrets in displayed values."""

from __future__ import annotations

import re
from urllib.parse import urlsplit, urlunsplit

_NEXT_ADDRESS = re.compile(r",\s*(?=https?://)")


def masked(value: str, *, secret: bool) -> str:
    """Mask the password and the query of a URL, and any other secret completely."""
    first, *others = _NEXT_ADDRESS.split(value)
    if others:
        return ",".join(masked(address, secret=secret) for address in (first, *others))
    if "://" in value:
        url = urlsplit(value)
        user, _, password = url.netloc.rpartition("@")[0].partition(":")
        host = url.netloc.rpartition("@")[2]
        account = f"{user}:***@" if password else f"{user}@" if user else ""
        return urlunsplit((url.scheme, account + host, url.path, "***" if url.query else "", ""))
    return "***" if secret and value else value
