"""A caller's filter over metadata, checked and turned into Qdrant's conditions.

{"department": "legal"}                         equal to
{"tags": {"any": ["a", "b"]}}                   one of
{"tags": {"none": ["c"]}}                       none of
{"year": {"gte": 2020, "lt": 2025}}             a range of numbers
{"published": {"gte": "2024-01-01"}}            a range of dates (ISO 8601)
{"title": {"text": "annual report"}}            every word occurs
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from qdrant_client import models

from shared.domain.errors import InvalidInput

_RANGE = {"gt", "gte", "lt", "lte"}
_FORMS = "a value, {any: [...]}, {none: [...]}, {gt, gte, lt, lte: number or date} or {text: '...'}"
_PLAIN = re.compile(r"[\w-]+(\[\d*\])*", re.ASCII)
_MAX_CONDITIONS = 32
_MAX_VALUES = 1000


def condition_of(filter_: object) -> list[models.Condition]:
    """Turn a caller's filter into conditions that must all hold.

    Raises:
        InvalidInput: it is not one; `field` names the part to change.
    """
    if not isinstance(filter_, Mapping):
        raise InvalidInput("A filter is an object of metadata fields.", field="filter")
    if len(filter_) > _MAX_CONDITIONS:
        raise InvalidInput(f"A filter has at most {_MAX_CONDITIONS} fields.", field="filter")
    return [_condition(str(name), value) for name, value in filter_.items()]


def _condition(name: str, value: object) -> models.Condition:
    key = _key(name)
    if isinstance(value, Mapping):
        return _operator(name, key, value)
    if isinstance(value, (bool, int, str)):
        return models.FieldCondition(key=key, match=models.MatchValue(value=value))
    if isinstance(value, float):
        return models.FieldCondition(key=key, range=models.Range(gte=value, lte=value))
    raise _not_a_condition(name)


def _key(name: str) -> str:
    """Qdrant's path to a field of the metadata; dots lead into objects, and what is not plain is quoted."""
    parts = name.split(".")
    if not all(parts) or any(c in name for c in '"\\'):
        raise InvalidInput("A filter's fields are names, with dots between those of nested ones.", field="filter")
    return ".".join(("metadata", *(part if _PLAIN.fullmatch(part) else f'"{part}"' for part in parts)))


def _operator(name: str, key: str, value: Mapping[str, Any]) -> models.Condition:
    operators = set(value)
    if operators == {"any"}:
        return models.FieldCondition(key=key, match=models.MatchAny(any=_values(name, value["any"])))
    if operators == {"none"}:
        # Not `except`: that finds a list with any other value in it, and nothing where the field is missing.
        any_of = models.FieldCondition(key=key, match=models.MatchAny(any=_values(name, value["none"])))
        return models.Filter(must_not=[any_of])
    if operators == {"text"} and isinstance(value["text"], str) and value["text"].strip():
        return models.FieldCondition(key=key, match=models.MatchText(text=value["text"]))
    if operators and operators <= _RANGE:
        return _range(name, key, value)
    raise _not_a_condition(name)


def _values(name: str, values: object) -> list[Any]:
    usable = isinstance(values, Sequence) and not isinstance(values, str) and 0 < len(values) <= _MAX_VALUES
    if usable and (all(isinstance(v, str) for v in values) or all(type(v) is int for v in values)):  # type: ignore[attr-defined]
        return list(values)  # type: ignore[call-overload, no-any-return]
    raise InvalidInput(
        f"The filter on '{name}' takes a list of 1 to {_MAX_VALUES} texts, or of whole numbers.", field=f"filter.{name}"
    )


def _range(name: str, key: str, bounds: Mapping[str, Any]) -> models.Condition:
    if all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in bounds.values()):
        return models.FieldCondition(key=key, range=models.Range(**bounds))
    if all(isinstance(v, str) for v in bounds.values()):
        try:
            dates = {k: datetime.fromisoformat(v) for k, v in bounds.items()}
        except ValueError:
            raise InvalidInput(
                f"The filter on '{name}' has a bound that is neither a number nor an ISO 8601 date.",
                field=f"filter.{name}",
            ) from None
        return models.FieldCondition(key=key, range=models.DatetimeRange(**dates))
    raise _not_a_condition(name)


def _not_a_condition(name: str) -> InvalidInput:
    return InvalidInput(f"The filter on '{name}' must be {_FORMS}.", field=f"filter.{name}")
