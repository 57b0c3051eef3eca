"""The messages between a confined process and its parent: bytes, each after its length in eight bytes.

A request's length is sent with the open descriptors of its files, because the process cannot open any.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence

READY = b"ready\n"
"""The first message: the process has started, has loaded its libraries and is confined."""

LENGTH = struct.Struct(">Q")
MOST_FILES = 48
REASON_CHARS, DETAIL_CHARS = 2_000, 500


Work = Callable[[bytes, Sequence[int]], Iterator[bytes]]
"""Yields the messages of the reply to a request. It closes the descriptors of the request's files."""

Load = Callable[[], Work]


class ProcessMustExit(Exception):
    """Raised after a reply, if the process must not read anything else."""


def framed(body: bytes) -> bytes:
    return LENGTH.pack(len(body)) + body
