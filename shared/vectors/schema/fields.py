"""Storage of declared metadata fields in points, and the filters that use it.

Tenants share a collection of Qdrant, and an index covers a key in the points of all tenants. So a field has no key of
its own: its values are copied to a fixed number of keys, independent of the names and the types of fields.

terms texts, integers and Booleans that are compared for equality: "department=hr"
number_0 ... number_7         numbers that are compared
datetime_0 ... datetime_3     dates that are compared
readers                       numbers of the readers of the document

The n-th field of numbers that a collection declares uses `number_n`; fields of dates use `datetime_n`.

A filter that an index cannot answer exactly like the metadata uses the metadata. The indexes change the cost
of a filter, not its result. An index is created when the first point with its key arrives.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Literal

from shared.domain.corpus.filterable import (
    MOST_DATETIMES,
    MOST_NUMBERS,
    NUMBERS,
    FieldType,
    FilterableField,
    fits,
    values_of,
)

TERMS = "terms"
READERS = "readers"
BOUNDS = frozenset({"gt", "gte", "lt", "lte"})
_OF_TERMS: frozenset[FieldType] = frozenset({"keyword", "integer", "bool"})
_LISTED: frozenset[FieldType] = frozenset({"keyword", "integer"})  # limit of `any` and `none`

KEYS: Mapping[str, Literal["keyword", "float", "datetime"]] = {
    TERMS: "keyword",
    **{f"number_{n}": "float" for n in range(MOST_NUMBERS)},
    **{f"datetime_{n}": "datetime" for n in range(MOST_DATETIMES)},
}
"""Every key, with the kind of its index."""


def reader_numbers(readers: Iterable[str]) -> list[int]:
    """Return the numbers of readers in points and filters, in the same order.

    A search tests the readers of every point that it visits. With a person in 200 groups this costs a third as much
    with numbers as with names, and an index of numbers is smaller. If two names ever had the same number, the ledger,
    which has the names, would still decide.
    """
    return [_reader_number(reader) for reader in readers]


@lru_cache(maxsize=20_000)
def _reader_number(reader: str) -> int:
    return int.from_bytes(hashlib.blake2b(reader.encode(), digest_size=8).digest(), "big", signed=True)


def indexed_values(fields: tuple[FilterableField, ...], metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of declared fields by their keys in a point. The metadata fits the fields."""
    payload: dict[str, Any] = {}
    terms = [
        _term(name, value) for name, kind in fields if kind in _OF_TERMS for value in values_of(metadata.get(name))
    ]
    if terms:
        payload[TERMS] = terms
    for name, key in _compared(fields):
        if values := values_of(metadata.get(name)):
            payload[key] = values
    return payload


def emptied_values(fields: tuple[FilterableField, ...]) -> dict[str, list[object]]:
    """Return empty values for all keys that declared fields may have in a point, to overwrite old values."""
    terms: dict[str, list[object]] = {TERMS: []} if any(kind in _OF_TERMS for _, kind in fields) else {}
    return terms | {key: [] for _, key in _compared(fields)}


def indexed_condition(fields: tuple[FilterableField, ...], name: str, condition: object) -> tuple[str, object] | None:
    """Return a key of points, and the condition on it that equals one on a field of the metadata.

    None if the field is not declared, or if the index would not match exactly the same.
    """
    kind = dict(fields).get(name)
    if kind is None:
        return None
    if not isinstance(condition, Mapping):
        if kind in _OF_TERMS and fits(kind, condition):
            return TERMS, _term(name, condition)
        # Equality of fractions is a range: as with undeclared fields it finds 2 and 2.0.
        return (dict(_compared(fields))[name], condition) if kind in NUMBERS and type(condition) is float else None
    if kind in _LISTED and len(condition) == 1 and condition.keys() <= {"any", "none"}:
        return _listed(name, kind, condition)
    if condition and condition.keys() <= BOUNDS and kind not in {"keyword", "bool"}:
        return _bounded(dict(_compared(fields))[name], kind, condition)
    return None


def _listed(name: str, kind: FieldType, condition: Mapping[str, Any]) -> tuple[str, object] | None:
    ((operator, values),) = condition.items()
    if not isinstance(values, list) or not all(fits(kind, value) for value in values):
        return None
    return TERMS, {operator: [_term(name, value) for value in values]}


def _bounded(key: str, kind: FieldType, condition: Mapping[str, Any]) -> tuple[str, object] | None:
    are_texts = all(isinstance(bound, str) for bound in condition.values())
    return (key, condition) if are_texts == (kind == "datetime") else None


def _compared(fields: tuple[FilterableField, ...]) -> Iterator[tuple[str, str]]:
    """Yield the fields whose values are compared, each with its key."""
    numbers = (name for name, kind in fields if kind in NUMBERS)
    datetimes = (name for name, kind in fields if kind == "datetime")
    yield from ((name, f"number_{n}") for n, name in enumerate(numbers))
    yield from ((name, f"datetime_{n}") for n, name in enumerate(datetimes))


def _term(name: str, value: object) -> str:
    """Return a field and its value as one text. A name has no `=`, and within a collection a field has one type."""
    return f"{name}={str(value).lower() if isinstance(value, bool) else value}"
