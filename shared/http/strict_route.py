"""Routes whose JSON bodies are read strictly, after the key was checked."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

from fastapi import Request
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from starlette.responses import Response

from shared.http.bodies import SMALL_BODY, MaxBytes, read_json


class BeforeBody(ABC):
    """A dependency that is called before the body is read, and again by FastAPI: the second call repeats nothing."""

    @abstractmethod
    async def __call__(self, request: Request) -> Any: ...


class StrictRoute(APIRoute):
    """A route with a body as a typed parameter: `body: QueryBody`, or `body: Annotated[ChatBody, CHAT_BODY]`.

    FastAPI describes the body in the OpenAPI document, and calls the route. It does not parse the body, because it
    would read the body before it calls the dependencies: a client without a key could send megabytes. Its parser also
    accepts NaN and lone surrogates, and blocks other requests while it decodes a large body.
    """

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()
        if self.body_field is None:
            return handle
        model: Any = self.body_field.field_info.annotation
        limits = [each for each in self.body_field.field_info.metadata if isinstance(each, MaxBytes)]
        limit = limits[0] if limits else SMALL_BODY
        checks = list(_before_body(self.dependant))

        async def handle_strictly(request: Request) -> Response:
            for check in checks:
                await check(request)
            body = await read_json(request, model, limit)
            return await handle(_ReadRequest(request, body))

        return handle_strictly


class _ReadRequest(Request):
    """A request whose body is a validated model; FastAPI validates it again, which returns the same model."""

    def __init__(self, request: Request, body: object) -> None:
        super().__init__(request.scope, request.receive)
        self._model = body

    async def body(self) -> bytes:
        return b"read"  # FastAPI calls `json` unless the body is empty

    async def json(self) -> Any:
        return self._model


def _before_body(dependant: Dependant) -> Iterator[BeforeBody]:
    for dependency in dependant.dependencies:
        if isinstance(dependency.call, BeforeBody):
            yield dependency.call
        yield from _before_body(dependency)
