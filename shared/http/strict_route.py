"""Routes whose JSON bodies are read strictly, after the key was checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable, Iterator
from functools import cached_property
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.responses import Response
from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from shared.http.bodies import SMALL_BODY, MaxBytes, read_json
from shared.http.direct_calls import Endpoint, direct_call

Handler = Callable[[Request], Coroutine[Any, Any, Any]]

_BY_FASTAPI = "foreask.by_fastapi"  # set in the scope of a request that only FastAPI can serve


class BeforeBody(ABC):
    """A dependency that is called before the body is read, and again by FastAPI: the second call repeats nothing."""

    @abstractmethod
    async def __call__(self, request: Request) -> Any: ...


class StrictRoute(APIRoute):
    """A route with a body as a typed parameter: `body: QueryBody`, or `body: Annotated[ChatBody, CHAT_BODY]`.

    FastAPI describes the body in the OpenAPI document. It does not parse the body, because it would read the body
    before it calls the dependencies: a client without a key could send megabytes. Its parser also accepts NaN and lone
    surrogates, and blocks other requests while it decodes a large body.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return self.with_errors(handle)

        async def read(request: Request) -> Response:
            return await handle(_ReadRequest(request, await self._read(request)))

        return self.with_errors(self._checked(read))

    def handler_before_fastapi(self) -> Handler:
        """Return the function that serves a request without FastAPI, or at least refuses it.

        The function returns an ASGI application: the reply, or FastAPI's router.
        """
        call = direct_call(self.dependant)
        return self.with_errors(self._checked(_by_fastapi if call is None else self._calling(call)))

    def with_errors(self, handle: Handler) -> Handler:
        """Return a function that answers errors in the format of the route; here problem details, as everywhere."""
        return handle

    def _calling(self, call: Endpoint) -> Handler:
        async def handle(request: Request) -> Response:
            return await call(request, None if self.body_field is None else await self._read(request))

        return handle

    def _checked(self, handle: Handler) -> Handler:
        checks = list(_before_body(self.dependant))

        async def check(request: Request) -> Any:
            for each in checks:
                await each(request)
            return await handle(request)

        return check

    async def _read(self, request: Request) -> Any:
        model, limit = self._body
        return await read_json(request, model, limit)

    @cached_property
    def _body(self) -> tuple[Any, MaxBytes]:
        assert self.body_field is not None
        field = self.body_field.field_info
        limits = [each for each in field.metadata if isinstance(each, MaxBytes)]
        return field.annotation, limits[0] if limits else SMALL_BODY


class FixedRoutes(BaseRoute):
    """Finds strict routes with a fixed address in a table; the router compares a request with one after the other.

    Args:
        routes: the routes of the router.
    """

    def __init__(self, routes: Iterable[BaseRoute]) -> None:
        self.routes: dict[tuple[str, str], tuple[StrictRoute, Handler]] = {}
        for context in iter_route_contexts(list(routes)):
            route, path = context.original_route, context.path or ""
            if isinstance(route, StrictRoute) and "{" not in path:
                found = route, route.handler_before_fastapi()
                self.routes |= {(method, path): found for method in context.methods or ()}

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        found = None
        if scope["type"] == "http" and not scope.get("root_path") and _BY_FASTAPI not in scope:
            found = self.routes.get((scope["method"], scope["path"]))
        if found is None:
            return Match.NONE, {}
        route, handle = found
        return Match.FULL, {"route": route, "endpoint": handle}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        reply: ASGIApp = await scope["endpoint"](Request(scope, receive, send))
        await reply(scope, receive, send)


class _ReadRequest(Request):
    """A request whose body is a validated model; FastAPI validates it again, which returns the same model."""

    def __init__(self, request: Request, body: object) -> None:
        super().__init__(request.scope, request.receive)
        self._model = body

    async def body(self) -> bytes:
        return b"read"  # FastAPI calls `json` unless the body is empty

    async def json(self) -> Any:
        return self._model


async def _by_fastapi(request: Request) -> ASGIApp:
    request.scope[_BY_FASTAPI] = True
    router: ASGIApp = request.app.router
    return router


def _before_body(dependant: Dependant) -> Iterator[BeforeBody]:
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, BeforeBody):
            yield dependency.call
        yield from _before_body(dependency)
