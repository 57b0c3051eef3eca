"""Messages between the server and the processes of its collections, over a pair of sockets.

A message is a head and a body: in a request the head has the body's length, a number, and the request's kind; in a
reply the number of the request, and whether it was refused. The body of a request is a REST request's body; the body of
a reply is JSON.
"""

from __future__ import annotations

import asyncio
import select
import socket
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from itertools import count

import orjson

from embedded.qdrant.errors import ErrorReply

HEAD = struct.Struct("<IIB")
DONE, REFUSED = 0, 1
_RECEIVED_AT_ONCE = 2**20  # bytes
_NUMBERS = 2**32
Message = tuple[int, int, bytes]  # number, kind or DONE or REFUSED, body


class Kind(IntEnum):
    """The kind of a request. Writes are applied in the order of their arrival; reads may overtake them."""

    QUERY = 0
    RETRIEVE = 1
    SCROLL = 2
    COUNT = 3
    INFO = 4
    UPSERT = 10
    DELETE = 11
    SET_PAYLOAD = 12
    BATCH = 13
    CREATE_INDEX = 14
    HOLD = 20  # after all earlier writes: change no file until RELEASE or the next write
    RELEASE = 21
    REPLAY = 22
    CLOSE = 23

    @property
    def is_read(self) -> bool:
        return self < Kind.UPSERT


def packed(number: int, code: int, body: bytes) -> bytes:
    return HEAD.pack(len(body), number, code) + body


def refusal(error: ErrorReply) -> bytes:
    return orjson.dumps([error.status, error.message])


class Connection:
    """The server's end.

    Args:
        ended: called when the other end is closed.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ended: Callable[[], None]) -> None:
        self._reader = reader
        self._writer = writer
        self._ended = ended
        self._numbers = count(1)
        self.started: asyncio.Future[bytes] = (
            asyncio.get_running_loop().create_future()
        )  # the reply 0, which answers no request
        self._waiting: dict[int, asyncio.Future[bytes]] = {0: self.started}
        self._receiving = asyncio.get_running_loop().create_task(self._receive())

    @classmethod
    async def open(cls, end: socket.socket, ended: Callable[[], None]) -> Connection:
        reader, writer = await asyncio.open_unix_connection(sock=end)
        return cls(reader, writer, ended)

    async def ask(self, kind: Kind, body: bytes = b"") -> bytes:
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

    async def _receive(self) -> None:
        try:
            while True:
                size, number, code = HEAD.unpack(await self._reader.readexactly(HEAD.size))
                body = await self._reader.readexactly(size)
                reply = self._waiting.pop(number)
                if not reply.done():  # cancelled if the caller has disconnected
                    _settle(reply, code, body)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._ended()
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


class Inbox:
    """The collection's end, without an event loop, because the engine is used by one thread."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._buffer = bytearray()

    def receive(self, seconds: float | None) -> list[Message] | None:
        """Wait so long for messages (None: until one arrives) and return the complete ones; None at the end."""
        readable, _, _ = select.select([self._end], [], [], seconds)
        if not readable:
            return []
        received = self._end.recv(_RECEIVED_AT_ONCE)
        if not received:
            return None
        self._buffer += received
        return list(self._messages())

    def reply(self, number: int, code: int, body: bytes) -> None:
        self._end.sendall(packed(number, code, body))

    def _messages(self) -> Iterator[Message]:
        position = 0
        while len(self._buffer) - position >= HEAD.size:
            size, number, code = HEAD.unpack_from(self._buffer, position)
            end = position + HEAD.size + size
            if len(self._buffer) < end:
                break
            yield number, code, bytes(self._buffer[position + HEAD.size : end])
            position = end
        del self._buffer[:position]
