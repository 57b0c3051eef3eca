"""One connection without TLS, which sends one request at a time and reads its reply."""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

import httptools

from shared.process.network.http.errors import ConnectionLost, UnreadableReply
from shared.process.network.http.replies import TOO_LARGE, Reply, decompressed

_MAX_HEAD_BYTES = 64 * 1024
_FRAMING_BYTES = 1 << 20  # of chunks around a body, and of headers
_INFORMATIONAL = 200  # replies with a smaller status precede the reply
_ACKNOWLEDGED = 120  # offset of `tcpi_bytes_acked` in the kernel's `struct tcp_info`


class Connection(asyncio.Protocol):
    """A connection; its owner sends a request only while it is idle.

    The parser has no limits of its own, so bytes are counted before they are parsed.

    Args:
        opened: the connected socket.
        largest_reply_bytes: maximum size of a reply's content.
        on_lost: called once when the connection ends.

    Attributes:
        may_have_sent: whether the server may have received a part of the request that lost its connection. Certainly
            not if it sent nothing, and its kernel has acknowledged no byte of the request: it had closed the
            connection before, or a router had forgotten it. Only Linux reports this; elsewhere the attribute is true.
    """

    def __init__(self, opened: socket.socket, largest_reply_bytes: int, on_lost: Callable[[Connection], None]) -> None:
        self._socket = opened
        self._largest_bytes = largest_reply_bytes
        self._on_lost = on_lost
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport
        self._waiting: asyncio.Future[Reply] | None = None
        self._acknowledged: int | None = None
        self._start()
        self.is_reused = False
        self.idle_since = 0.0
        self.may_have_sent = True

    def _start(self) -> None:
        self._received = 0
        self._has_head = self._has_length = self._is_complete = False
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []

    @property
    def is_usable(self) -> bool:
        """Whether another request can be sent."""
        return self._is_complete and not self._transport.is_closing()

    @property
    def _is_waiting(self) -> bool:
        return self._waiting is not None and not self._waiting.done()

    async def exchange(self, head: bytes, body: bytes) -> Reply:
        """Send a request and return its reply.

        Args:
            head: request line and headers, with the empty line at their end.
            body: body; may be empty.

        Raises:
            ConnectionLost: the connection ended before the end of the reply.
            UnreadableReply: the reply is not HTTP, or is too large.
        """
        self._start()
        self._acknowledged = _acknowledged(self._socket) if self.is_reused else None
        self._waiting = asyncio.get_running_loop().create_future()
        self._transport.writelines((head, body))
        try:
            return await self._waiting
        finally:
            self._waiting = None

    def abort(self) -> None:
        self._transport.abort()

    # The methods of asyncio

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if not self._is_waiting:  # of no request
            self.abort()
            return
        self._received += len(data)
        self._try(self._read, data)

    def _read(self, data: bytes) -> None:
        self._parser.feed_data(data)
        if self._received > self._largest_bytes + _FRAMING_BYTES:
            raise UnreadableReply(TOO_LARGE)
        if not (self._has_head or self._is_complete) and self._received > _MAX_HEAD_BYTES:
            raise UnreadableReply("the headers of the reply are too large")

    def _try(self, read: Callable[..., None], *arguments: bytes) -> None:
        """Call a function that reads a part of the reply; its errors reach the caller of `exchange`."""
        try:
            read(*arguments)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade, UnreadableReply) as error:
            cause = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
            if self._waiting is not None and not self._waiting.done():
                self._waiting.set_exception(cause if isinstance(cause, UnreadableReply) else _unreadable(error))
            self.abort()

    def eof_received(self) -> None:
        if self._is_waiting and self._has_head and not self._has_length:  # the end of the connection ends the body
            self._try(self.on_message_complete)

    def connection_lost(self, error: Exception | None) -> None:
        if self._waiting is not None and not self._waiting.done():
            known = self._acknowledged is not None and self._received == 0
            self.may_have_sent = not (known and self._acknowledged == _acknowledged(self._socket))
            lost = ConnectionLost("the connection was lost")
            lost.__cause__ = error
            self._waiting.set_exception(lost)
        self._on_lost(self)

    # The methods that the parser calls

    def on_message_begin(self) -> None:
        if self._is_complete:  # more than the reply
            self.abort()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._has_head or self._is_complete:  # a trailer, or not of the reply
            return
        field = name.decode("latin-1").lower()
        self._headers.setdefault(field, value.decode("utf-8", "surrogateescape"))

    def on_headers_complete(self) -> None:
        if self._is_informational or self._is_complete:
            return
        self._has_head = True
        coded = self._headers.get("transfer-encoding", "").lower()
        self._has_length = "content-length" in self._headers or coded.endswith("chunked")

    def on_body(self, body: bytes) -> None:
        self._body.append(body)

    def on_message_complete(self) -> None:
        if self._is_complete:
            return
        if self._is_informational:
            self._headers = {}
            return
        if not self._parser.should_keep_alive():
            self._transport.close()
        assert self._waiting is not None
        content = b"".join(self._body)
        if coding := self._headers.get("content-encoding", "").strip().lower():
            content = decompressed(content, coding, self._largest_bytes)
        self._is_complete = True
        self._waiting.set_result(Reply(self._parser.get_status_code(), self._headers, content))
        self._headers, self._body = {}, []

    @property
    def _is_informational(self) -> bool:
        return self._parser.get_status_code() < _INFORMATIONAL


def _unreadable(error: Exception) -> UnreadableReply:
    unreadable = UnreadableReply("the reply is not HTTP")
    unreadable.__cause__ = error
    return unreadable


def _acknowledged(opened: socket.socket) -> int | None:
    """Return the number of bytes that the other end's kernel has acknowledged; None if it is unknown."""
    if sys.platform != "linux":
        return None
    try:
        info: Any = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _ACKNOWLEDGED + 8)
        return int(struct.unpack_from("Q", info, _ACKNOWLEDGED)[0])
    except (OSError, struct.error):  # closed, or an old kernel
        return None
