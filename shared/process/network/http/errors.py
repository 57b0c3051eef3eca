"""The errors of requests without a usable reply; `network.problem_of` finds the reason in their causes."""

from __future__ import annotations


class ConnectFailed(OSError):
    """The request was not sent, because there is no connection."""


class ConnectTimedOut(TimeoutError):
    """The request was not sent, because no connection was made in time."""


class ConnectionLost(ConnectionResetError):
    """The connection ended after the request was sent and before the end of the reply."""


class UnreadableReply(OSError):
    """The reply is not HTTP, or is too large."""
