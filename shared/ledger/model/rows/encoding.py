"""Encoding of rows: a group of rows is one parameter, a JSON array whose names match the columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any
from uuid import UUID

import orjson

from shared.domain.errors import Permanent


def as_json(value: object) -> str:
    """Encode a value.

    Raises:
        Permanent: a text in it is not valid Unicode.
    """
    try:
        return orjson.dumps(value, default=_identity).decode()
    except orjson.JSONEncodeError as error:
        raise Permanent("a text is not valid Unicode") from error


def _identity(value: object) -> str:
    if isinstance(value, UUID):  # asyncpg returns a subclass that orjson cannot encode
        return str(value)
    raise TypeError


def encoded(values: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the parameters of a group: its `rows`, and the `ids` of rows that have one (`is_given`)."""
    rows = list(values)
    return {"rows": as_json(rows), "ids": [row["id"] for row in rows if "id" in row]}


def bytea(value: bytes) -> str:
    return f"\\x{value.hex()}"
