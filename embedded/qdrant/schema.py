"""Conversion of a collection's schema between REST JSON and the engine's configuration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import qdrant_edge as engine

from embedded.qdrant.errors import malformed, unsupported

Json = dict[str, Any]

HNSW = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10_000, "max_indexing_threads": 0}
OPTIMIZERS = {
    "deleted_threshold": 0.2,
    "vacuum_min_vector_number": 1000,
    "default_segment_number": 0,
    "max_segment_size": None,
    "indexing_threshold": 10_000,
    "flush_interval_sec": 5,
}
# The engine joins segments beyond a number and builds their graphs again. During a load none are joined.
SEPARATE_SEGMENTS = 1_000
# In a calm: one segment in addition to the one for writes. The channels of a query among 100,000 points take 4.6 ms of
# CPU in two segments and 7.9 in three.
JOINED_SEGMENTS = 2
# Until the first calm, segments get bytes without graphs, in 0.05 ms of CPU for a point instead of 0.23. The engine
# rebuilds segments of other parameters, so this is only for a shard without graphs.
NO_GRAPHS = {"m": 0, "payload_m": 0, "full_scan_threshold": 2**30}
# Indexed segments have a byte for each number of a vector, too. With it a graph of 17,000 sentences takes 4.5 seconds
# of CPU instead of 8.3, and a search 0.6 ms instead of 1.1. The scores of a third more points than requested are
# computed with the full vectors: of the ten nearest points 99.87 % are found instead of 99.80, of the hundred nearest
# 98.3 % as before.
BYTES = {"scalar": {"type": "int8", "quantile": 0.99, "always_ram": True}}
OVERSAMPLING = 1.3
# KB of vectors up to which a group is searched without a graph: of 13,600 points with 384 dimensions a search takes
# 1.5 ms instead of 0.6, and their graph would take two seconds.
FULL_SCAN_KB = 20_000
# Groups of fewer texts are searched without the lists of their words. By default 5,000: eight words among 2,000 texts
# of 150 words took 0.5 ms instead of 0.2. The lists contain the texts of all groups, so a small group is read faster.
SPARSE_FULL_SCAN_POINTS = 1_000
# With one thread a search runs in the thread of its caller. By default eight threads divide the segments, of which one
# has almost all points, and look for work meanwhile: three searches among 12,000 points took 3.5 to 4.6 ms of CPU
# instead of 2.7, and twice as much while an optimization used the other core.
SEARCH_THREADS = 1
WAL = {"wal_capacity_mb": 32, "wal_segments_ahead": 0}
# Of a dense vector in an upsert: numbers, or its 32-bit floats, little-endian, in base64. A server reads numbers only,
# so a client sends base64 only if the description of the collection has this list.
VECTOR_ENCODINGS = ["float", "base64"]
_COPIES = ("shard_number", "replication_factor", "write_consistency_factor")  # one process has one of each
_CREATED = frozenset(
    {
        "vectors",
        "sparse_vectors",
        "hnsw_config",
        "optimizers_config",
        "quantization_config",
        "on_disk_payload",
        "wal_config",
        "metadata",
    }
)
_VECTOR = frozenset(
    {"size", "distance", "on_disk", "datatype", "hnsw_config", "multivector_config", "quantization_config", "memory"}
)
_SPARSE = frozenset({"index", "modifier"})
_INDEX_PARAMS = {
    "keyword": engine.KeywordIndexParams,
    "integer": engine.IntegerIndexParams,
    "float": engine.FloatIndexParams,
    "bool": engine.BoolIndexParams,
    "datetime": engine.DatetimeIndexParams,
    "uuid": engine.UuidIndexParams,
    "text": engine.TextIndexParams,
}


@dataclass(frozen=True)
class Shape:
    """The vectors that a point may have: dimensions by dense name, and the sparse names."""

    dense: dict[str, int]
    multi: frozenset[str]
    sparse: frozenset[str]


def creation(request: Json) -> Json:
    """Return the configuration in a request to create a collection, without the fields that are null."""
    named = {name: value for name, value in request.items() if value is not None}
    for name in named.keys() - _CREATED - set(_COPIES):
        raise unsupported(f"`{name}` of a collection")
    for name in _COPIES:
        if named.get(name, 1) != 1:
            raise unsupported(f"`{name}` other than 1")
    if not named.get("vectors") and not named.get("sparse_vectors"):
        raise malformed("a collection needs `vectors` or `sparse_vectors`")
    return {name: value for name, value in named.items() if name in _CREATED}


def named_vectors(config: Json) -> dict[str, Json]:
    """Return parameters by vector name; the unnamed vector's name is empty."""
    vectors = config.get("vectors") or {}
    return {"": vectors} if "size" in vectors else vectors


