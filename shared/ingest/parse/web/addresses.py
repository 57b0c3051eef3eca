"""Normal forms of addresses: one page has one address as far as that can be seen without a request.

The scheme and host are in lower case, the usual port, the fragment, dot segments and tracking parameters are removed,
percent-encoding is uniform, and the query's parameters are sorted by name. `/a/`, `/a` and `/a/index.html` remain three
addresses, because servers may answer each differently; if their texts are the same, they become one document.
"""

from __future__ import annotations

import re
from urllib.parse import quote, urljoin, urlsplit

from shared.domain.corpus.document_fields import MOST_KEY_BYTES

_PORTS = {"http": 80, "https": 443}
_LONGEST = 4_000  # characters of a link before it is normalised
_TRACKING = re.compile(
    r"(?:utm_\w+|mtm_\w+|pk_\w+|mc_[ce]id|_ga|_gl|gclid|gbraid|wbraid|dclid|fbclid|msclkid|yclid|twclid|ttclid|igshid"
    r"|_hsenc|_hsmi|vero_id|oly_\w+_id|phpsessid|jsessionid|aspsessionid\w*)",
    re.IGNORECASE,
)
_SESSION = re.compile(r";jsessionid=[^/?#]*", re.IGNORECASE)
_REMOVED = re.compile(r"[\t\r\n]")
_PERCENT = re.compile(r"%([0-9a-fA-F]{2})?")
_UNRESERVED = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")
_KEPT = "%/:@!$&'()*+,;=~?[]"


def normal(link: str, base: str = "") -> str | None:
    """Return the normal form of a link; None if it does not lead to a page.

    Args:
        link: as written, such as `../a?b#c`.
        base: address to which it is relative.
    """
    link = _REMOVED.sub("", link).strip()
    if len(link) > _LONGEST:
        return None
    try:
        parts = urlsplit(urljoin(base, link))
        host, port = (parts.hostname or "").rstrip(".").encode("idna").decode("ascii"), parts.port
    except ValueError:  # also of a host that is not a valid name
        return None
    if parts.scheme not in _PORTS or not host or "@" in parts.netloc:
        return None
    host = f"[{host}]" if ":" in host else host
    netloc = host if port in (None, _PORTS[parts.scheme]) else f"{host}:{port}"
    query = _query(parts.query)
    address = f"{parts.scheme}://{netloc}{_path(parts.path)}{'?' if query else ''}{query}"
    return address if len(address) <= MOST_KEY_BYTES else None


def origin_of(address: str) -> str:
    """Return scheme, host and port of a normal address."""
    return "/".join(address.split("/", 3)[:3])


def path_of(address: str) -> str:
    """Return the path and query of a normal address."""
    return address[len(origin_of(address)) :]


def _path(path: str) -> str:
    segments = list[str]()
    for segment in _SESSION.sub("", encoded(path)).split("/")[1:]:
        if segment == "..":
            segments[-1:] = []
        elif segment != ".":
            segments.append(segment)
    ends_with_folder = path.endswith(("/", "/.", "/.."))
    return "/" + "/".join(segments if not ends_with_folder or segments[-1:] == [""] else [*segments, ""])


def _query(query: str) -> str:
    given = [(parameter.partition("=")[0], parameter) for parameter in encoded(query).split("&") if parameter]
    kept = [item for item in given if not _TRACKING.fullmatch(item[0])]
    return "&".join(parameter for _, parameter in sorted(kept, key=lambda item: item[0]))


def encoded(text: str) -> str:
    """Return a text whose percent-encoding is uniform."""
    return quote(_PERCENT.sub(_escape, text), safe=_KEPT)


def _escape(found: re.Match[str]) -> str:
    if not found[1]:
        return "%25"
    char = chr(int(found[1], 16))
    return char if char in _UNRESERVED else found[0].upper()
