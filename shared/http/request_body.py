"""The body of a request between the server and the application: bounded in bytes and in time.

A rejected large body is not read: its client receives the reply, and the connection is closed.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from http import HTTPStatus

from fastapi import Request
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from shared.domain.errors import TooLarge
from shared.http.problems import SlowBody, UnsupportedMedia
from shared.settings import Settings

# A trickling body occupies one of the process's concurrent requests, like a stalled one.
_SLOWEST_BYTES_PER_SECOND = 100
# A server reads the rest of a body before the next request. Up to this size that costs less than a new connection.
_SMALL_BYTES = 1 << 20
# A connection that is closed while its client sends is reset, and an unread reply may be lost. Therefore the client has
# a second to read it. Meanwhile a little is read: a client that finishes sending by then is not reset.
_LINGER_SECONDS = 1.0
_LINGER_BYTES = 1 << 20


class BodyMiddleware:
    """Gives each request its `RequestBody`.

    Args:
        app: the application.
        settings: the limits that routes may name, and the timeout of a stalled body.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = RequestBody(scope, receive, send, self._settings)
        scope.setdefault("state", {})["body"] = body
        await self._app(scope, body.receive, body.send)
        await body.finish()


class RequestBody:
    """The body of one request.

    The route sets the limits by `limit`. A route that does not read its body sets none, and messages pass unchecked:
    the listener for a disconnected client receives them.

    Args:
        scope: scope of the request.
        receive: receives from the server.
        send: sends to the server.
        settings: settings of the process.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
        self.settings = settings
        self._headers = Headers(scope=scope)
        self._is_large = is_large(scope)
        self._receive = receive
        self._send = send
        self._timeout_seconds = settings.api_body_timeout.total_seconds()
        self._max_bytes: int | None = None
        self._setting: str | None = None
        self._size = 0
        self._waited_seconds = 0.0
        self._is_read = False  # to its end
        self._is_refused = False

    def limit(self, max_bytes: int, setting: str | None = None) -> None:
        """Set the maximum size, and check the headers.

        If the application replies with an error before a large body is read, the connection ends with the reply.

        Args:
            max_bytes: maximum size of the body.
            setting: name of the setting with `max_bytes`, for the error; None if there is none.

        Raises:
            UnsupportedMedia: the body is compressed, so its true size is unknown.
            TooLarge: the Content-Length exceeds `max_bytes`.
        """
        self._max_bytes, self._setting = max_bytes, setting
        if self._headers.get("content-encoding", "identity").lower() != "identity":
            raise UnsupportedMedia("Send the body without Content-Encoding.")
        announced = self._headers.get("content-length", "")
        if announced.isdecimal() and int(announced[:20]) > max_bytes:
            raise _too_large(max_bytes, setting)

    async def receive(self) -> Message:
        """Receive the next message; only the time spent waiting for the client counts.

        Raises:
            TooLarge: the body exceeds its maximum size.
            SlowBody: no piece arrived for `FOREASK_API_BODY_TIMEOUT`, or hardly any bytes for longer than that.
        """
        if self._max_bytes is None or self._is_read:
            return await self._receive_next()
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_seconds):
                message = await self._receive_next()
        except TimeoutError:
            raise _slow(self._timeout_seconds) from None
        self._size += len(message.get("body", b""))
        self._waited_seconds += time.monotonic() - started
        if self._waited_seconds > self._timeout_seconds + self._size / _SLOWEST_BYTES_PER_SECOND:
            raise _slow(self._timeout_seconds)
        if self._size > self._max_bytes:
            raise _too_large(self._max_bytes, self._setting)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] >= HTTPStatus.BAD_REQUEST:
            self._is_refused = self._is_large and not self._is_read
            if self._is_refused:
                message["headers"] = [*message.get("headers", []), (b"connection", b"close")]
        elif self._is_refused:
            message = {**message, "more_body": True}  # the server closes after the last piece
        await self._send(message)

    async def finish(self) -> None:
        """If the body was refused, give the client a second to read the reply, and close the connection."""
        if not self._is_refused:
            return
        with suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_SECONDS):
                await self._discard()
        await self._send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _receive_next(self) -> Message:
        message = await self._receive()
        self._is_read = not message.get("more_body", False)  # a disconnected client sends nothing more either
        return message

    async def _discard(self) -> None:
        left = _LINGER_BYTES
        while left > 0 and not self._is_read:
            message = await self._receive_next()
            left -= len(message.get("body", b""))
        if not self._is_read:
            await asyncio.sleep(_LINGER_SECONDS)


def body_of(request: Request) -> RequestBody:
    body: RequestBody = request.scope["state"]["body"]
    return body


def is_large(scope: Scope) -> bool:
    """Return whether a request announces a large body, or one of unknown size."""
    for name, value in scope["headers"]:
        if name == b"content-length":
            return not value.isdigit() or len(value) > 9 or int(value) > _SMALL_BYTES  # noqa: PLR2004  digits
        if name == b"transfer-encoding":
            return True
    return False


def _slow(seconds: float) -> SlowBody:
    return SlowBody(f"The body stalled for {seconds:g} s, or arrived too slowly: send it again without interruption.")


def _too_large(max_bytes: int, setting: str | None) -> TooLarge:
    named = f" ({setting})" if setting else ""
    return TooLarge(f"The request is larger than {max_bytes:,} bytes{named}.")
