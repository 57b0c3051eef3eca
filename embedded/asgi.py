"""An ASGI application on loopback with quiet logs."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from hmac import compare_digest
from pathlib import Path
from typing import Any, cast

import orjson
import uvicorn
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from shared.http.quiet_server import QuietServer

_NOT_STARTED = 3  # exit code, as of uvicorn's command
KEY_HEADERS = {b"api-key", b"authorization"}  # of Qdrant's clients and of OpenAI's


class Json(Response):
    """A reply encoded by orjson."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


class RequiredKey:
    """Middleware that refuses requests without the key of the server, because every user of the machine can send some.

    Args:
        key_file: file of the key, which only the server's user can read.
        open_paths: paths that are answered without the key, because they reveal no data.
        refusal: reply to a request without the key.
    """

    def __init__(self, app: ASGIApp, key_file: Path, open_paths: AbstractSet[str], refusal: Response) -> None:
        self._app = app
        self._key = key_file.read_bytes()
        self._open_paths = open_paths
        self._refusal = refusal

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_served = scope["type"] != "http" or scope["path"] in self._open_paths or self._has_key(scope["headers"])
        await (self._app if is_served else self._refusal)(scope, receive, send)

    def _has_key(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        given = (value.removeprefix(b"Bearer ") for name, value in headers if name in KEY_HEADERS)
        return any(compare_digest(key, self._key) for key in given)


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
    config = uvicorn.Config(
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
    server = QuietServer(config)
    server.run()
    if not server.started:
        sys.exit(_NOT_STARTED)
