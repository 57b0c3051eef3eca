"""OpenAI's filters of attributes as filters of metadata; `shared.vectors.schema.filters` describes the latter."""

from __future__ import annotations

from typing import Any

from features.openai.schemas.vector_stores import ComparisonFilter, CompoundFilter
from shared.domain.errors import InvalidInput

Filter = dict[str, Any]

_WORDS = {"all", "any", "not"}  # of our filters, which therefore cannot name a field
_LISTS = {"and": "all", "or": "any"}


def metadata_filter(given: ComparisonFilter | CompoundFilter) -> Filter:
    """Convert a filter.

    Raises:
        InvalidInput: a comparison and its value do not fit.
    """
    if isinstance(given, CompoundFilter):
        return {_LISTS[given.type]: [metadata_filter(each) for each in given.filters]}
    if given.key in _WORDS:
        raise InvalidInput(f"A filter cannot name the attribute '{given.key}'.", field="filters")
    return _comparison(given)


def _comparison(given: ComparisonFilter) -> Filter:
    value = given.value
    if given.type in {"in", "nin"}:
        if not isinstance(value, list):
            raise InvalidInput(f"'{given.type}' takes a list of values.", field="filters")
        found = _one_of(given.key, value)
        return found if given.type == "in" else {"not": found}
    if isinstance(value, list):
        raise InvalidInput(f"'{given.type}' takes one value: use 'in' for a list.", field="filters")
    if given.type == "eq":
        return {given.key: value}
    if given.type == "ne":
        return {"not": {given.key: value}}
    return {given.key: {given.type: value}}


def _one_of(key: str, values: list[Any]) -> Filter:
    if all(isinstance(value, str) for value in values) or all(type(value) is int for value in values):
        return {key: {"any": values}}
    return {"any": [{key: value} for value in values]}
