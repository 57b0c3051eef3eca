"""Connections that receive a limited number of bytes, because asyncpg has each message of a server in memory.

asyncpg takes neither a socket nor a protocol, but an event loop, of which it uses `create_connection`.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

REPLY_BYTES = 16 << 20  # of a reply without contents: a thousand rows of a listing have at most 5 MB


class TooManyBytes(OSError):
    """The server sent more bytes than its reply may have."""


class Allowance:
    """The bytes that a server may still send."""

    def __init__(self) -> None:
        self._left = REPLY_BYTES
        self.is_exceeded = False

    def start(self, content_bytes: int = 0) -> None:
        """Expect a reply, which may have contents of this size."""
        self._left = REPLY_BYTES + content_bytes
        self.is_exceeded = False

    def take(self, size: int) -> None:
        """Count received bytes.

        Raises:
            TooManyBytes: they are too many.
        """
        self._left -= size
        if self._left < 0:
            self.is_exceeded = True
            raise TooManyBytes


class _CountedSocket(socket.socket):
    allowance: Allowance

    def recv(self, *arguments: Any) -> bytes:
        data = super().recv(*arguments)
        self.allowance.take(len(data))
        return data

    def recv_into(self, *arguments: Any) -> int:
        size = super().recv_into(*arguments)
        self.allowance.take(size)
        return size


class CountingLoop:
    """The running event loop for asyncpg, whose new connections are counted. Addresses must not be names."""

    def __init__(self, allowance: Allowance) -> None:
        self._allowance = allowance
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def create_connection(self, protocol: Callable[[], Any], host: str, port: int) -> tuple[Any, Any]:
        connection = _CountedSocket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
        connection.allowance = self._allowance
        connection.setblocking(False)  # noqa: FBT003 - its only parameter
        try:
            await self._loop.sock_connect(connection, (host, port))
            return await self._loop.create_connection(protocol, sock=connection)
        except BaseException:
            connection.close()
            raise
