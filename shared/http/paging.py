"""Paging: a cursor is the key of the last item, encoded so that clients do not depend on its content."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

import orjson
from fastapi import Query

from shared.http.problems import MalformedRequest

T = TypeVar("T")
K = TypeVar("K")

Limit = Annotated[int, Query(ge=1, le=200, description="Maximum number of items on the page")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next_cursor` of the previous page")]


def split_page(
    rows: Sequence[T], limit: int, key_of: Callable[[T], Sequence[object]]
) -> tuple[Sequence[T], str | None]:
    """Split at most `limit + 1` rows into a page and the cursor of the next page, None at the end."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, cursor_of(key_of(page[-1]))


def cursor_of(key: Sequence[object]) -> str:
    return base64.urlsafe_b64encode(orjson.dumps(key)).decode().rstrip("=")


def read_cursor(cursor: str | None, read: Callable[[Any], K]) -> K | None:
    """Return the key in a cursor; None without a cursor.

    Raises:
        MalformedRequest: the cursor is not from this server.
    """
    if cursor is None:
        return None
    try:
        return read(orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)))
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        raise MalformedRequest("The cursor is invalid: omit it to start at the first page.", field="cursor") from None


def read_name(key: list[str]) -> str:
    """Read the key of a list that is ordered by name.

    Raises:
        ValueError: the key is not a name.
    """
    (name,) = key
    if not isinstance(name, str) or "\0" in name:
        raise ValueError
    return name


def read_time_and_id(key: list[str]) -> tuple[datetime, UUID]:
    """Read the key of a list that is ordered by time.

    Raises:
        ValueError: the key is not a time with a time zone, and an id.
    """
    time, item_id = key
    at = datetime.fromisoformat(time)
    if at.tzinfo is None or not 2000 <= at.year <= 3000:  # noqa: PLR2004  PostgreSQL refuses years far from these
        raise ValueError
    return at, UUID(item_id)
