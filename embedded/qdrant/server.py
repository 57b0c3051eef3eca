"""The REST API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from embedded.qdrant import operations, queries
from embedded.qdrant.errors import ErrorReply, engine_errors, unsupported
from embedded.qdrant.filters import point_ids
from embedded.qdrant.schema import Json
from embedded.qdrant.shard import Make, Shard, parse
from embedded.qdrant.store import Store

VERSION = "1.20.0"  # the version of the REST API
Handler = Callable[["Api", Request], Awaitable[Any]]


def application(store: Store) -> Starlette:
    """Return the application of an open store, which is closed at shutdown."""
    api = Api(store)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        store.start()
        yield
        await store.close()

    routes = [Route(path, _endpoint(api, handler), methods=[method]) for method, path, handler in ROUTES]
    health = [Route(path, _healthy) for path in ("/healthz", "/livez", "/readyz")]
    return Starlette(
        routes=[*health, Route("/", _version), *routes],
        lifespan=lifespan,
        # A page in this machine's browser may have a name of its own resolved to loopback.
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])],
        exception_handlers={HTTPException: _not_routed},
    )


def _endpoint(api: Api, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        try:
            reply = {"result": await handler(api, request), "status": "ok"}
            status = 200
        except ErrorReply as error:
            reply, status = {"status": {"error": error.message}}, error.status
        reply["time"] = time.perf_counter() - started
        content = orjson.dumps(reply, default=queries.encode)
        return Response(content, status, media_type="application/json")

    return endpoint


async def _healthy(_: Request) -> Response:
    return PlainTextResponse("healthz check passed")


async def _version(_: Request) -> Response:
    body = {"title": "qdrant - vector search engine, embedded in foreask", "version": VERSION}
    return Response(orjson.dumps(body), media_type="application/json")


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = unsupported(f"{request.method} {request.url.path}")
    body = {"status": {"error": refusal.message}, "time": 0.0}
    return Response(orjson.dumps(body), refusal.status, media_type="application/json")


class Api:
    """The endpoints, one method each; a method returns the `result` of its request."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def collections(self, _: Request) -> Json:
        return {"collections": [{"name": name} for name in self._store.names()]}

    async def collection(self, request: Request) -> Json:
        return self._shard(request).info()

    async def collection_exists(self, request: Request) -> Json:
        return {"exists": self._store.exists(request.path_params["name"])}

    async def create_collection(self, request: Request) -> bool:
        body = parse(await request.body())
        with engine_errors():
            self._store.create(request.path_params["name"], body)
        return True

    async def update_collection(self, request: Request) -> bool:
        """Start the optimizer if the change is empty; settings cannot be changed."""
        shard, body = await self._read(request)
        if body != {"optimizers_config": {}}:
            raise unsupported("changing the settings of a collection")
        shard.nudge()
        return True

    async def delete_collection(self, request: Request) -> bool:
        return await self._store.delete(request.path_params["name"])

    async def create_index(self, request: Request) -> Json:
        body = parse(await request.body())
        with engine_errors():
            await self._shard(request).create_index(body["field_name"], body.get("field_schema"))
        return _done(request)

    async def upsert(self, request: Request) -> Json:
        return await self._update(request, operations.upsert)

    async def delete_points(self, request: Request) -> Json:
        return await self._update(request, lambda body, *_: operations.delete(body))

    async def set_payload(self, request: Request) -> Json:
        return await self._update(request, lambda body, *_: operations.set_payload(body))

    async def batch(self, request: Request) -> list[Json]:
        count = await self._shard(request).update_batch(await request.body())
        return [_done(request)] * count

    async def retrieve(self, request: Request) -> list[Json]:
        shard, body = await self._read(request)
        with engine_errors():
            payload = queries.with_payload(body, default=True)
            found = shard.engine.retrieve(point_ids(body["ids"]), payload, queries.with_vector(body))
            return queries.records(found)

    async def scroll(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            points, offset = shard.engine.scroll(queries.scroll_request(body))
            return {"points": queries.records(points), "next_page_offset": offset}

    async def count(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            return {"count": shard.engine.count(queries.count_request(body))}

    async def query_batch(self, request: Request) -> list[Json]:
        shard, body = await self._read(request)
        with engine_errors():
            requests = [queries.query_request(search) for search in body["searches"]]
            return [{"points": queries.scored(points)} for points in shard.query(requests)]

    async def _update(self, request: Request, make: Make) -> Json:
        await self._shard(request).update(await request.body(), make)
        return _done(request)

    async def _read(self, request: Request) -> tuple[Shard, Json]:
        body = parse(await request.body())
        return self._shard(request), body

    def _shard(self, request: Request) -> Shard:
        return self._store.shard(request.path_params["name"])


def _done(request: Request) -> Json:
    """Return the result of an update, which is already applied, even if the caller did not ask to wait."""
    waited = request.query_params.get("wait") == "true"
    return {"operation_id": 0, "status": "completed" if waited else "acknowledged"}


_COLLECTION = "/collections/{name}"
_POINTS = _COLLECTION + "/points"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/collections", Api.collections),
    ("GET", _COLLECTION, Api.collection),
    ("PUT", _COLLECTION, Api.create_collection),
    ("PATCH", _COLLECTION, Api.update_collection),
    ("DELETE", _COLLECTION, Api.delete_collection),
    ("GET", _COLLECTION + "/exists", Api.collection_exists),
    ("PUT", _COLLECTION + "/index", Api.create_index),
    ("PUT", _POINTS, Api.upsert),
    ("POST", _POINTS, Api.retrieve),
    ("POST", _POINTS + "/delete", Api.delete_points),
    ("POST", _POINTS + "/payload", Api.set_payload),
    ("POST", _POINTS + "/batch", Api.batch),
    ("POST", _POINTS + "/scroll", Api.scroll),
    ("POST", _POINTS + "/count", Api.count),
    ("POST", _POINTS + "/query/batch", Api.query_batch),
]
