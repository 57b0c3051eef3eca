"""Dify's conditions as filters of metadata; `shared.vectors.schema.filters` describes the latter."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from features.dify.schemas import DifyCondition, MetadataCondition
from shared.domain.errors import InvalidInput

Filter = dict[str, Any]

_FIELD = "metadata_condition"
_WORDS = {"all", "any", "not"}  # of our filters, which therefore cannot name a field
_BOUNDS = {">": "gt", "<": "lt", "≥": "gte", "≤": "lte", "before": "lt", "after": "gt"}


def metadata_filter(given: MetadataCondition | None) -> Filter | None:
    """Convert conditions; None without conditions.

    Raises:
        InvalidInput: an operator is not supported, or it does not fit its value.
    """
    if given is None or not given.conditions:
        return None
    filters = [_filter(condition) for condition in given.conditions]
    return {"any" if given.logical_operator == "or" else "all": filters}


def _filter(condition: DifyCondition) -> Filter:
    for name in condition.name:
        if name in _WORDS:
            raise InvalidInput(f"A condition cannot name the field '{name}'.", field=_FIELD)
    filters = [_of_field(name, condition) for name in condition.name]
    return filters[0] if len(filters) == 1 else {"any": filters}


def _of_field(name: str, condition: DifyCondition) -> Filter:
    operator = condition.comparison_operator
    if operator in _BOUNDS:
        return {name: {_BOUNDS[operator]: _number(_single(condition))}}
    make = _MAKERS.get(operator)
    if make is None:
        raise InvalidInput(f"The operator '{operator}' is not supported: use 'contains' or 'is'.", field=_FIELD)
    return make(name, condition)


def _equal(name: str, condition: DifyCondition) -> Filter:
    value = _single(condition)
    return {name: _number(value) if condition.comparison_operator in {"=", "≠"} else value}


def _text(name: str, condition: DifyCondition) -> Filter:
    return {name: {"text": str(_single(condition))}}


def _one_of(name: str, condition: DifyCondition) -> Filter:
    value = condition.value
    if isinstance(value, str):  # Dify's form for lists is a text with commas
        value = [each.strip() for each in value.split(",")]
    if not isinstance(value, list):
        raise InvalidInput(f"The operator '{condition.comparison_operator}' takes a list.", field=_FIELD)
    return {"any": [{name: each} for each in value]}


def _exists(name: str, _: DifyCondition) -> Filter:
    return {name: {"exists": True}}


def _negated(make: Callable[[str, DifyCondition], Filter]) -> Callable[[str, DifyCondition], Filter]:
    return lambda name, condition: {"not": make(name, condition)}


_MAKERS: Mapping[str, Callable[[str, DifyCondition], Filter]] = {
    "is": _equal,
    "is not": _negated(_equal),
    "=": _equal,
    "≠": _negated(_equal),
    "contains": _text,
    "not contains": _negated(_text),
    "in": _one_of,
    "not in": _negated(_one_of),
    "empty": _negated(_exists),
    "not empty": _exists,
}


def _single(condition: DifyCondition) -> str | int | float:
    value = condition.value
    if value is None or isinstance(value, list):
        raise InvalidInput(f"The operator '{condition.comparison_operator}' takes one value.", field=_FIELD)
    return value


def _number(value: str | float) -> str | int | float:
    """Return a number that was sent as a text; Dify's forms send some numbers so."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