def shape(config: Json) -> Shape:
    vectors = named_vectors(config)
    return Shape(
        dense={name: parameters["size"] for name, parameters in vectors.items()},
        multi=frozenset(name for name, parameters in vectors.items() if parameters.get("multivector_config")),
        sparse=frozenset(config.get("sparse_vectors") or {}),
    )


def edge_config(config: Json, segments: int = JOINED_SEGMENTS, *, has_graphs: bool = True) -> engine.EdgeConfig:
    """Convert a collection's configuration to the engine's.

    Args:
        config: the collection's configuration.
        segments: number of segments that an optimization leaves, unless the configuration sets a number.
        has_graphs: whether an optimization builds graphs.
    """
    graphs = {"full_scan_threshold": FULL_SCAN_KB, **_given(config, "hnsw_config")}
    return engine.EdgeConfig(
        vectors={name: _dense(parameters) for name, parameters in named_vectors(config).items()},
        sparse_vectors={name: _sparse(parameters or {}) for name, parameters in _sparse_vectors(config).items()},
        on_disk_payload=config.get("on_disk_payload"),
        hnsw_config=hnsw(graphs if has_graphs else graphs | NO_GRAPHS),
        quantization_config=_quantization(config.get("quantization_config") if is_quantized(config) else BYTES),
        optimizers=engine.EdgeOptimizersConfig(
            **{name: value for name, value in _optimizers(config, segments).items() if name in _EDGE_OPTIMIZERS}
        ),
        max_search_threads=SEARCH_THREADS,
    )


_EDGE_OPTIMIZERS = frozenset(OPTIMIZERS) - {"flush_interval_sec"}


def _optimizers(config: Json, segments: int) -> Json:
    wanted = optimizers(config)
    return {**wanted, "default_segment_number": wanted["default_segment_number"] or segments}


def is_indexed(config: Json) -> bool:
    """Return whether an optimization builds an index: a graph over all points or each group, or quantized vectors."""
    return any(_is_indexed(config, parameters) for parameters in named_vectors(config).values())


def _is_indexed(config: Json, parameters: Json) -> bool:
    graph = {**HNSW, **_given(config, "hnsw_config"), **_given(parameters, "hnsw_config")}
    quantization = _given(config, "quantization_config") or _given(parameters, "quantization_config")
    return bool(graph["m"] or graph.get("payload_m") or quantization)


def is_quantized(config: Json) -> bool:
    """Return whether the collection was created with quantized vectors, so that its searches choose their use."""
    parameters = [config, *named_vectors(config).values()]
    return any(each.get("quantization_config") is not None for each in parameters)


def _given(fields: Json, name: str) -> Json:
    return _without_nulls(fields.get(name) or {})


def optimizers(config: Json) -> Json:
    return {**OPTIMIZERS, **_given(config, "optimizers_config")}


def hnsw(fields: Json) -> engine.HnswIndexConfig:
    return engine.HnswIndexConfig(**{**HNSW, **_without_nulls(fields)})


def index_params(schema: object) -> Any:
    """Return the engine's parameters for a payload index named by its type or by parameters."""
    if schema is None:
        raise unsupported("a payload index without `field_schema`")
    fields = {"type": schema} if isinstance(schema, str) else dict(schema) if isinstance(schema, dict) else {}
    kind = fields.pop("type", None)
    if kind == "geo" or kind not in _INDEX_PARAMS:
        raise unsupported(f"a payload index of type `{kind}`") if kind else malformed("`field_schema` needs a type")
    return _INDEX_PARAMS[kind](**{name: _index_value(name, value) for name, value in _without_nulls(fields).items()})


def info(config: Json, shard: Json, indexes: Json, status: str) -> Json:
    """Return the reply to GET /collections/NAME.

    Args:
        config: the collection's configuration, as created.
        shard: the result of `Shard.info`.
        indexes: schemas of the payload indexes by field.
        status: green, yellow or grey.
    """
    return {
        "status": status,
        "vector_encodings": VECTOR_ENCODINGS,
        "optimizer_status": "ok",
        "indexed_vectors_count": shard["indexed_vectors_count"],
        "points_count": shard["points_count"],
        "segments_count": shard["segments_count"],
        "config": {
            "params": {
                "vectors": config.get("vectors") or {},
                **dict.fromkeys(_COPIES, 1),
                "on_disk_payload": config.get("on_disk_payload", True),
                **({"sparse_vectors": _sparse_vectors(config)} if _sparse_vectors(config) else {}),
            },
            "hnsw_config": {**HNSW, **_given(config, "hnsw_config")},
            "optimizer_config": optimizers(config),
            "wal_config": {**WAL, **_given(config, "wal_config")},
            "quantization_config": config.get("quantization_config"),
            **({"metadata": config["metadata"]} if "metadata" in config else {}),
        },
        "payload_schema": {
            field: _index_info(indexes[field], points)
            for field, points in shard["indexes"].items()
            if field in indexes  # the engine lists an index before it is ready for callers
        },
    }


