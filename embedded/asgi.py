"""An ASGI application on loopback with quiet logs."""

from __future__ import annotations

import asyncio
import sys
from typing import Any, cast

import orjson
import uvicorn
from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class Json(Response):
    """A reply encoded by orjson."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class JoinedWrites:
    """A transport that writes the head and the body of a reply together. Two writes would wake the client twice."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._parts: list[bytes] = []

    def write(self, data: bytes) -> None:
        if not self._parts:
            self._loop.call_soon(self._flush)
        self._parts.append(data)

    def close(self) -> None:
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._parts:
            self._transport.writelines(self._parts)
            self._parts = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class JoiningProtocol(HttpToolsProtocol):
    """uvicorn's protocol over `JoinedWrites`."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(cast("asyncio.Transport", JoinedWrites(transport, self.loop)))


def serve(application: Any, port: int, *, graceful_seconds: int = 10) -> None:
    """Serve until SIGTERM or SIGINT; only errors are logged."""
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=port,
        http=JoiningProtocol,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        log_level="error",
        access_log=False,
        ws="none",
        backlog=1024,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=graceful_seconds,
    )
