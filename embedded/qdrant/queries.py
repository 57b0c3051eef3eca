"""Reads: REST JSON to the engine's requests, and its answers back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import qdrant_edge as engine

from embedded.qdrant.errors import malformed, not_found, unsupported
from embedded.qdrant.filters import PointId, optional_filter, point_id
from embedded.qdrant.schema import Json

DEFAULT_LIMIT = 10
VectorOf = Callable[[PointId, str], Any]
_DIRECTIONS = {"asc": engine.Direction.Asc, "desc": engine.Direction.Desc}


def query_request(request: Json, vector_of: VectorOf) -> engine.QueryRequest:
    """A request for the engine.

    Args:
        request: the body of `points/query`.
        vector_of: the stored vector of (point id, vector name), for queries by id.
    """
    stage = _stage(request, vector_of)
    return engine.QueryRequest(
        offset=request.get("offset"),
        with_vector=with_vector(request),
        with_payload=with_payload(request, default=False),
        **stage,
    )


def _stage(request: Json, vector_of: VectorOf) -> Json:
    """What a query and a prefetch have in common."""
    for name in ("lookup_from", "shard_key"):
        if request.get(name) is not None:
            raise unsupported(f"`{name}` in a query")
    conditions = request.get("filter")
    query, example = _query(request.get("query"), request.get("using") or "", vector_of)
    if example is not None:
        conditions = {"must": [conditions or {}], "must_not": [{"has_id": [example]}]}
    return {
        "limit": _limit(request),
        "query": query,
        "prefetches": _prefetches(request.get("prefetch"), vector_of),
        "filter": optional_filter(conditions),
        "score_threshold": request.get("score_threshold"),
        "params": _params(request.get("params")),
    }


def _limit(request: Json) -> int:
    limit = request.get("limit")
    if limit is None:
        return DEFAULT_LIMIT
    if not isinstance(limit, int) or limit < 0:
        raise malformed("`limit` must be an unsigned integer")
    return limit


def _prefetches(value: Any, vector_of: VectorOf) -> list[engine.Prefetch] | None:
    if not value:
        return None
    return [engine.Prefetch(**_stage(item, vector_of)) for item in (value if isinstance(value, list) else [value])]


def _query(value: Any, using: str, vector_of: VectorOf) -> tuple[Any, PointId | None]:
    """The engine's query, and the point it was made from, which must not be its own answer."""
    if value is None:
        return None, None
    if isinstance(value, dict) and "indices" not in value:
        return _named_query(value, using, vector_of)
    return _nearest(value, using, vector_of)


def _named_query(value: Json, using: str, vector_of: VectorOf) -> tuple[Any, PointId | None]:
    match value:
        case {"nearest": target, **rest} if not any(rest.values()):
            return _nearest(target, using, vector_of)
        case {"fusion": "rrf"}:
            return engine.Fusion.Rrf(k=2), None
        case {"fusion": "dbsf"}:
            return engine.Fusion.Dbsf(), None
        case {"rrf": parameters}:
            return engine.Fusion.Rrf(k=parameters.get("k") or 2, weights=parameters.get("weights")), None
        case {"order_by": order}:
            return order_by(order), None
        case {"sample": "random"}:
            return engine.Sample.Random, None
    raise unsupported(f"the query `{', '.join(sorted(value))}`")


def _nearest(target: Any, using: str, vector_of: VectorOf) -> tuple[Any, PointId | None]:
    if isinstance(target, list):
        return engine.Query.Nearest(target, using), None
    if isinstance(target, dict) and "indices" in target:
        return engine.Query.Nearest(engine.SparseVector(target["indices"], target["values"]), using), None
    if isinstance(target, dict):
        raise unsupported("inference: a query must be a vector or a point id")
    example = point_id(target)
    return engine.Query.Nearest(vector_of(example, using), using), example


def _params(value: Json | None) -> engine.SearchParams | None:
    if not value:
        return None
    given = {name: item for name, item in value.items() if item is not None}
    for name in given.keys() - {"hnsw_ef", "exact", "indexed_only", "idf"}:
        raise unsupported(f"the search parameter `{name}`")
    if "idf" in given:
        given["idf"] = engine.IdfParams(optional_filter(given["idf"].get("corpus")))
    return engine.SearchParams(**given)


def order_by(value: Any) -> engine.OrderBy:
    given = {"key": value} if isinstance(value, str) else value
    direction = given.get("direction")
    return engine.OrderBy(given["key"], _DIRECTIONS[direction] if direction else None, given.get("start_from"))


def scroll_request(request: Json) -> engine.ScrollRequest:
    offset = request.get("offset")
    return engine.ScrollRequest(
        offset=None if offset is None else point_id(offset),
        limit=_limit(request),
        filter=optional_filter(request.get("filter")),
        with_payload=with_payload(request, default=True),
        with_vector=with_vector(request),
        order_by=None if request.get("order_by") is None else order_by(request["order_by"]),
    )


def count_request(request: Json) -> engine.CountRequest:
    exact = request.get("exact")
    return engine.CountRequest(exact is None or exact, optional_filter(request.get("filter")))


def facet_request(request: Json) -> engine.FacetRequest:
    return engine.FacetRequest(
        request["key"], _limit(request), bool(request.get("exact")), optional_filter(request.get("filter"))
    )


def with_vector(request: Json) -> Any:
    """Whether to return vectors, or which."""
    return request.get("with_vector") or False


def with_payload(request: Json, *, default: bool) -> Any:
    """Whether to return payload, or which fields; the engine cannot exclude, see `excluded`."""
    value = request.get("with_payload")
    if value is None:
        return default
    if isinstance(value, dict):
        return value.get("include", True)
    return value


def excluded(request: Json) -> list[str]:
    """The payload fields to leave out of the answer."""
    value = request.get("with_payload")
    return list(value.get("exclude") or ()) if isinstance(value, dict) else []


def records(points: Iterable[Any], without: Iterable[str] = ()) -> list[Json]:
    """Records as REST returns them."""
    return [_record(point, without) for point in points]


def scored(points: Iterable[Any], without: Iterable[str] = ()) -> list[Json]:
    """Scored points as REST returns them, best first."""
    return [{**_record(point, without), "version": point.version, "score": point.score} for point in points]


def _record(point: Any, without: Iterable[str]) -> Json:
    record = {"id": point.id}
    payload, vector, order_value = point.payload, point.vector, point.order_value
    if payload is not None:
        for field in without:
            _drop(payload, field.split("."))
        record["payload"] = payload
    if vector is not None:
        record["vector"] = vector
    if order_value is not None:
        record["order_value"] = order_value
    return record


def _drop(payload: Any, path: list[str]) -> None:
    if not isinstance(payload, dict):
        return
    if len(path) == 1:
        payload.pop(path[0], None)
    else:
        _drop(payload.get(path[0]), path[1:])


def encode(value: Any) -> Any:
    """What orjson cannot encode itself."""
    if isinstance(value, engine.SparseVector):
        return {"indices": value.indices, "values": value.values}
    raise TypeError(f"{type(value).__name__} is not JSON serializable")


def stored_vector(shard: engine.EdgeShard, identity: PointId, using: str) -> Any:
    """The vector of a point, for a query by id."""
    found = shard.retrieve([identity], False, [using])  # noqa: FBT003 - the engine's own signature
    if not found:
        raise not_found(f"No point with id {identity} found")
    vector = found[0].vector
    named = vector.get(using) if isinstance(vector, dict) else vector
    if named is None:
        raise not_found(f"No vector `{using}` at point {identity}")
    return named
