"""The REST API."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from embedded.asgi import RequiredKey
from embedded.qdrant.collection import ServedCollection
from embedded.qdrant.errors import ErrorReply, engine_errors, unsupported
from embedded.qdrant.messages import RequestKind
from embedded.qdrant.schema import Json
from embedded.qdrant.shard import parse
from embedded.qdrant.store import Store

_LONGEST_SECONDS = 2**31
VERSION = "1.20.0"  # the version of the REST API
_HEALTH = ("/healthz", "/livez", "/readyz")
Handler = Callable[["Api", Request], Awaitable[Any]]


def application(store: Store, key_file: Path) -> Starlette:
    """Return the application of an open store, which is closed at shutdown, for clients with the key in a file."""
    api = Api(store)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await store.start()
        yield
        await store.close()

    routes = [Route(path, _endpoint(api, handler), methods=[method]) for method, path, handler in ROUTES]
    health = [Route(path, _healthy) for path in _HEALTH]
    refusal = PlainTextResponse("Must provide an API key or an Authorization bearer token", 401)
    return Starlette(
        routes=[*routes, *health, Route("/", _version)],
        lifespan=lifespan,
        # A page in this machine's browser may have a name of its own resolved to loopback.
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"]),
            Middleware(RequiredKey, key_file=key_file, open_paths={"/", *_HEALTH}, refusal=refusal),
        ],
        exception_handlers={HTTPException: _not_routed},
    )


def _endpoint(api: Api, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        try:
            result, status = await handler(api, request), 200
            reply: Json = {"result": orjson.Fragment(result) if isinstance(result, bytes) else result, "status": "ok"}
        except ErrorReply as error:
            reply, status = {"status": {"error": error.message}}, error.status
        reply["time"] = time.perf_counter() - started
        return Response(orjson.dumps(reply), status, media_type="application/json")

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
    """The endpoints, one method each; a method returns the `result` of its request, bytes if it is JSON already."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def collections(self, _: Request) -> Json:
        return {"collections": [{"name": name} for name in self._store.names()]}

    async def collection(self, request: Request) -> Json:
        return await self._collection(request).info()

    async def collection_exists(self, request: Request) -> Json:
        return {"exists": self._store.exists(request.path_params["name"])}

    async def create_collection(self, request: Request) -> bool:
        body = parse(await request.body())
        with engine_errors():
            await self._store.create(request.path_params["name"], body)
        return True

    async def update_collection(self, request: Request) -> bool:
        """Start the optimizer if the change is empty; settings cannot be changed."""
        body = parse(await request.body())
        collection = self._collection(request)
        if body != {"optimizers_config": {}}:
            raise unsupported("changing the settings of a collection")
        collection.nudge()
        return True

    async def delete_collection(self, request: Request) -> bool:
        return await self._store.delete(request.path_params["name"])

    async def create_index(self, request: Request) -> Json:
        await self._collection(request).create_index(await request.body())
        return _done(request)

    async def upsert(self, request: Request) -> Json:
        return await self._update(request, RequestKind.UPSERT)

    async def delete_points(self, request: Request) -> Json:
        return await self._update(request, RequestKind.DELETE)

    async def set_payload(self, request: Request) -> Json:
        return await self._update(request, RequestKind.SET_PAYLOAD)

    async def batch(self, request: Request) -> list[Json]:
        count = await self._collection(request).write(RequestKind.BATCH, await request.body())
        return [_done(request)] * count

    async def retrieve(self, request: Request) -> bytes:
        return await self._read(request, RequestKind.RETRIEVE)

    async def scroll(self, request: Request) -> bytes:
        return await self._read(request, RequestKind.SCROLL)

    async def count(self, request: Request) -> bytes:
        return await self._read(request, RequestKind.COUNT)

    async def query_batch(self, request: Request) -> bytes:
        """Search until the deadline that the request names; a search whose client disconnects is cancelled."""
        body, seconds = await request.body(), _deadline(request)
        searching = asyncio.ensure_future(self._collection(request).read(RequestKind.QUERY, body))
        leaving = asyncio.ensure_future(_disconnected(request))
        try:
            done, _ = await asyncio.wait({searching, leaving}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if searching in done:
                return searching.result()
        finally:
            searching.cancel()
            leaving.cancel()
        raise ErrorReply(408, f"Timeout error: Operation 'Query' timed out after {seconds} seconds")

    async def _update(self, request: Request, kind: RequestKind) -> Json:
        await self._collection(request).write(kind, await request.body())
        return _done(request)

    async def _read(self, request: Request, kind: RequestKind) -> bytes:
        return await self._collection(request).read(kind, await request.body())

    def _collection(self, request: Request) -> ServedCollection:
        return self._store.collection(request.path_params["name"])


def _deadline(request: Request) -> int | None:
    """Return the `timeout` of a request in seconds; None without one."""
    value = request.query_params.get("timeout")
    if value is None:
        return None
    if not value.isdecimal() or not 1 <= int(value) <= _LONGEST_SECONDS:
        raise ErrorReply(400, "Format error in query string: timeout must be a positive number of seconds")
    return int(value)


async def _disconnected(request: Request) -> None:
    """Wait until the client disconnects; the body must have been read."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _done(request: Request) -> Json:
    """Return the result of an update, which is already applied, even if the caller did not ask to wait."""
    waited = request.query_params.get("wait") == "true"
    return {"operation_id": 0, "status": "completed" if waited else "acknowledged"}


_COLLECTION = "/collections/{name}"
_POINTS = _COLLECTION + "/points"
# The first match counts, so frequent requests come first: twenty comparisons take 40 us.
ROUTES: list[tuple[str, str, Handler]] = [
    ("POST", _POINTS + "/query/batch", Api.query_batch),
    ("POST", _POINTS, Api.retrieve),
    ("PUT", _POINTS, Api.upsert),
    ("POST", _POINTS + "/batch", Api.batch),
    ("GET", "/collections", Api.collections),
    ("GET", _COLLECTION, Api.collection),
    ("PUT", _COLLECTION, Api.create_collection),
    ("PATCH", _COLLECTION, Api.update_collection),
    ("DELETE", _COLLECTION, Api.delete_collection),
    ("GET", _COLLECTION + "/exists", Api.collection_exists),
    ("PUT", _COLLECTION + "/index", Api.create_index),
    ("POST", _POINTS + "/delete", Api.delete_points),
    ("POST", _POINTS + "/payload", Api.set_payload),
    ("POST", _POINTS + "/scroll", Api.scroll),
    ("POST", _POINTS + "/count", Api.count),
]
