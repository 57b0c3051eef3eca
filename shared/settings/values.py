"""Types of setting values."""

from __future__ import annotations

import re
from datetime import timedelta
from ipaddress import ip_address
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field

_FORM = "must be a URL such as https://api.openai.com/v1, with http:// or https://"
# Paths of calls, which people copy from the pages of providers.
_CALLS = ("/chat/completions", "/completions", "/responses", "/embeddings", "/rerank")

_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://(\[[0-9a-f:]+\]|[a-z0-9._-]+)(:[0-9]+)?", re.IGNORECASE)

PositiveInt = Annotated[int, Field(gt=0)]


def _seconds(value: object) -> object:
    if not isinstance(value, str):
        return value
    try:
        return timedelta(seconds=float(value))
    except ValueError:
        return value


def model_url(value: str) -> str:
    """Return the base URL of a model server.

    Raises:
        ValueError: it is not one; the message contains no part of it, because it may contain a password.
    """
    try:
        parts = urlsplit(value)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or parts.fragment or any(character.isspace() for character in value):
        raise ValueError(_FORM)
    for call in _CALLS:
        if parts.path.rstrip("/").endswith(call):
            raise ValueError(f"must end before {call}, which foreask appends")
    return value


def issuer_url(value: str) -> str:
    """Return the address of an issuer of tokens.

    Raises:
        ValueError: it is not https://, or http:// of this machine; the message contains no part of it.
    """
    try:
        parts = urlsplit(value)
        usable = bool(parts.hostname) and parts.port != 0 and "@" not in parts.netloc
    except ValueError:
        usable = False
    if not usable or parts.query or parts.fragment or any(character.isspace() for character in value):
        raise ValueError("must be an address such as https://login.example.com/realms/company")
    if not is_confidential(value):
        raise ValueError("must start with https://; http:// is accepted only for 127.0.0.1, ::1 and localhost")
    return value


def page_origin(value: str) -> str:
    """Return the origin of pages as browsers send it: in lower case, and without the usual port of its scheme.

    Raises:
        ValueError: it is not one origin.
    """
    if "*" in value:
        raise ValueError("must name each origin: `*` would let the pages of every site call the API")
    try:
        parts = urlsplit(value)
        port = parts.port
    except ValueError:
        parts, port = urlsplit(""), None
    if not _ORIGIN.fullmatch(value) or not parts.hostname or port == 0:
        raise ValueError(
            "must be origins such as https://intranet.example.com or http://localhost:3000: a scheme, a host in ASCII"
            " and perhaps a port, without a path or a slash at the end"
        )
    usual = {"http": 80, "https": 443}.get(parts.scheme)
    return value.lower().removesuffix(f":{usual}") if port == usual else value.lower()


def is_confidential(url: str) -> bool:
    """Return whether no other machine can read or change requests to an address: TLS, or loopback."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    host = parts.hostname or ""
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:
        return False


def split_names(value: str) -> tuple[str, ...]:
    """Return the names of a list that is separated by commas."""
    return tuple(name.strip() for name in value.split(",") if name.strip())


Duration = Annotated[timedelta, BeforeValidator(_seconds), Field(gt=timedelta())]  # a number without a unit is seconds
