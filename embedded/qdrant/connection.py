"""The server's end of the messages to the process of a collection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from contextlib import suppress
from itertools import count

import orjson

from embedded.qdrant.errors import ErrorReply
from embedded.qdrant.messages import HEAD, REFUSED, RequestKind

_NUMBERS = 2**32


class Connection:
    """A connection over a socket.

    Args:
        started: the reply 0, which answers no request.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        loop = asyncio.get_running_loop()
        self._reader = reader
        self._writer = writer
        self._numbers = count(1)
        self.started: asyncio.Future[bytes] = loop.create_future()
        self._waiting: dict[int, asyncio.Future[bytes]] = {0: self.started}
        self._receiving = loop.create_task(self._receive())

    @classmethod
    async def open(cls, end: socket.socket) -> Connection:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        return cls(reader, writer)

    def watch(self, ended: Callable[[], None]) -> None:
        """Call a function if the other end closes the connection, or if it is closed."""
        self._receiving.add_done_callback(lambda receiving: None if receiving.cancelled() else ended())

    async def ask(self, kind: RequestKind, body: bytes = b"") -> bytes:
        """Send a request, before anything else runs, and return its reply.

        Raises:
            ErrorReply: the request was refused, or the process ended.
        """
        if self._receiving.done():
            raise _gone()
        number = next(self._numbers) % _NUMBERS
        reply: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[number] = reply
        self._writer.write(HEAD.pack(len(body), number, kind))
        self._writer.write(body)
        return await reply

    async def answered(self) -> None:
        """Wait until every request has its reply."""
        if self._waiting:
            await asyncio.wait(list(self._waiting.values()))

    async def close(self) -> None:
        self._receiving.cancel()
        await asyncio.wait([self._receiving])
        self._writer.close()
        with suppress(OSError):
            await self._writer.wait_closed()

    async def _receive(self) -> None:
        try:
            while True:
                size, number, code = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                body = await self._reader.readexactly(size)
                reply = self._waiting.pop(number)
                if not reply.done():  # cancelled if the caller has disconnected
                    _settle(reply, code, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            for reply in self._waiting.values():
                if not reply.done():
                    reply.set_exception(_gone())
            self._waiting.clear()


def _settle(reply: asyncio.Future[bytes], code: int, body: bytes) -> None:
    if code == REFUSED:
        status, message = orjson.loads(body)
        reply.set_exception(ErrorReply(status, message))
    else:
        reply.set_result(body)


def _gone() -> ErrorReply:
    return ErrorReply(500, "Service internal error: the process of the collection ended")
