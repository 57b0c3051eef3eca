"""The fields that the metadata of a collection's documents have had so far.

A filter on a field that no document has selects nothing, or excludes nothing, which looks like missing knowledge. The
parse stage adds the fields of each document to its collection before queries find the document, so a query compares
its filter with a list in memory. Fields are never removed: a filter that was right stays right when its last document
is deleted.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MOST_KNOWN_FIELDS = 200
"""Fields of a collection. A collection with more is not watched: names such as ids of users would grow without end."""

_MOST_CHARS = 200
_POSITION = re.compile(r"\[\d*\]")  # of an item in a list, in the path of a filter


def fields_of(metadata: Mapping[str, Any]) -> set[str]:
    """Return the names of all fields; a dot leads into an object, also into objects in a list."""
    names: set[str] = set()
    open_objects: list[tuple[str, Any]] = [("", metadata)]
    while open_objects:
        path, value = open_objects.pop()
        if isinstance(value, list):
            open_objects += [(path, item) for item in value]
        elif isinstance(value, Mapping):
            inner = [(f"{path}.{name}" if path else name, item) for name, item in value.items()]
            names |= {_plain(name) for name, _ in inner}
            open_objects += inner
    return {name for name in names if len(name) <= _MOST_CHARS}


def unknown_fields(names: Iterable[str], present: Iterable[str]) -> list[str]:
    """Return the names of a filter's fields that are not among the present ones, each once and in their order.

    None is unknown if there are too many present fields to list them all.
    """
    known = set(present)
    if len(known) >= MOST_KNOWN_FIELDS:
        return []
    return [name for name in dict.fromkeys(names) if _plain(name) not in known and len(name) <= _MOST_CHARS]


def _plain(name: str) -> str:
    return _POSITION.sub("", name)
