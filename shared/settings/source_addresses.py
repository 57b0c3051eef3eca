"""Addresses of sources: one reading of a URI, for the check and for the use."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote_to_bytes, urlsplit

from shared.domain.errors import InvalidInput

BUCKETS = ("s3", "gs", "az")
OF_FOLDERS = ("file", "git+file")
_OF_FILES = (*OF_FOLDERS, *BUCKETS)
_WITH_USER = ("postgresql", "ssh", "git+ssh")  # their user is a name, and not a secret
_DEFAULT_PORTS = {"http": 80, "https": 443, "postgresql": 5432, "ssh": 22, "git+ssh": 22}
_LONGEST = 2_000
_UNSAFE = re.compile(r"[\x00-\x1f\x7f\\]")
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,254}")
_HOST = re.compile(r"[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?|\[[0-9a-f:.]+\]")


@dataclass(frozen=True, slots=True)
class Address:
    """A URI that has only one reading.

    Args:
        uri: as written.
        scheme: in lower case.
        host: name of a server in lower case, with its port unless it is the usual one; name of a bucket; empty for a
            folder.
        segments: decoded segments of the path; a slash at its end has no meaning.
    """

    uri: str
    scheme: str
    host: str
    segments: tuple[str, ...]

    @classmethod
    def parse(cls, uri: str) -> Address:
        """Read a URI. Error messages do not repeat it, because it may contain a password.

        Raises:
            InvalidInput: it is malformed, has more than one reading, or contains a password.
        """
        parts = _split(uri)
        scheme = parts.scheme.lower()
        if scheme in _OF_FILES:
            _require(not {"?", "#"} & set(uri), "contains ? or #: write %3F or %23 for a character of a name")
        return cls(uri, scheme, _host(scheme, parts), _segments(parts.path, strict=scheme in _OF_FILES))

    @property
    def path(self) -> str:
        """The decoded path without its first slash."""
        return "/".join(self.segments)

    def is_below(self, root: Address) -> bool:
        """Return whether the address is the root or below it. Whole segments are compared."""
        same = (self.scheme, self.host) == (root.scheme, root.host)
        return same and self.segments[: len(root.segments)] == root.segments


def _split(uri: str) -> SplitResult:
    _require(len(uri) <= _LONGEST, f"has more than {_LONGEST:,} characters")
    _require(
        not _UNSAFE.search(uri) and uri == uri.strip(), "contains a backslash, a control character or outer spaces"
    )
    try:
        parts = urlsplit(uri)
        _ = parts.port
    except ValueError:
        raise InvalidInput("The address has a malformed host or port.", field="uri") from None
    _require(parts.scheme and uri[len(parts.scheme) :].startswith("://"), "must start with a scheme such as file:///")
    _require(parts.password is None, "contains a password: name a secret of the operator instead")
    return parts


def _host(scheme: str, parts: SplitResult) -> str:
    if scheme in OF_FOLDERS:
        _require(not parts.netloc, f"names a host: a folder of this machine is {scheme}:///folder")
        return ""
    if scheme in BUCKETS:
        _require(_BUCKET.fullmatch(parts.netloc), f"needs the name of a bucket, such as {scheme}://bucket/folder")
        return parts.netloc
    _require(parts.username is None or scheme in _WITH_USER, "contains the name of a user")
    name = (parts.hostname or "").removesuffix(".")
    name = f"[{name}]" if ":" in name else name
    _require(_HOST.fullmatch(name), "needs the name of a host, in ASCII characters")
    usual = parts.port is None or parts.port == _DEFAULT_PORTS.get(scheme)
    return name if usual else f"{name}:{parts.port}"


def _segments(path: str, *, strict: bool) -> tuple[str, ...]:
    """Return the decoded segments of an encoded path; `strict` refuses empty ones."""
    _require(not _BAD_ESCAPE.search(path), "contains % without two hexadecimal digits: write %25 for the character %")
    encoded = path.removeprefix("/").removesuffix("/")
    segments = tuple(map(_decode, encoded.split("/"))) if encoded else ()
    _require(not strict or "" not in segments, "contains an empty segment (//)")
    return segments


def _decode(segment: str) -> str:
    try:
        name = unquote_to_bytes(segment).decode()
    except UnicodeDecodeError:
        raise InvalidInput("The address is not UTF-8.", field="uri") from None
    _require(name not in (".", ".."), "contains the segment . or ..: write the path without it")
    _require(not _UNSAFE.search(name) and "/" not in name, "contains an encoded slash, backslash or control character")
    return name


def _require(condition: object, problem: str) -> None:
    if not condition:
        raise InvalidInput(f"The address {problem}.", field="uri")
