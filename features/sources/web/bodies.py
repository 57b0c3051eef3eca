"""Bodies of replies, read and unpacked within a limit: a few bytes of gzip can unpack to gigabytes."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Iterator

import httpx

MOST_BYTES = 50 * 1024 * 1024  # of a sitemap, by its protocol
ENCODINGS = "gzip, deflate"
_GZIP = b"\x1f\x8b"
_STEP_BYTES, _PIECE_BYTES = 1 << 16, 1 << 20
_MOST_PIECES, _LEAST_PIECE_BYTES = 10_000, 64  # of a body: each piece costs the event loop 20 microseconds
_ANY_HEADER = 32 + zlib.MAX_WBITS


class BodyTooLarge(Exception):
    """The body has more bytes than allowed."""


class BadBody(Exception):
    """The body cannot be unpacked; the message is a clause."""


async def read_body(reply: httpx.Response, max_bytes: int) -> bytes:
    """Return the body of a reply.

    Raises:
        BodyTooLarge: it has more than `max_bytes`, packed or unpacked.
        BadBody: its encoding was not requested, or is damaged, or it arrives in too small pieces.
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
        if len(parts) > _MOST_PIECES and size < len(parts) * _LEAST_PIECE_BYTES:
            raise BadBody("the server sends it in pieces of a few bytes")
    body = b"".join(parts)
    if encoding in ("identity", ""):
        return body
    return await _unpacked_in_steps(body, max_bytes)


def unpacked(body: bytes, max_bytes: int) -> bytes:
    """Return the content of gzip or deflate data.

    Raises:
        BodyTooLarge: it has more than `max_bytes`.
        BadBody: it is damaged.
    """
    return b"".join(_pieces(body, max_bytes))


def is_packed(content: bytes) -> bool:
    """Return whether a file is in the format of gzip."""
    return content.startswith(_GZIP)


async def _unpacked_in_steps(body: bytes, max_bytes: int) -> bytes:
    """Unpack a body as `unpacked`; other tasks of the event loop run meanwhile."""
    parts = list[bytes]()
    for part in _pieces(body, max_bytes):
        parts.append(part)
        await asyncio.sleep(0)
    return b"".join(parts)


def _pieces(body: bytes, max_bytes: int) -> Iterator[bytes]:
    """Yield the content; some servers send deflate data without a header."""
    started = False
    try:
        for piece in _inflated(body, _ANY_HEADER, max_bytes):
            started = started or bool(piece)
            yield piece
    except zlib.error as error:
        if started:
            raise BadBody("it cannot be unpacked") from error
    else:
        return
    try:
        yield from _inflated(body, -zlib.MAX_WBITS, max_bytes)
    except zlib.error as error:
        raise BadBody("it cannot be unpacked") from error


def _inflated(body: bytes, window: int, max_bytes: int) -> Iterator[bytes]:
    inflater, left = zlib.decompressobj(window), max_bytes
    for at in range(0, len(body), _STEP_BYTES):
        packed = body[at : at + _STEP_BYTES]
        while packed and not inflater.eof:
            piece = inflater.decompress(packed, _PIECE_BYTES)
            packed, left = inflater.unconsumed_tail, left - len(piece)
            if left < 0:
                raise BodyTooLarge
            yield piece
    rest = inflater.flush()
    if rest and len(rest) > left:
        raise BodyTooLarge
    if not inflater.eof:
        raise BadBody("it ends too early")
    yield rest
