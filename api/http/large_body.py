"""Large bodies that are refused: their clients get the reply, and send the rest to nobody."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from http import HTTPStatus

from starlette.types import Message, Receive, Scope, Send

# A server reads what is left of a body before it reads the next request. So little costs less than a new connection.
_SMALL_BYTES = 1 << 20
# A connection that is closed while its client sends is reset, and a reply that was not read yet may be lost with it. So
# the client has a second to read it. Meanwhile a little is read: who has sent all by then is not reset at all.
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

    Where the application answers without having read the body to its end, the connection ends with the reply. Then
    `end` must be awaited: it may take a second.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._is_read = False  # to its end
        self._is_refused = False

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read = not message.get("more_body", False)  # so has a client that is gone
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
