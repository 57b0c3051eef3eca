"""`POST /mcp`: the tools of `shared.mcp`, for the key of each request.

A tool is a request to this application, with the key that came: what it may do is decided where every request is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
from fastapi import FastAPI, Request
from starlette.routing import Route
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from api.access.auth import hold_slot, identify
from api.http.bodies import read_pieces
from api.http.problems import reply_to
from shared.domain.errors import Forbidden, ForeaskError
from shared.domain.keys import Scope
from shared.mcp.tools import Api

if TYPE_CHECKING:
    from shared.mcp.server import HttpServer

PATH = "/mcp"
_PASSED_ON = ("authorization", "x-api-key", "host", "x-request-id")
_CALL_SECONDS = 300
_MAX_BODY_BYTES = 1024 * 1024  # a body is held in memory; a larger document is for POST /v1/documents


class McpEndpoint:
    """Checks the key, then lets the SDK answer; the SDK is loaded with the first request."""

    def __init__(self, app: FastAPI) -> None:
        transport = httpx.ASGITransport(app, raise_app_exceptions=False)
        self._client = httpx.AsyncClient(
            transport=transport, base_url="http://127.0.0.1", timeout=httpx.Timeout(_CALL_SECONDS)
        )
        self.route = Route(PATH, self, methods=["POST"], include_in_schema=False)
        self._loading = asyncio.Lock()
        self._server: HttpServer | None = None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route  # whose path the log, the metrics and the span name
        request = Request(scope, receive)
        try:
            _require_own_page(request)
            caller = await identify(request)
            if caller.tenant:  # an operator has no limits, and no tools either
                hold_slot(request, caller)
            body = b"".join([piece async for piece in read_pieces(request, _MAX_BODY_BYTES)])
        except ForeaskError as error:
            await reply_to(error, PATH)(scope, receive, send)
            return
        served = await self._served()
        await (await served.app())(scope, _replay(body, receive), send)

    async def aclose(self) -> None:
        if self._server is not None:
            await self._server.aclose()
        await self._client.aclose()

    async def _served(self) -> HttpServer:
        async with self._loading:
            if self._server is None:
                server = await asyncio.to_thread(_load)
                self._server = server(self._caller_of)
            return self._server

    async def _caller_of(self, request: Request) -> tuple[Api, AbstractSet[Scope]]:
        headers = {name: request.headers[name] for name in _PASSED_ON if name in request.headers}
        return Api(self._client, headers), request.state.caller.scopes


def install(app: FastAPI) -> None:
    """Serve `/mcp`. There is no stream that a server begins, so GET and DELETE are answered 405."""
    app.state.mcp = McpEndpoint(app)
    app.router.routes.append(app.state.mcp.route)


def _load() -> type[HttpServer]:
    from shared.mcp.server import HttpServer  # noqa: PLC0415  its SDK takes 0.3 s to load

    return HttpServer


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give a body that was read once more, then what comes after it."""
    read: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_again() -> Message:
        return next(read, None) or await receive()

    return receive_again


def _require_own_page(request: Request) -> None:
    """Refuse a page of another site.

    Raises:
        Forbidden: the request names such a page as its origin.
    """
    origin = request.headers.get("origin")
    if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise Forbidden("Pages of other sites may not use the tools.")
