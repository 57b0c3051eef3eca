"""`POST /mcp`: the tools of `foreask_mcp`, for the key of each request.

Each use of a tool sends requests to this application with the same key, so that its permissions are checked as usual.
Only the request to `/mcp` counts towards the rates.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI, Request
from starlette.routing import Route
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from shared.domain.errors import Forbidden, ForeaskError
from shared.http.access.auth import PERSON_HEADERS, count, identify, is_of_foreign_page, within_counted_request
from shared.http.bodies import read_pieces
from shared.http.feature_routes import FeatureRoutes
from shared.http.problems import reply_to

if TYPE_CHECKING:
    from foreask_client import AsyncClient
    from foreask_mcp.server import HttpServer

PATH = "/mcp"
_FORWARDED_HEADERS = ("authorization", "x-api-key", *PERSON_HEADERS, "host", "x-request-id")
_CALL_SECONDS = 300
_MAX_BODY_BYTES = 1024 * 1024  # a body is held in memory; POST /v1/documents accepts larger documents


class McpEndpoint:
    """Checks the key, then passes the request to the SDK, which is imported on the first request."""

    def __init__(self) -> None:
        self._transport: httpx.ASGITransport | None = None
        self.route = Route(PATH, self, methods=["POST"], include_in_schema=False)
        self._loading = asyncio.Lock()
        self._server: HttpServer | None = None

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        scope["route"] = self.route  # its path is used in the log, the metrics and the span
        request = Request(scope, receive)
        try:
            _require_own_page(request)
            caller = await identify(request)
            await count(request, caller)
            body = b"".join([piece async for piece in read_pieces(request, _MAX_BODY_BYTES)])
        except ForeaskError as error:
            await reply_to(error, PATH)(scope, receive, send)
            return
        served = await self._served()
        await (await served.app())(scope, _replay(body, receive), send)

    def install(self, app: FastAPI) -> None:
        """Serve `/mcp`. The server starts no streams, so GET and DELETE are answered with 405."""
        self._transport = httpx.ASGITransport(within_counted_request(app), raise_app_exceptions=False)
        app.router.routes.append(self.route)

    async def aclose(self) -> None:
        if self._server is not None:
            await self._server.aclose()

    async def _served(self) -> HttpServer:
        async with self._loading:
            if self._server is None:
                server = await asyncio.to_thread(_load)
                self._server = server(self._caller_of)
            return self._server

    async def _caller_of(self, request: Request) -> tuple[AsyncClient, AbstractSet[str]]:
        """Return a client with the request's key, which need not be closed, and the scopes of the key."""
        from foreask_client import AsyncClient  # noqa: PLC0415  `_load` has imported it

        headers = {name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers}
        client = AsyncClient(
            "http://127.0.0.1",
            timeout_seconds=_CALL_SECONDS,
            attempts=1,
            headers=headers,
            http_transport=self._transport,
        )
        return client, request.state.caller.scopes


MCP_ROUTES = FeatureRoutes(endpoint=McpEndpoint)


def _load() -> type[HttpServer]:
    from foreask_mcp.server import HttpServer  # noqa: PLC0415  its SDK takes 0.3 s to load

    return HttpServer


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receiver that repeats a body, then continues with the messages after it."""
    read: Iterator[Message] = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive_again() -> Message:
        return next(read, None) or await receive()

    return receive_again


def _require_own_page(request: Request) -> None:
    """Reject requests from pages of other sites.

    Raises:
        Forbidden: the request's origin is such a page.
    """
    if is_of_foreign_page(request):
        raise Forbidden("Pages of other sites may not use the tools.")
