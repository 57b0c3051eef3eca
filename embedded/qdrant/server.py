"""The REST API."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import orjson
import qdrant_edge as engine
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from embedded.qdrant import operations, queries
from embedded.qdrant.errors import ApiError, engine_errors, not_found, unsupported
from embedded.qdrant.filters import point_id, point_ids
from embedded.qdrant.groups import grouped
from embedded.qdrant.schema import Json, Shape
from embedded.qdrant.shard import Shard, parse
from embedded.qdrant.store import Store

VERSION = "1.20.0"  # the REST API that is spoken
Handler = Callable[["Api", Request], Awaitable[Any]]
Make = Callable[[Json, Shape], Iterable[operations.Counted]]


def application(store: Store) -> Starlette:
    """The server over an open store, which it closes at its end."""
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
        exception_handlers={HTTPException: _not_routed},
    )


def _endpoint(api: Api, handler: Handler) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        started = time.perf_counter()
        try:
            reply = {"result": await handler(api, request), "status": "ok"}
            status = 200
        except ApiError as error:
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
    """One method for each endpoint: request to `result`."""

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

    async def change_collection(self, request: Request) -> bool:
        await self._shard(request).change(parse(await request.body()))
        return True

    async def delete_collection(self, request: Request) -> bool:
        return await self._store.delete(request.path_params["name"])

    async def aliases(self, _: Request) -> Json:
        return self._aliases(self._store.aliases.items())

    async def collection_aliases(self, request: Request) -> Json:
        name = request.path_params["name"]
        return self._aliases((alias, target) for alias, target in self._store.aliases.items() if target == name)

    async def change_aliases(self, request: Request) -> bool:
        body = parse(await request.body())
        with engine_errors():
            self._store.change_aliases(body)
        return True

    async def create_index(self, request: Request) -> Json:
        body = parse(await request.body())
        with engine_errors():
            await self._shard(request).create_index(body["field_name"], body.get("field_schema"))
        return _done(request)

    async def delete_index(self, request: Request) -> Json:
        await self._shard(request).delete_index(request.path_params["field"])
        return _done(request)

    async def upsert(self, request: Request) -> Json:
        return await self._update(request, operations.upsert)

    async def delete_points(self, request: Request) -> Json:
        return await self._update(request, lambda body, _: operations.delete(body))

    async def set_payload(self, request: Request) -> Json:
        return await self._update(request, lambda body, _: operations.set_payload(body))

    async def overwrite_payload(self, request: Request) -> Json:
        return await self._update(request, lambda body, _: operations.overwrite_payload(body))

    async def delete_payload(self, request: Request) -> Json:
        return await self._update(request, lambda body, _: operations.delete_payload(body))

    async def clear_payload(self, request: Request) -> Json:
        return await self._update(request, lambda body, _: operations.clear_payload(body))

    async def batch(self, request: Request) -> list[Json]:
        count = await self._shard(request).update_batch(await request.body())
        return [_done(request)] * count

    async def retrieve(self, request: Request) -> list[Json]:
        shard, body = await self._read(request)
        with engine_errors():
            payload = queries.with_payload(body, default=True)
            found = shard.engine.retrieve(point_ids(body["ids"]), payload, queries.with_vector(body))
            return queries.records(found, queries.excluded(body))

    async def point(self, request: Request) -> Json:
        shard, given = self._shard(request), request.path_params["point"]
        identity = point_id(int(given) if given.isdigit() else given)
        found = shard.engine.retrieve([identity], True, True)  # noqa: FBT003 - the engine's own signature
        if not found:
            raise not_found(f"Point with id {given} does not exists!")
        return queries.records(found)[0]

    async def scroll(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            points, offset = shard.engine.scroll(queries.scroll_request(body))
            return {"points": queries.records(points, queries.excluded(body)), "next_page_offset": offset}

    async def count(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            return {"count": shard.engine.count(queries.count_request(body))}

    async def facet(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            hits = shard.engine.facet(queries.facet_request(body)).hits
            return {"hits": [{"value": hit.value, "count": hit.count} for hit in hits]}

    async def query(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            return {"points": queries.scored(_search(shard, body), queries.excluded(body))}

    async def query_batch(self, request: Request) -> list[Json]:
        shard, body = await self._read(request)
        with engine_errors():
            searches = body["searches"]
            requests = [queries.query_request(search, _vector_of(shard)) for search in searches]
            answers = shard.engine.query_batch(engine.QueryBatchRequest(requests))
            return [
                {"points": queries.scored(points, queries.excluded(search))}
                for search, points in zip(searches, answers, strict=True)
            ]

    async def query_groups(self, request: Request) -> Json:
        shard, body = await self._read(request)
        with engine_errors():
            groups = grouped(body, lambda plain: _search(shard, plain), lambda wanted: _count(shard, wanted))
            identities = list({hit.id: None for hits in groups.values() for hit in hits})
            payload = queries.with_payload(body, default=False)
            found = shard.engine.retrieve(identities, payload, queries.with_vector(body))
            records = {record["id"]: record for record in queries.records(found, queries.excluded(body))}
        return {
            "groups": [
                {
                    "id": group,
                    "hits": [{**records[hit.id], "version": hit.version, "score": hit.score} for hit in hits],
                }
                for group, hits in groups.items()
            ]
        }

    async def _update(self, request: Request, make: Make) -> Json:
        await self._shard(request).update(await request.body(), make)
        return _done(request)

    async def _read(self, request: Request) -> tuple[Shard, Json]:
        body = parse(await request.body())
        return self._shard(request), body

    def _shard(self, request: Request) -> Shard:
        return self._store.shard(request.path_params["name"])

    @staticmethod
    def _aliases(pairs: Iterable[tuple[str, str]]) -> Json:
        return {"aliases": [{"alias_name": alias, "collection_name": target} for alias, target in pairs]}


def _done(request: Request) -> Json:
    """Every update is applied before it is answered; who did not ask to wait is told no more than a server tells."""
    waited = request.query_params.get("wait") == "true"
    return {"operation_id": 0, "status": "completed" if waited else "acknowledged"}


def _search(shard: Shard, body: Json) -> list[Any]:
    found: list[Any] = shard.engine.query(queries.query_request(body, _vector_of(shard)))
    return found


def _count(shard: Shard, wanted: Json) -> int:
    counted: int = shard.engine.count(queries.count_request({"filter": wanted}))
    return counted


def _vector_of(shard: Shard) -> queries.VectorOf:
    return lambda identity, using: queries.stored_vector(shard.engine, identity, using)


_COLLECTION = "/collections/{name}"
_POINTS = _COLLECTION + "/points"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", "/collections", Api.collections),
    ("POST", "/collections/aliases", Api.change_aliases),
    ("GET", "/aliases", Api.aliases),
    ("GET", _COLLECTION, Api.collection),
    ("PUT", _COLLECTION, Api.create_collection),
    ("PATCH", _COLLECTION, Api.change_collection),
    ("DELETE", _COLLECTION, Api.delete_collection),
    ("GET", _COLLECTION + "/exists", Api.collection_exists),
    ("GET", _COLLECTION + "/aliases", Api.collection_aliases),
    ("PUT", _COLLECTION + "/index", Api.create_index),
    ("DELETE", _COLLECTION + "/index/{field:path}", Api.delete_index),
    ("POST", _COLLECTION + "/facet", Api.facet),
    ("PUT", _POINTS, Api.upsert),
    ("POST", _POINTS, Api.retrieve),
    ("POST", _POINTS + "/delete", Api.delete_points),
    ("POST", _POINTS + "/payload", Api.set_payload),
    ("PUT", _POINTS + "/payload", Api.overwrite_payload),
    ("POST", _POINTS + "/payload/delete", Api.delete_payload),
    ("POST", _POINTS + "/payload/clear", Api.clear_payload),
    ("POST", _POINTS + "/batch", Api.batch),
    ("POST", _POINTS + "/scroll", Api.scroll),
    ("POST", _POINTS + "/count", Api.count),
    ("POST", _POINTS + "/query", Api.query),
    ("POST", _POINTS + "/query/batch", Api.query_batch),
    ("POST", _POINTS + "/query/groups", Api.query_groups),
    ("GET", _POINTS + "/{point}", Api.point),
]
