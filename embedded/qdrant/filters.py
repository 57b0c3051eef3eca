"""Conversion of filters from REST JSON to the engine's objects."""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Any
from uuid import UUID

import orjson
import qdrant_edge as engine

from embedded.qdrant.errors import malformed, unsupported, wrong_input

PointId = int | str
MAX_NUMBER = 2**64 - 1
_MOST_RETAINED_BYTES = 25_000  # of a filter in JSON: of a person in a thousand groups


def _match_value(value: Any) -> engine.MatchValue:
    if isinstance(value, bool):
        # The engine takes Python's True for the number 1, but not NumPy's, whose import takes 0.2 s.
        import numpy as np  # noqa: PLC0415

        taken: Any = np.bool_(value)
        return engine.MatchValue(taken)
    return engine.MatchValue(value)


_MATCHES: dict[str, Callable[[Any], Any]] = {
    "value": _match_value,
    "text": engine.MatchText,
    "text_any": engine.MatchTextAny,
    "phrase": engine.MatchPhrase,
    "prefix": engine.MatchPrefix,
    "substring": engine.MatchSubstring,
    "any": engine.MatchAny,
    "except": engine.MatchExcept,
}
_CLAUSES = frozenset({"must", "should", "must_not", "min_should"})
_WORD = re.compile(r"\w+")
_FIELD_TESTS = ("match", "range", "values_count", "is_empty", "is_null")


def point_id(value: object) -> PointId:
    """Return a point id in the engine's form: an unsigned 64-bit number or a UUID."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_NUMBER:
        return value
    if isinstance(value, str):
        try:
            return str(UUID(value))
        except ValueError:
            pass
    raise malformed(f"value {value!r} is not a valid point ID, valid values are either an unsigned integer or a UUID")


def point_ids(values: object) -> list[int | UUID | str]:
    if not isinstance(values, list):
        raise malformed("point ids must be a list")
    return [point_id(value) for value in values]


def optional_filter(value: object) -> engine.Filter | None:
    return None if value is None else recurring_filter(value)


def recurring_filter(value: object) -> engine.Filter:
    """Return the engine's filter, and retain it: queries of a collection differ in their vectors, not in their filters.

    To convert the filters of a query takes 70 us, to find them 3 us.
    """
    encoded = orjson.dumps(value)
    return parse_filter(value) if len(encoded) > _MOST_RETAINED_BYTES else _retained(encoded)


@lru_cache(maxsize=256)
def _retained(encoded: bytes) -> engine.Filter:
    return parse_filter(orjson.loads(encoded))


def parse_filter(value: object) -> engine.Filter:
    """Return the engine's filter; raise 400 for a malformed filter, and 501 for an unsupported condition."""
    if not isinstance(value, dict):
        raise malformed("a filter must be an object")
    unknown = value.keys() - _CLAUSES
    if unknown:
        raise malformed(f"unknown field `{min(unknown)}` in a filter")
    return engine.Filter(
        must=_conditions(value.get("must")),
        should=_conditions(value.get("should")),
        must_not=_conditions(value.get("must_not")),
        min_should=_min_should(value.get("min_should")),
    )


def unindexed_conditions(value: Any, indexed: AbstractSet[str]) -> int:
    """Return the number of conditions on fields without an index; each word of a `text` condition counts."""
    if not isinstance(value, dict):
        return 0
    key = value.get("key") or (value.get("is_empty") or {}).get("key")
    if isinstance(key, str):
        match = value.get("match")
        words = str(match.get("text") or "") if isinstance(match, dict) else ""
        return 0 if key in indexed else max(1, len(_WORD.findall(words)))
    clauses = [value[name] for name in _CLAUSES & value.keys()]
    return sum(unindexed_conditions(each, indexed) for clause in clauses for each in _listed(clause))


def _listed(clause: Any) -> list[Any]:
    """Return the conditions of a clause, which may be a single one, or have a minimum that must hold."""
    if isinstance(clause, dict) and "conditions" in clause:
        clause = clause["conditions"]
    return clause if isinstance(clause, list) else [clause]


def _min_should(value: Any) -> engine.MinShould | None:
    if value is None:
        return None
    return engine.MinShould(_conditions(value["conditions"]) or [], value["min_count"])


def _conditions(value: object) -> list[Any] | None:
    if value is None:
        return None
    return [_condition(item) for item in (value if isinstance(value, list) else [value])]


def _condition(value: Any) -> Any:
    if not isinstance(value, dict):
        raise malformed("a condition must be an object")
    if "key" in value:
        return _field(value)
    if value.keys() & _CLAUSES or not value:
        return parse_filter(value)
    name = next(iter(value))
    if len(value) > 1 or name not in _CONDITIONS:
        raise unsupported(f"the condition `{', '.join(value)}`")
    return _CONDITIONS[name](value[name])


_CONDITIONS: dict[str, Callable[[Any], Any]] = {
    "has_id": lambda ids: engine.HasIdCondition(set(point_ids(ids))),
    "is_empty": lambda field: engine.IsEmptyCondition(field["key"]),
    "is_null": lambda field: engine.IsNullCondition(field["key"]),
    "has_vector": engine.HasVectorCondition,
    "nested": lambda nested: engine.NestedCondition(nested["key"], parse_filter(nested["filter"])),
}


def _field(value: dict[str, Any]) -> engine.FieldCondition:
    tests = {name: test for name, test in value.items() if test is not None and name != "key"}
    for name in tests.keys() - set(_FIELD_TESTS):
        raise unsupported(f"the condition `{name}`")
    if not tests:
        raise wrong_input("at least one condition must be specified for a field")
    if "match" in tests:
        tests["match"] = _match(tests["match"])
    if "range" in tests:
        tests["range"] = _range(tests["range"])
    if "values_count" in tests:
        tests["values_count"] = engine.ValuesCount(**_bounds(tests["values_count"]))
    return engine.FieldCondition(value["key"], **tests)


def _match(value: dict[str, Any]) -> Any:
    if len(value) != 1:
        raise malformed("a match must hold exactly one of " + ", ".join(_MATCHES))
    ((name, operand),) = value.items()
    if name not in _MATCHES:
        raise unsupported(f"the match `{name}`")
    return _MATCHES[name](operand)


def _range(value: dict[str, Any]) -> Any:
    bounds = _bounds(value)
    if any(isinstance(bound, str) for bound in bounds.values()):
        return engine.RangeDateTime(**bounds)
    return engine.RangeFloat(**bounds)


def _bounds(value: dict[str, Any]) -> dict[str, Any]:
    return {name: bound for name, bound in value.items() if bound is not None}
