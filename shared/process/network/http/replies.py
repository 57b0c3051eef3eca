"""Replies, and their compressed bodies."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

from shared.process.network.http.errors import UnreadableReply

TOO_LARGE = "the reply is too large"
_EITHER_FORM = 32 + zlib.MAX_WBITS  # gzip or zlib


@dataclass(frozen=True, slots=True)
class Reply:
    """A whole reply.

    Args:
        status: HTTP status.
        headers: header fields, compared without case or with names in lower case; of a repeated field the first one.
        content: body.
    """

    status: int
    headers: Mapping[str, str]
    content: bytes


def decompressed(content: bytes, coding: str, largest_bytes: int) -> bytes:
    """Return the content of a body. No coding was requested, but some servers compress anyway.

    Raises:
        UnreadableReply: the coding is unknown, the body is damaged, or its content is too large.
    """
    if not content or coding == "identity":
        return content
    if coding not in {"gzip", "x-gzip", "deflate"}:
        raise UnreadableReply("the reply has an unknown coding")
    unpacking = zlib.decompressobj(_EITHER_FORM)
    try:
        unpacked = unpacking.decompress(content, largest_bytes)
    except zlib.error as error:
        raise UnreadableReply("the reply is damaged") from error
    if unpacking.unconsumed_tail:
        raise UnreadableReply(TOO_LARGE)
    if not unpacking.eof:
        raise UnreadableReply("the reply is damaged")
    return unpacked