def _index_info(schema: Any, points: int) -> Json:
    if isinstance(schema, str):
        return {"data_type": schema, "points": points}
    return {"data_type": schema["type"], "params": schema, "points": points}


def _sparse_vectors(config: Json) -> Json:
    return config.get("sparse_vectors") or {}


def _dense(parameters: Json) -> engine.EdgeVectorParams:
    fields = _without_nulls(parameters)
    for name in fields.keys() - _VECTOR:
        raise unsupported(f"`{name}` of a vector")
    if "hnsw_config" in fields:
        fields["hnsw_config"] = hnsw(fields["hnsw_config"])
    if "multivector_config" in fields:
        fields["multivector_config"] = engine.MultiVectorConfig(engine.MultiVectorComparator.MaxSim)
    return engine.EdgeVectorParams(**{name: _vector_value(name, value) for name, value in fields.items()})


def _vector_value(name: str, value: Any) -> Any:
    match name:
        case "distance":
            return _member(engine.Distance, value)
        case "datatype":
            return _member(engine.VectorStorageDatatype, value.capitalize())
        case "memory":
            return _member(engine.Memory, value.capitalize())
        case "quantization_config":
            return _quantization(value)
    return value


def _quantization(value: Any) -> Any:
    """Return the engine's parameters for `{kind: parameters}`; None for None."""
    if value is None:
        return None
    if not isinstance(value, dict) or len(value) != 1:
        raise malformed("`quantization_config` must hold exactly one of " + ", ".join(_QUANTIZATIONS))
    ((kind, parameters),) = value.items()
    if kind not in _QUANTIZATIONS:
        raise unsupported(f"the quantization `{kind}`")
    fields = _without_nulls(parameters)
    return _QUANTIZATIONS[kind](**{name: _quantization_value(name, item) for name, item in fields.items()})


def _quantization_value(name: str, value: Any) -> Any:
    return _QUANTIZATION_MEMBERS[name](value) if name in _QUANTIZATION_MEMBERS else value


def _sparse(parameters: Json) -> engine.EdgeSparseVectorParams:
    fields = _without_nulls(parameters)
    for name in fields.keys() - _SPARSE:
        raise unsupported(f"`{name}` of a sparse vector")
    index = {"full_scan_threshold": SPARSE_FULL_SCAN_POINTS, **_without_nulls(fields.get("index") or {})}
    modifier = fields.get("modifier")
    return engine.EdgeSparseVectorParams(
        modifier=engine.Modifier.Idf if modifier == "idf" else None,
        **{name: value for name, value in index.items() if name in ("full_scan_threshold", "on_disk")},
    )


def _index_value(name: str, value: Any) -> Any:
    match name:
        case "tokenizer":
            return _member(engine.TokenizerType, value.capitalize())
        case "memory":
            return _member(engine.Memory, value.capitalize())
        case "stopwords" | "stemmer" | "scoring":
            raise unsupported(f"`{name}` of a payload index")
    return value


def _member(kind: Any, name: str) -> Any:
    member = getattr(kind, name, None)
    if member is None:
        raise malformed(f"unknown variant `{name}` of {kind.__name__}")
    return member


_QUANTIZATIONS: dict[str, Any] = {
    "scalar": engine.ScalarQuantizationConfig,
    "product": engine.ProductQuantizationConfig,
    "binary": engine.BinaryQuantizationConfig,
    "turbo": engine.TurboQuantQuantizationConfig,
}
_QUANTIZATION_MEMBERS: dict[str, Callable[[str], Any]] = {
    "type": lambda name: _member(engine.ScalarType, name.capitalize()),
    "compression": lambda name: _member(engine.CompressionRatio, name.capitalize()),
    "encoding": lambda name: _member(engine.BinaryQuantizationEncoding, name.title().replace("_", "")),
    "query_encoding": lambda name: _member(engine.BinaryQuantizationQueryEncoding, name.title()),
    "bits": lambda name: _member(engine.TurboQuantBitSize, name.capitalize()),
    "memory": lambda name: _member(engine.Memory, name.capitalize()),
}


def _without_nulls(value: Json) -> Json:
    return {name: item for name, item in value.items() if item is not None}
