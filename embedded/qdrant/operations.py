"""Conversion of updates from REST JSON to the engine's operations. Ingest needs it to be fast for each point."""

from __future__ import annotations

import binascii
import math
from array import array
from collections.abc import Callable, Generator, Iterator
from typing import Any

import qdrant_edge as engine

from embedded.qdrant.errors import ErrorReply, malformed, unsupported, wrong_input
from embedded.qdrant.filters import optional_filter, parse_filter, point_ids
from embedded.qdrant.schema import Json, Shape, index_params

Operation = engine.UpdateOperation
Counted = tuple[engine.UpdateOperation, int]  # with the number of points that it writes
Read = Generator[None, None, Iterator[Counted]]  # reads a part of a request at each step, and returns its operations
# The engine keeps the interpreter lock for a whole operation: larger operations would delay queries for longer.
OPERATION_POINTS = 64
OPERATION_POINTS_AMONG_QUERIES = 16
_POINTS_READ_AT_ONCE = 32  # queries may be answered in between
_MODES = {
    "upsert": engine.UpdateMode.Upsert,
    "insert_only": engine.UpdateMode.InsertOnly,
    "update_only": engine.UpdateMode.UpdateOnly,
}


def upsert(request: Json, shape: Shape, most: Callable[[], int] = lambda: OPERATION_POINTS) -> Read:
    """Read operations that insert or overwrite the points, in order.

    If a point is malformed or a vector has the wrong size, the entire request is refused. If a vector's name is not in
    the collection, the other points are written before the request is refused, as by Qdrant's server.

    Args:
        request: `points`; with `update_filter` an existing point is overwritten only if it matches.
        shape: the collection's vectors.
        most: number of points that the next operation may have; called before each one.
    """
    _refuse(request, "shard_key")
    _refuse(request, "batch")
    points, refusal = yield from _list_points(request["points"], shape)
    condition = optional_filter(request.get("update_filter"))
    mode = _MODES[request.get("update_mode") or "upsert"]
    slices = _slices(points, most)
    return _then_raise(((Operation.upsert_points(some, condition, mode), len(some)) for some in slices), refusal)


def _slices(points: list[engine.Point], most: Callable[[], int]) -> Iterator[list[engine.Point]]:
    start = 0
    while start < len(points):
        end = start + most()
        yield points[start:end]
        start = end


def delete(request: Json) -> Read:
    yield
    return _selected(request, Operation.delete_points, Operation.delete_points_by_filter)


def set_payload(request: Json) -> Read:
    yield
    arguments = (_payload(request), request.get("key"))
    return _selected(request, Operation.set_payload, Operation.set_payload_by_filter, *arguments)


def create_index(request: Json) -> Read:
    yield
    parameters = index_params(request.get("field_schema"))
    return iter([(Operation.create_field_index(request["field_name"], parameters), 0)])


def batch(request: Json, shape: Shape, most: Callable[[], int]) -> list[Read]:
    """Return the requests of `points/batch`, in order; all must be read before the first is applied."""
    return [_one(operation, shape, most) for operation in request["operations"]]


def _one(operation: Json, shape: Shape, most: Callable[[], int]) -> Read:
    ((name, request),) = operation.items()
    if name == "upsert":
        return upsert(request, shape, most)
    if name not in _NAMED:
        raise unsupported(f"the batch operation `{name}`")
    return _NAMED[name](request)


_NAMED = {"delete": delete, "set_payload": set_payload}


def _selected(request: Json, by_id: Any, by_filter: Any, *arguments: Any) -> Iterator[Counted]:
    """Return an operation on the points that the request names by id or by filter."""
    _refuse(request, "shard_key")
    if request.get("points") is not None:
        return iter([(by_id(point_ids(request["points"]), *arguments), 0)])
    if request.get("filter") is not None:
        return iter([(by_filter(parse_filter(request["filter"]), *arguments), 0)])
    raise wrong_input("either `points` or `filter` must be given")


def _payload(request: Json) -> Json:
    payload = request["payload"]
    if not isinstance(payload, dict):
        raise malformed("`payload` must be an object")
    return payload


def _then_raise(made: Iterator[Counted], refusal: ErrorReply | None) -> Iterator[Counted]:
    yield from made
    if refusal is not None:
        raise refusal


def _list_points(points: Any, shape: Shape) -> Generator[None, None, tuple[list[engine.Point], ErrorReply | None]]:
    """Read the points to write, and an error if a point has a vector that the collection lacks."""
    if not isinstance(points, list):
        raise malformed("`points` must be a list")
    listed, refusal = [], None
    for number, point in enumerate(points):
        if number % _POINTS_READ_AT_ONCE == 0:
            yield
        try:
            found = vectors(point["vector"], shape)
        except _ForeignVectorError as error:
            refusal = wrong_input(error.message)
            continue
        listed.append(engine.Point(_id(point["id"]), found, point.get("payload")))
    return listed, refusal


def _id(value: Any) -> Any:
    # The engine parses UUIDs itself; it would take true for 1.
    if value.__class__ is str or (value.__class__ is int and value >= 0):
        return value
    raise malformed(f"value {value!r} is not a valid point ID, valid values are either an unsigned integer or a UUID")


def vectors(named: Any, shape: Shape) -> Any:
    """Convert a point's vectors for the engine, and check them, because the engine checks too late."""
    if named.__class__ is list:
        return _dense("", named, shape)
    return {name: _vector(name, vector, shape) for name, vector in named.items()}


def _vector(name: str, vector: Any, shape: Shape) -> Any:
    if vector.__class__ is list:
        return _dense(name, vector, shape)
    if vector.__class__ is str:
        return _dense(name, _floats(vector), shape)
    if name not in shape.sparse:
        raise _no_such_vector(name) if name not in shape.dense else malformed(f"vector `{name}` must be a list")
    indices, values = vector["indices"], vector["values"]
    if len(indices) != len(values):
        raise ErrorReply(422, "Validation error in JSON body: a sparse vector's indices and values differ in length")
    if len(set(indices)) != len(indices):
        raise ErrorReply(422, "Validation error in JSON body: a sparse vector's indices must be unique")
    return engine.SparseVector(indices, values)


def _floats(encoded: str) -> array[float]:
    """Decode the 32-bit floats of a vector in base64."""
    values = array("f", binascii.a2b_base64(encoded, strict_mode=True))
    if not math.isfinite(sum(values)):
        raise malformed("a vector must have finite numbers")
    return values


def _dense(name: str, vector: Any, shape: Shape) -> Any:
    size = shape.dense.get(name)
    if size is None:
        raise _no_such_vector(name) if name not in shape.sparse else _ForeignVectorError(f"vector `{name}` is sparse")
    rows = vector if name in shape.multi else (vector,)
    for row in rows:
        if len(row) != size:
            raise wrong_input(f"Vector dimension error: expected dim: {size}, got {len(row)}")
    return vector


class _ForeignVectorError(Exception):
    """A point has a vector that the collection lacks: its name is unknown, or it is dense instead of sparse."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


def _no_such_vector(name: str) -> _ForeignVectorError:
    return _ForeignVectorError(f"Not existing vector name error: {name}")


def _refuse(request: Json, name: str) -> None:
    if request.get(name) is not None:
        raise unsupported(f"`{name}`")
