"""Filterable fields: metadata that a collection declares with a type, so that filters use an index.

Fields are declared before the first document and never removed. All points of the collection therefore have them, and a
field's number never changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Literal

from shared.domain.errors import Conflict, InvalidInput
from shared.domain.text.unicode_form import composed

FieldType = Literal["keyword", "integer", "float", "bool", "datetime"]
FilterableField = tuple[str, FieldType]
"""The name of a field at the top of the metadata, and the type of its values."""

MOST_FIELDS = 16
MOST_NUMBERS = 8  # fields that are compared as numbers
MOST_DATETIMES = 4
NUMBERS: frozenset[FieldType] = frozenset({"integer", "float"})

_NAME = re.compile(r"""[^\x00-\x1f\x7f."\\\[\]=]{1,100}""")
# The subset of ISO 8601 that Qdrant reads as a date; it counts microseconds.
_DATETIME = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d:\d\d(\.\d{1,6})?(Z|[+-]\d\d:\d\d)?)?",
    re.ASCII,
)
_VALUES: Mapping[FieldType, str] = {
    "keyword": "a text",
    "integer": "a whole number of 64 bits",
    "float": "a number",
    "bool": "true or false",
    "datetime": "a date such as 2026-05-01 or 2026-05-01T09:30:00Z",
}


def fits(kind: FieldType, value: object) -> bool:
    """Return whether a value of the metadata, or of a filter, is of a type."""
    return _FITS[kind](value)


def values_of(value: object) -> list[object]:
    """Return the values of a field: a list's items, or a single value; none for null."""
    if value is None:
        return []
    return value if isinstance(value, list) else [value]


def require_fit(fields: tuple[FilterableField, ...], metadata: Mapping[str, object]) -> None:
    """Raise `InvalidInput` if a value in the metadata does not have its field's type."""
    for name, kind in fields:
        if not all(fits(kind, value) for value in values_of(metadata.get(name))):
            raise InvalidInput(
                f"The collection declares the metadata field '{name}' as {kind}: its value is {_VALUES[kind]}, a list"
                " of these, or null.",
                field=f"metadata.{name}",
            )


def with_more(
    present: tuple[FilterableField, ...], declared: tuple[FilterableField, ...]
) -> tuple[FilterableField, ...]:
    """Return the fields of a collection with newly declared ones; existing fields are unchanged.

    Names have the composed form of Unicode, as in metadata.

    Raises:
        InvalidInput: a name cannot be declared, or there are too many fields.
        Conflict: a field has another type.
    """
    types = dict(present)
    for declared_name, kind in declared:
        name = composed(declared_name)
        _require_name(name)
        if types.setdefault(name, kind) != kind:
            raise Conflict(
                f"The field '{name}' is declared as {types[name]}, which cannot be changed: use a new collection.",
                field="filterable",
            )
    _require_few(list(types.values()))
    return tuple(types.items())


def _require_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(
            f"A declared field must be a top-level name of the metadata, of up to 100 characters without"
            f""" . = [ ] " and \\: '{name}' is not.""",
            field="filterable",
        )


def _require_few(types: list[FieldType]) -> None:
    if len(types) > MOST_FIELDS:
        raise InvalidInput(f"A collection may declare at most {MOST_FIELDS} fields.", field="filterable")
    if sum(kind in NUMBERS for kind in types) > MOST_NUMBERS:
        raise InvalidInput(f"A collection may declare at most {MOST_NUMBERS} fields of numbers.", field="filterable")
    if types.count("datetime") > MOST_DATETIMES:
        raise InvalidInput(f"A collection may declare at most {MOST_DATETIMES} fields of dates.", field="filterable")


def _is_integer(value: object) -> bool:
    return type(value) is int and -(2**63) <= value < 2**63


def _is_datetime(value: object) -> bool:
    if not isinstance(value, str) or not _DATETIME.fullmatch(value):
        return False
    try:
        datetime.fromisoformat(value)
    except ValueError:
        return False
    return True


_FITS: Mapping[FieldType, Callable[[object], bool]] = {
    "keyword": lambda value: isinstance(value, str),
    "integer": _is_integer,
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "datetime": _is_datetime,
}
