"""Rejected large bodies: their clients receive the reply, and the rest is not read."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from starlette.types import Message, Receive, Scope, Send

# A server reads the rest of a body before the next request. Up to this size that costs less than a new connection.
_SMALL_BYTES = 1 << 20
# A connection that is closed while its client sends is reset, and an unread reply may be lost. Therefore the client has
# a second to read it. Meanwhile a little is read: a client that finishes sending by then is not reset.
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1 << 20


def is_large(scope: Scope) -> bool:
    """Whether a request announces a large body, or one of unknown size."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return not value.isdigit() or len(value) > 9 or int(value) > _SMALL_BYTES  # noqa: PLR2004  digits
        if name == b"transfer-encoding":
            return True
    return False


class LargeBody:
    """Stands between the server and the application for one request.

    If the application replies without reading the whole body, the connection ends with the reply. Then `end` must be
    awaited: it may take a second.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = False  # to its end
        self._is_refused = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read = not message.get("more_body", False)  # so has a disconnected client
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._is_refused = not self._is_read
            if self._is_refused:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
        elif self._is_refused:
            message = {**message, "more_body": True}  # the server closes after the last piece
        await self._send(message)

    async def end(self) -> None:
        """Let the client read the reply, and close the connection."""
        if not self._is_refused:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._discard()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _discard(self) -> None:
        left = _LINGER_BYTES
        while left > 0 and not self._is_read:
            message = await self.receive()
            left -= len(message.get("body", b""))
        if not self._is_read:
            await asyncio.sleep(_LINGER_SECONDS)
