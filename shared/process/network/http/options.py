"""The limits and times of a client."""

from __future__ import annotations

from dataclasses import dataclass

LARGEST_REPLY_BYTES = 256 << 20  # 2,048 vectors as numbers in JSON take 120 MB


@dataclass(frozen=True, slots=True)
class Options:
    """Limits and times of a client.

    Args:
        connect_seconds: time in which a connection must be made.
        idle_seconds: time after which an idle connection is closed; the server must allow more.
        connections: maximum number of connections, and so of concurrent requests; more requests wait.
        may_repeat: whether a request may be sent again although the server may have received it.
        follows_redirects: whether a redirected request is sent to the new address.
        largest_reply_bytes: maximum size of a reply's content.
    """

    connect_seconds: float
    idle_seconds: float
    connections: int
    may_repeat: bool = False
    follows_redirects: bool = False
    largest_reply_bytes: int = LARGEST_REPLY_BYTES
