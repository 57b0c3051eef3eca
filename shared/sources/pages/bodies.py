"""Bodies of replies, read and unpacked within a limit: a few bytes of gzip can unpack to gigabytes."""

from __future__ import annotations

import zlib

import httpx

ENCODINGS = "gzip, deflate"
_GZIP = b"\x1f\x8b"
_ANY_HEADER = 32 + zlib.MAX_WBITS


class BodyTooLarge(Exception):
    """The body has more bytes than allowed."""


class BadBody(Exception):
    """The body cannot be unpacked; the message is a clause."""


async def read_body(reply: httpx.Response, max_bytes: int) -> bytes:
    """Return the body of a reply.

    Raises:
        BodyTooLarge: it has more than `max_bytes`, packed or unpacked.
        BadBody: its encoding was not requested, or is damaged.
    """
    encoding = reply.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", "deflate", ""):
        raise BadBody(f"its encoding is {encoding[:40]}, which was not requested")
    parts, size = list[bytes](), 0
    async for part in reply.aiter_raw():
        size += len(part)
        if size > max_bytes:
            raise BodyTooLarge
        parts.append(part)
    body = b"".join(parts)
    return body if encoding in ("identity", "") else unpacked(body, max_bytes)


def unpacked(body: bytes, max_bytes: int) -> bytes:
    """Return the content of gzip or deflate data.

    Raises:
        BodyTooLarge: it has more than `max_bytes`.
        BadBody: it is damaged.
    """
    try:
        return _inflated(body, _ANY_HEADER, max_bytes)
    except zlib.error:
        return _raw_deflate(body, max_bytes)


def is_packed(content: bytes) -> bool:
    """Return whether a file is in the format of gzip."""
    return content.startswith(_GZIP)


def _raw_deflate(body: bytes, max_bytes: int) -> bytes:
    """Return the content of deflate data without a header, which some servers send."""
    try:
        return _inflated(body, -zlib.MAX_WBITS, max_bytes)
    except zlib.error as error:
        raise BadBody("it cannot be unpacked") from error


def _inflated(body: bytes, window: int, max_bytes: int) -> bytes:
    inflater = zlib.decompressobj(window)
    content = inflater.decompress(body, max_bytes + 1)
    if len(content) > max_bytes:
        raise BodyTooLarge
    if not inflater.eof:
        raise BadBody("it ends too early")
    return content
