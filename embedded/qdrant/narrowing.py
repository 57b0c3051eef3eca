"""Narrowing: a filter with several conditions on fields without an index is evaluated in short steps.

The engine evaluates such a condition for each candidate, in about 6 us, and cannot be interrupted. Therefore the
points that a filter selects by its indexes are listed first, and its other conditions are evaluated for a slice of them
at a time. Other requests are answered in between, and a search whose client has disconnected is cancelled. The search
itself gets the ids. That takes as long as the search of one channel, and the channels of a query share filters: in
three channels, two conditions take less time than in the engine, and eight half. Few conditions on many points are left
to the engine, which evaluates them for a part of the points if a graph exists.
"""

from __future__ import annotations

import time
from collections.abc import Generator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import qdrant_edge as engine

from embedded.qdrant.filters import parse_filter, unindexed_conditions
from embedded.qdrant.schema import Json

NARROWED_CONDITIONS = 2
_ALWAYS_NARROWED_CONDITIONS = 5
_MOST_POINTS_OF_FEW = 20_000  # a graph exists for more
_STEP_SECONDS = 0.02
_FIRST_POINTS, _MOST_POINTS = 32, 2048  # of a step
_ALL = 2**31


def is_costly(selected: object, indexed: AbstractSet[str]) -> bool:
    """Return whether a filter has so many conditions without an index that its searches are executed in steps."""
    return isinstance(selected, dict) and unindexed_conditions(selected, indexed) >= NARROWED_CONDITIONS


def narrowed(
    shard: engine.EdgeShard, selected: Mapping[str, Any], indexed: AbstractSet[str]
) -> Generator[None, None, engine.Filter]:
    """Return a filter that selects the same points by their ids; some points are tested at each step.

    Args:
        shard: the points.
        selected: the filter.
        indexed: fields with an index.
    """
    must = selected.get("must") or []
    conditions = must if isinstance(must, list) else [must]
    costly = [each for each in conditions if unindexed_conditions(each, indexed)]
    cheap: Json = {**selected, "must": [each for each in conditions if each not in costly]}
    few = unindexed_conditions(selected, indexed) < _ALWAYS_NARROWED_CONDITIONS
    if few and shard.count(engine.CountRequest(exact=False, filter=parse_filter(cheap))) > _MOST_POINTS_OF_FEW:
        return parse_filter(selected)
    candidates = _ids(shard, parse_filter(cheap), _ALL)
    yield
    tested = parse_filter({"must": costly})
    matching = list[Any]()
    start, size = 0, _FIRST_POINTS
    while start < len(candidates):
        started = time.perf_counter()
        some = engine.HasIdCondition(set(candidates[start : start + size]))
        matching += _ids(shard, engine.Filter(must=[some, tested]), size)
        start += size
        seconds = max(time.perf_counter() - started, 1e-6)
        size = max(1, min(_MOST_POINTS, int(size * _STEP_SECONDS / seconds)))
        yield
    inner = parse_filter(cheap)
    if 2 * len(matching) <= len(candidates):
        return engine.Filter(must=[inner, engine.HasIdCondition(set(matching))])
    others = set(candidates) - set(matching)
    return engine.Filter(must=[inner], must_not=[engine.HasIdCondition(others)] if others else None)


def _ids(shard: engine.EdgeShard, selected: engine.Filter, limit: int) -> list[Any]:
    request = engine.ScrollRequest(
        offset=None, limit=limit, filter=selected, with_payload=False, with_vector=False, order_by=None
    )
    points, _ = shard.scroll(request)
    return [point.id for point in points]
