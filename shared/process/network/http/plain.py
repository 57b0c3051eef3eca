"""A client for connections without TLS and proxies: a pool of connections to one server.

asyncio and httptools, uvicorn's parser, take 27 us of processor time for a request of 4 KB with a reply of 20 KB. In
the same run aiohttp takes 97, httpx 600, aiosonic 290 and pyreqwest, a client in Rust, 57.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Mapping, Sequence
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

import aiohappyeyeballs

from shared.process.network.http.connection import Connection
from shared.process.network.http.errors import ConnectFailed, ConnectionLost, ConnectTimedOut
from shared.process.network.http.options import Options
from shared.process.network.http.replies import Reply
from shared.process.network.proxies import PORTS

_NEXT_ADDRESS_SECONDS = 0.25  # RFC 8305
_TARGET = re.compile(r"[!-~]+")
_LEFT = "!#$%&'()*+,/:;=?@[]~"  # characters of a target that may have a meaning
_LINE_END = re.compile("[\0\r\n]")


class PlainClient:
    """Sends requests to one server, over connections that are kept open.

    A request whose reused connection is lost is sent again over a new connection if the server has surely not received
    it, or if requests may be repeated.

    Args:
        url: address of the server, without a user name, in ASCII; its path is not used.
        headers: header fields of all requests.
        options: limits and times.
    """

    def __init__(self, url: str, headers: Mapping[str, str], options: Options) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        self._host, self._port = parts.hostname, parts.port or PORTS["http"]
        self._options = options
        self._fixed = self._fields({"host": parts.netloc, "accept-encoding": "identity", **headers})
        self._permits = asyncio.Semaphore(options.connections)
        self._connections: set[Connection] = set()
        self._idle: list[Connection] = []
        self._closing_idle: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._none_left = asyncio.Event()

    async def send(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], seconds: float | None
    ) -> Reply:
        """Send a request and return its reply.

        Args:
            method: HTTP method.
            target: path and query.
            body: body.
            headers: header fields of this request.
            seconds: time for everything.

        Raises:
            ConnectFailed, ConnectTimedOut: the request was not sent.
            ConnectionLost: the connection ended before the end of the reply.
            UnreadableReply: the reply is not HTTP, or is too large.
            TimeoutError: the reply was not complete in time.
            ValueError: a header field has a line end.
        """
        head = self._head(method, target, body, headers)
        async with asyncio.timeout(seconds), self._permits:
            return await self._repeated(head, body or b"")

    async def aclose(self) -> None:
        """Close all connections; a request that is running fails."""
        self._is_closed = True
        if self._closing_idle is not None:
            self._closing_idle.cancel()
        for connection in list(self._connections):
            connection.abort()
        while self._connections:
            self._none_left.clear()
            await self._none_left.wait()

    async def _repeated(self, head: bytes, body: bytes) -> Reply:
        connection = self._take() or await self._open()
        try:
            return await self._exchange(connection, head, body)
        except ConnectionLost:
            may_repeat = self._options.may_repeat or not connection.may_have_sent
            if self._is_closed or not may_repeat:
                raise
        return await self._exchange(await self._open(), head, body)  # all idle connections may be lost

    async def _exchange(self, connection: Connection, head: bytes, body: bytes) -> Reply:
        try:
            reply = await connection.exchange(head, body)
        except BaseException:  # cancelled, too: the rest of the reply must not become the next one
            connection.abort()
            raise
        if connection.is_usable:
            self._put(connection)
        return reply

    def _take(self) -> Connection | None:
        """Take the connection that was used last."""
        oldest = asyncio.get_running_loop().time() - self._options.idle_seconds
        while self._idle:
            connection = self._idle.pop()
            if connection.is_usable and connection.idle_since >= oldest:
                connection.is_reused = True
                return connection
            connection.abort()
        return None

    def _put(self, connection: Connection) -> None:
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._closing_idle is None:
            self._closing_idle = loop.call_later(self._options.idle_seconds, self._close_idle)

    def _close_idle(self) -> None:
        """Close the connections that have been idle for long, and look again when the next one may have been."""
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._options.idle_seconds
        while self._idle and self._idle[0].idle_since <= oldest:  # the last one was used last
            self._idle.pop(0).abort()
        next_at = self._idle[0].idle_since + self._options.idle_seconds if self._idle else None
        self._closing_idle = None if next_at is None else loop.call_at(next_at, self._close_idle)

    async def _open(self) -> Connection:
        """Open a connection; raises as `send`."""
        try:
            opened = await self._connected(await self._addresses())
        except ConnectTimedOut:
            raise
        except OSError as error:
            raise ConnectFailed("the connection failed") from error
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: Connection(opened, self._options.largest_reply_bytes, self._forget), sock=opened
        )
        if self._is_closed:
            connection.abort()
            raise ConnectFailed("the client is closed")
        self._connections.add(connection)
        return connection

    async def _connected(self, addresses: Sequence[Any]) -> socket.socket:
        limit = asyncio.timeout(self._options.connect_seconds)
        try:
            async with limit:
                opened = await aiohappyeyeballs.start_connection(
                    addresses, happy_eyeballs_delay=_NEXT_ADDRESS_SECONDS, interleave=1
                )
        except TimeoutError:
            if limit.expired():
                raise ConnectTimedOut("no connection was made in time") from None
            raise
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened

    def _forget(self, connection: Connection) -> None:
        self._connections.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)
        if not self._connections:
            self._none_left.set()

    async def _addresses(self) -> Sequence[Any]:
        """Return the server's addresses; an address as text needs no resolver."""
        try:
            version = ip_address(self._host).version
        except ValueError:
            loop = asyncio.get_running_loop()
            return await loop.getaddrinfo(self._host, self._port, type=socket.SOCK_STREAM)
        if version == 4:  # noqa: PLR2004
            return [(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (self._host, self._port))]
        return [(socket.AF_INET6, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", (self._host, self._port, 0, 0))]

    def _head(self, method: str, target: str, body: bytes | None, headers: Mapping[str, str]) -> bytes:
        if not _TARGET.fullmatch(target):
            target = quote(target, safe=_LEFT)
        length = f"content-length: {len(body or b'')}\r\n" if body is not None or method != "GET" else ""
        return f"{method} {target} HTTP/1.1\r\n{self._fixed}{self._fields(headers)}{length}\r\n".encode()

    @staticmethod
    def _fields(headers: Mapping[str, str]) -> str:
        lines = [f"{name}: {value}" for name, value in headers.items()]
        if any(_LINE_END.search(line) for line in lines):
            raise ValueError("a header field has a line end")
        return "".join(f"{line}\r\n" for line in lines)
