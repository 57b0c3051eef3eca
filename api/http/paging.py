"""Paging: opaque cursors over the key of the last item."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

import orjson
from fastapi import Query

from api.http.problems import MalformedRequest

T = TypeVar("T")
K = TypeVar("K")

Limit = Annotated[int, Query(ge=1, le=200, description="the most items of a page")]
Cursor = Annotated[str | None, Query(max_length=1000, description="`next_cursor` of the page before")]


def cut(rows: Sequence[T], limit: int, key_of: Callable[[T], Sequence[object]]) -> tuple[Sequence[T], str | None]:
    """Split `limit + 1` rows into a page and the cursor of the next one, None at the end."""
    if len(rows) <= limit:
        return rows, None
    page = rows[:limit]
    return page, base64.urlsafe_b64encode(orjson.dumps(key_of(page[-1]))).decode().rstrip("=")


def key_from(cursor: str | None, read: Callable[[Any], K]) -> K | None:
    """Read a cursor's key.

    Raises:
        Malformed: it is not one of ours.
    """
    if cursor is None:
        return None
    try:
        return read(orjson.loads(base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True)))
    except (ValueError, TypeError, KeyError, IndexError, OverflowError):
        raise MalformedRequest("This cursor is not one: leave it out to begin at the front.", field="cursor") from None


def time_and_id(key: list[str]) -> tuple[datetime, UUID]:
    """The key of lists that go by time."""
    time, identity = key
    at = datetime.fromisoformat(time)
    if at.tzinfo is None or not 2000 <= at.year <= 3000:  # noqa: PLR2004  what PostgreSQL has no room for
        raise ValueError
    return at, UUID(identity)
