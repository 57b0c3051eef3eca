"""Routes with a JSON body check the key before they read it, and read it strictly."""

from types import SimpleNamespace

from fastapi.routing import APIRoute, iter_route_contexts

from api.app import create
from shared.http.bodies import MaxBytes
from shared.http.strict_route import StrictRoute
from shared.settings import Settings
from tests.support.api import with_keys

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


async def test_missing_key_is_refused_before_body_is_read():
    for route in routes_with_bodies():
        (method,) = route.methods
        path = route.path.replace("{number}", "1")
        assert await call(method, path) == 401, path
