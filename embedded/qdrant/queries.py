"""Conversion of read requests from REST JSON to the engine's requests, and of its results to REST JSON."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import qdrant_edge as engine

from embedded.qdrant.errors import malformed, unsupported
from embedded.qdrant.filters import optional_filter, point_id, recurring_filter
from embedded.qdrant.schema import OVERSAMPLING, Json

DEFAULT_LIMIT = 10
_CANDIDATES = engine.QuantizationSearchParams(rescore=True, oversampling=OVERSAMPLING)


def query_request(
    request: Json, *, quantized: bool = False, selected: engine.Filter | None = None
) -> engine.QueryRequest:
    """Return the engine's request for one search, an element of `points/query/batch`.

    Args:
        request: the search.
        quantized: whether the collection was created with quantized vectors. If not, the vectors of a byte per number
            that the engine has anyway (`schema.BYTES`) select candidates, and never a score.
        selected: filter instead of the one of the search.
    """
    for name in ("lookup_from", "shard_key", "prefetch"):
        if request.get(name):
            raise unsupported(f"`{name}` in a query")
    return engine.QueryRequest(
        limit=_limit(request),
        offset=request.get("offset"),
        query=_query(request.get("query"), request.get("using") or ""),
        prefetches=None,
        filter=optional_filter(request.get("filter")) if selected is None else selected,
        score_threshold=request.get("score_threshold"),
        params=_params(request.get("params") or {}, quantized=quantized),
        with_vector=with_vector(request),
        with_payload=with_payload(request, default=False),
    )


def _limit(request: Json) -> int:
    limit = request.get("limit")
    if limit is None:
        return DEFAULT_LIMIT
    if not isinstance(limit, int) or limit < 0:
        raise malformed("`limit` must be an unsigned integer")
    return limit


def _query(value: Any, using: str) -> Any:
    """Return the engine's query for the points nearest to a vector; None if only the filter selects points."""
    if value is None:
        return None
    if isinstance(value, dict) and set(value) == {"nearest"}:
        value = value["nearest"]
    if isinstance(value, list):
        return engine.Query.Nearest(value, using)
    if isinstance(value, dict) and "indices" in value:
        return engine.Query.Nearest(engine.SparseVector(value["indices"], value["values"]), using)
    raise unsupported(f"the query `{', '.join(sorted(value)) if isinstance(value, dict) else value}`")


def _params(value: Json, *, quantized: bool) -> engine.SearchParams:
    params = {name: item for name, item in value.items() if item is not None}
    for name in params.keys() - {"hnsw_ef", "exact", "indexed_only", "idf", "quantization"}:
        raise unsupported(f"the search parameter `{name}`")
    if "idf" in params:
        params["idf"] = _idf(params["idf"])
    if not quantized:
        params["quantization"] = _CANDIDATES
    elif "quantization" in params:
        params["quantization"] = engine.QuantizationSearchParams(**params["quantization"])
    return engine.SearchParams(**params)


def _idf(value: Any) -> engine.IdfParams:
    """Return the points over which the rarity of a term is computed: all, or a group of them."""
    return engine.IdfParams(None if value == "global" else recurring_filter(value["corpus"]))


def scroll_request(request: Json) -> engine.ScrollRequest:
    if request.get("order_by") is not None:
        raise unsupported("`order_by` of a scroll")
    offset = request.get("offset")
    return engine.ScrollRequest(
        offset=None if offset is None else point_id(offset),
        limit=_limit(request),
        filter=optional_filter(request.get("filter")),
        with_payload=with_payload(request, default=True),
        with_vector=with_vector(request),
        order_by=None,
    )


def count_request(request: Json) -> engine.CountRequest:
    exact = request.get("exact")
    return engine.CountRequest(exact is None or exact, optional_filter(request.get("filter")))


def with_vector(request: Json) -> Any:
    """Return the vectors to include in a reply: all (True), none (False), or their names."""
    return request.get("with_vector") or False


def with_payload(request: Json, *, default: bool) -> Any:
    """Return the payload to include in a reply: all (True), none (False), or the names of fields."""
    value = request.get("with_payload")
    if isinstance(value, dict):
        raise unsupported("`with_payload` with `include` or `exclude`")
    return default if value is None else value


def records(points: Iterable[Any]) -> list[Json]:
    """Convert records to REST JSON."""
    return [_with_content({"id": point.id}, point) for point in points]


def scored(points: Iterable[Any]) -> list[Json]:
    """Convert scored points to REST JSON, best first."""
    return [_with_content({"id": point.id, "version": point.version, "score": point.score}, point) for point in points]


def _with_content(record: Json, point: Any) -> Json:
    payload, vector = point.payload, point.vector
    if payload is not None:
        record["payload"] = payload
    if vector is not None:
        record["vector"] = vector
    return record


def encode(value: Any) -> Any:
    """Encode a sparse vector, which orjson does not support."""
    if isinstance(value, engine.SparseVector):
        return {"indices": value.indices, "values": value.values}
    raise TypeError(f"{type(value).__name__} is not JSON serializable")
