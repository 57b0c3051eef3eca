"""The server's end of the messages to the process of a collection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from itertools import count
from typing import cast

import orjson

from embedded.qdrant.errors import ErrorReply
from embedded.qdrant.messages import HEAD, REFUSED, RequestKind, packed, taken_messages

_NUMBERS = 2**32


class Connection(asyncio.Protocol):
    """A connection over a socket, without streams, which would wake a task for each part of a reply.

    Args:
        started: the reply 0, which answers no request.
    """

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._numbers = count(1)
        self._received = bytearray()
        self.started: asyncio.Future[bytes] = loop.create_future()
        self._waiting: dict[int, asyncio.Future[bytes]] = {0: self.started}
        self._lost: asyncio.Future[None] = loop.create_future()
        self._closed = False
        self._transport: asyncio.Transport

    @classmethod
    async def open(cls, end: socket.socket) -> Connection:
        _, connection = await asyncio.get_running_loop().create_unix_connection(cls, sock=end)
        return connection

    def watch(self, ended: Callable[[], None]) -> None:
        """Call a function if the other end closes the connection, or if it has closed it."""
        self._lost.add_done_callback(lambda _: None if self._closed else ended())

    async def ask(self, kind: RequestKind, body: bytes = b"") -> bytes:
        """Send a request, before anything else runs, and return its reply; a cancelled read is not executed further.

        Raises:
            ErrorReply: the request was refused, or the process ended.
        """
        if self._closed or self._lost.done():
            raise _closed_error()
        number = next(self._numbers) % _NUMBERS
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        # In one write: two would wake the other end twice.
        self._transport.writelines((HEAD.pack(len(body), number, kind), body))
        try:
            return await reply
        except asyncio.CancelledError:
            if kind.is_read and self._waiting.pop(number, None) is not None and not self._closed:
                self._transport.write(packed(number, RequestKind.CANCEL, b""))
            raise

    async def answered(self) -> None:
        """Wait until every request has its reply."""
        if self._waiting:
            await asyncio.wait(list(self._waiting.values()))

    async def close(self) -> None:
        self._closed = True
        self._transport.abort()
        await asyncio.wait([self._lost])

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's class is not derived from it

    def data_received(self, data: bytes) -> None:
        self._received += data
        for number, code, body in taken_messages(self._received):
            reply = self._waiting.pop(number, None)
            if reply is not None and not reply.done():  # else the caller has disconnected
                _settle(reply, code, body)

    def connection_lost(self, _: Exception | None) -> None:
        self._lost.set_result(None)
        for reply in self._waiting.values():
            if not reply.done():
                reply.set_exception(_closed_error())
        self._waiting.clear()


def _settle(reply: asyncio.Future[bytes], code: int, body: bytes) -> None:
    if code == REFUSED:
        status, message = orjson.loads(body)
        reply.set_exception(ErrorReply(status, message))
    else:
        reply.set_result(body)


def _closed_error() -> ErrorReply:
    return ErrorReply(500, "Service internal error: the process of the collection ended")
