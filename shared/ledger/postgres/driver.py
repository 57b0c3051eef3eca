"""The driver's connection, which looks up the types of PostgreSQL once per process."""

from __future__ import annotations

from collections.abc import Iterable
from types import SimpleNamespace
from typing import Any, ClassVar

import asyncpg

_FIRST_OWN_ID = 10_000  # types with smaller ids are the same on every server
_NO_LOOKUP = SimpleNamespace(name="none")  # the driver expects the statement of a lookup


class TypeCachingConnection(asyncpg.Connection):  # type: ignore[misc]  # asyncpg has no types
    """A connection that shares its knowledge of types with the connections that follow.

    The driver looks up an array type when a statement of a connection first uses it. This query takes 5 to 15 ms of
    PostgreSQL's processor time, as much as the rest of a connection's start.
    """

    _found: ClassVar[dict[int, Any]] = {}  # element types precede their arrays

    async def _introspect_types(self, typeoids: Iterable[int], *timeout: Any) -> tuple[Any, Any]:
        ids = set(typeoids)
        if ids <= self._found.keys():
            return list(self._found.values()), _NO_LOOKUP
        types, lookup = await super()._introspect_types(ids, *timeout)
        self._found.update({found["oid"]: found for found in types if found["oid"] < _FIRST_OWN_ID})
        return types, lookup
