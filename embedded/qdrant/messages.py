"""Messages between the server and the processes of its collections, over a pair of sockets.

A message is a head and a body: in a request the head has the body's length, a number, and the request's kind; in a
reply the number of the request, and whether it was refused. The body of a request is a REST request's body; the body of
a reply is JSON.
"""

from __future__ import annotations

import select
import socket
import struct
from enum import IntEnum

import orjson

from embedded.qdrant.errors import ErrorReply

HEAD = struct.Struct("<IIB")
DONE, REFUSED = 0, 1
_RECEIVED_AT_ONCE = 2**20  # bytes
Message = tuple[int, int, bytes]  # number, kind or DONE or REFUSED, body


class RequestKind(IntEnum):
    """The kind of a request. Writes are applied in the order of their arrival; reads may overtake them."""

    QUERY = 0
    RETRIEVE = 1
    SCROLL = 2
    COUNT = 3
    INFO = 4
    CANCEL = 9  # the read with this number, unless it is answered; without a reply
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
        return self < RequestKind.UPSERT


def packed(number: int, code: int, body: bytes) -> bytes:
    return HEAD.pack(len(body), number, code) + body


def refusal(error: ErrorReply) -> bytes:
    return orjson.dumps([error.status, error.message])


def taken_messages(received: bytearray) -> list[Message]:
    """Remove the complete messages from the bytes that have arrived, and return them."""
    messages: list[Message] = []
    position = 0
    with memoryview(received) as view:
        while len(view) - position >= HEAD.size:
            size, number, code = HEAD.unpack_from(view, position)
            end = position + HEAD.size + size
            if len(view) < end:
                break
            messages.append((number, code, bytes(view[position + HEAD.size : end])))
            position = end
    del received[:position]
    return messages


class Inbox:
    """The collection's end, without an event loop, because the engine is used by one thread."""

    def __init__(self, end: socket.socket) -> None:
        self._end = end
        self._poll = select.poll()  # unlike `select.select`, it takes every descriptor
        self._poll.register(end, select.POLLIN)
        self._part = memoryview(bytearray(_RECEIVED_AT_ONCE))
        self._received = bytearray()

    def receive(self, seconds: float | None) -> list[Message] | None:
        """Wait so long for messages (None: until one arrives) and return the complete ones; None at the end."""
        if not self._poll.poll(None if seconds is None else seconds * 1000):
            return []
        size = self._end.recv_into(self._part)
        if not size:
            return None
        self._received += self._part[:size]
        return taken_messages(self._received)

    def reply(self, number: int, code: int, body: bytes) -> None:
        self._end.sendall(packed(number, code, body))
