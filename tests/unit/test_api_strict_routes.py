"""Routes with a JSON body check the key before they read it, and read it strictly."""

from types import SimpleNamespace
from typing import Annotated

import pytest
from fastapi import APIRouter, Body, Depends, Header, Query, Request
from fastapi.dependencies.utils import get_dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.responses import JSONResponse, Response
from starlette.routing import Match

from api.app import create
from shared.http.bodies import MaxBytes
from shared.http.direct_calls import direct_call
from shared.http.strict_route import FixedRoutes, StrictRoute
from shared.settings import Settings
from tests.support.api import with_keys
from tests.support.planted import guards

SETTINGS = with_keys(Settings(_env_file=None))


async def call(method, path, headers=()):
    """Call the application without its lifespan; the body fails the test if it is read."""
    sent = []

    async def receive():
        raise AssertionError("the body was read")

    async def send(message):
        sent.append(message)

    app = create(SETTINGS)
    app.state.api = SimpleNamespace(settings=SETTINGS)
    raw = [(b"content-type", b"application/json"), *headers]
    scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": raw}
    await app(scope | {"root_path": "", "http_version": "1.1"}, receive, send)
    return sent[0]["status"]


def routes_with_bodies():
    contexts = iter_route_contexts(create(SETTINGS).routes)
    routes = [each.original_route for each in contexts if isinstance(each.original_route, APIRoute)]
    return [route for route in routes if route.body_field is not None]


def test_every_typed_body_is_read_strictly():
    routes = routes_with_bodies()

    assert len(routes) > 20
    assert [route.path for route in routes if not isinstance(route, StrictRoute)] == []


def test_body_limit_names_its_setting_if_any():
    assert MaxBytes("max_json_bytes").resolve(SETTINGS) == (SETTINGS.max_json_bytes, "FOREASK_MAX_JSON_BYTES")
    assert MaxBytes(10).resolve(SETTINGS) == (10, None)


@guards(
    "shared/http/strict_route.py",
    "                await each(request)",
    "                pass",
    means="a client without a key sends a body that is read",
)
async def test_missing_key_is_refused_before_body_is_read():
    for route in routes_with_bodies():
        if route.path.startswith("/v1/sign-in/"):  # they need no key
            continue
        (method,) = route.methods
        path = route.path.replace("{number}", "1")
        assert await call(method, path) == (403 if path == "/retrieval" else 401), path  # Dify knows no 401


def test_fixed_routes_are_those_of_router():
    fixed, *others = create(SETTINGS).routes
    assert isinstance(fixed, FixedRoutes)
    router = APIRouter(routes=others)

    assert ("POST", "/v1/retrieve") in fixed.routes
    for (method, path), (route, _) in fixed.routes.items():
        scope = {"type": "http", "method": method, "path": path, "root_path": "", "headers": []}
        assert selected(router, scope) is route, (method, path)


def selected(router, scope):
    """Return the route of the first full match, as the router does."""
    for context in iter_route_contexts(router.routes):
        if context.matches(scope)[0] is Match.FULL:
            return context.original_route
    return None


@guards(
    "shared/http/direct_calls.py",
    "if call.function == dependant.call",
    "if call is dependant",
    means="a request is counted as often as its route names the dependency",
)
async def test_direct_call_supplies_each_dependency_once():
    calls = []

    async def tenant(request: Request) -> str:
        calls.append("tenant")
        return request

    async def caller(name: Annotated[str, Depends(tenant)]) -> list:
        calls.append("caller")
        return [name]

    async def endpoint(
        body: Annotated[dict, Body()], one: Annotated[str, Depends(tenant)], other: Annotated[list, Depends(caller)]
    ) -> Response:
        return JSONResponse([body, one, other])

    call = direct_call(get_dependant(path="/", call=endpoint))

    assert (await call("request", "body")).body == b'["body","request",["request"]]'
    assert calls == ["tenant", "caller"]


@pytest.mark.parametrize("annotation", [Annotated[str, Query()], Annotated[str, Header()], Response])
def test_other_parameters_are_left_to_fastapi(annotation):
    async def dependency(value):
        return value

    async def endpoint(value) -> Response:
        return value

    async def nested(value: Annotated[str, Depends(dependency)]) -> Response:
        return value

    dependency.__annotations__["value"] = endpoint.__annotations__["value"] = annotation

    assert direct_call(get_dependant(path="/", call=endpoint)) is None
    assert direct_call(get_dependant(path="/", call=nested)) is None


def test_endpoint_without_reply_is_left_to_fastapi():
    async def endpoint() -> dict:
        return {}

    assert direct_call(get_dependant(path="/", call=endpoint)) is None
