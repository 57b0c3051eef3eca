"""`POST /mcp`: the tools of `foreask_mcp`, for the key or the token of each request.

Each use of a tool sends requests to this application with the same key, so that its permissions are checked as usual.
Only the request to `/mcp` counts towards the rates. A client without a key finds the identity provider in the metadata
of the resource (RFC 9728), which its refusal names.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

import httpx
from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from shared.domain.errors import Forbidden, ForeaskError, NotFound, Unauthorized
from shared.http.access.auth import PERSON_HEADERS, count, identify, is_of_foreign_page, within_counted_request
from shared.http.access.identities import Identities
from shared.http.bodies import read_pieces
from shared.http.feature_routes import FeatureRoutes
from shared.http.problems import reply_to
from shared.http.replies import JsonReply

if TYPE_CHECKING:
    from foreask_mcp.server import HttpServer
    from foreask_mcp.tools import ToolCaller

PATH = "/mcp"
METADATA = "/.well-known/oauth-protected-resource"
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
            await _refusal(error, request)(scope, receive, send)
            return
        served = await self._served()
        await (await served.app())(scope, _replay(body, receive), send)

    def install(self, app: FastAPI) -> None:
        """Serve `/mcp`. The server starts no streams, so GET and DELETE are answered with 405."""
        self._transport = httpx.ASGITransport(within_counted_request(app), raise_app_exceptions=False)
        app.router.routes.append(self.route)
        for resource in ("", PATH):
            described = Route(METADATA + resource, partial(_metadata, resource=resource), include_in_schema=False)
            app.router.routes.append(described)

    async def aclose(self) -> None:
        if self._server is not None:
            await self._server.aclose()

    async def _served(self) -> HttpServer:
        async with self._loading:
            if self._server is None:
                server = await asyncio.to_thread(_load)
                self._server = server(self._caller_of)
            return self._server

    async def _caller_of(self, request: Request) -> ToolCaller:
        """Return the caller with a client, which has the request's key and need not be closed."""
        from foreask_client import AsyncClient  # noqa: PLC0415  `_load` has imported it
        from foreask_mcp.tools import ToolCaller  # noqa: PLC0415  likewise

        headers = {name: request.headers[name] for name in _FORWARDED_HEADERS if name in request.headers}
        client = AsyncClient(
            "http://127.0.0.1",
            timeout_seconds=_CALL_SECONDS,
            attempts=1,
            headers=headers,
            http_transport=self._transport,
        )
        collection = request.query_params.get("collection", "default")
        return ToolCaller(client, request.state.caller.scopes, _address_of(request), collection)


MCP_ROUTES = FeatureRoutes(endpoint=McpEndpoint)


async def _metadata(request: Request, resource: str) -> Response:
    """Return the metadata of a protected resource (RFC 9728), whose address a client compares with the one it uses.

    Args:
        request: the request.
        resource: path of the resource; empty: the whole server.
    """
    identities: Identities | None = request.app.state.api.identities
    if identities is None:
        return reply_to(NotFound("This server has no identity provider: FOREASK_OIDC_ISSUER is not set."), METADATA)
    return JsonReply(
        {
            "resource": f"{_address_of(request)}{resource}",
            "resource_name": "foreask",
            "authorization_servers": [identities.issuer],
            "bearer_methods_supported": ["header"],
        },
        headers={"access-control-allow-origin": "*"},  # clients that run in browsers read it, too; it is public
    )


def _refusal(error: ForeaskError, request: Request) -> Response:
    reply = reply_to(error, PATH)
    if isinstance(error, Unauthorized) and request.app.state.api.identities is not None:
        metadata = f"{_address_of(request)}{METADATA}{PATH}"
        reply.headers["www-authenticate"] = f'Bearer resource_metadata="{metadata}"'
    return reply


def _address_of(request: Request) -> str:
    """Return the address of the server as the client names it, with the prefix of a proxy."""
    return str(request.base_url).rstrip("/")


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
