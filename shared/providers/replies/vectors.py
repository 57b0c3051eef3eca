"""Replies of embedding models."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from shared.domain.vectors import Vectors
from shared.providers.replies.chat import unreadable
from shared.providers.replies.reading import FewerVectors

_NESTED = 2  # dimensions of a vector in another list


def vectors_in(reply: Any, count: int) -> Vectors:
    """Return the vectors of a reply to `count` texts, shape `(count, dimensions)`, of unit length, in order.

    The vectors may be lists or base64, nested in another list, in Ollama's form (`embeddings`), or the whole reply.

    Raises:
        UnusableReply: the reply has no vectors; `FewerVectors` if it has not one for each text.
    """
    with np.errstate(over="ignore"):  # a number that is too large becomes infinite
        return _scaled(reply, count)


def _scaled(reply: Any, count: int) -> Vectors:
    try:
        rows = [_decode(row) for row in _in_order(_rows(reply))]
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        raise unreadable("embedding", "sent a reply without vectors") from error
    if len(rows) != count:
        raise FewerVectors(len(rows), count)
    if len({len(row) for row in rows}) > 1:
        raise unreadable("embedding", "sent vectors of different lengths")
    vectors = np.stack(rows)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)):
        raise unreadable("embedding", "sent a vector that is not finite")
    if not np.all(norms):
        raise unreadable("embedding", "sent a vector of zeros, by which its text would never be found")
    scaled: Vectors = vectors / norms
    return scaled


def _rows(reply: Any) -> list[Any]:
    if isinstance(reply, Mapping):
        reply = next((reply[name] for name in ("data", "embeddings", "embedding") if reply.get(name) is not None), None)
    if isinstance(reply, Mapping):  # of one text
        reply = [reply]
    if not isinstance(reply, list) or not reply:
        raise ValueError("no list of vectors")
    return [reply] if isinstance(reply[0], (int, float)) else reply


def _in_order(rows: list[Any]) -> list[Any]:
    """Return the rows by their numbers; in the order of the reply if they do not number each row once."""
    numbers = [_number(row.get("index")) if isinstance(row, Mapping) else None for row in rows]
    given = [number for number in numbers if number is not None]
    if len(given) < len(rows) or sorted(given) != list(range(min(given), min(given) + len(rows))):
        return rows
    return [rows[position] for position in sorted(range(len(rows)), key=given.__getitem__)]


def _number(index: object) -> int | None:
    if isinstance(index, str):
        return int(index) if index.isascii() and index.isdecimal() else None
    is_number = isinstance(index, (int, float)) and not isinstance(index, bool)
    return int(index) if is_number and float(index).is_integer() else None  # type: ignore[arg-type,call-overload]


def _decode(row: Any) -> Vectors:
    """Return the vector in a row, shape `(dimensions,)`.

    Raises:
        TypeError, ValueError: the row contains none.
    """
    value = row["embedding"] if isinstance(row, Mapping) else row
    if isinstance(value, Mapping):
        value = value.get("values", value.get("float"))
    # An endpoint that does not know `encoding_format` answers with lists.
    if isinstance(value, str):
        vector = np.frombuffer(base64.b64decode(value, validate=True), dtype="<f4")
    else:
        vector = np.asarray(value, dtype=np.float32)
    if vector.ndim == _NESTED and len(vector) == 1:
        (vector,) = vector
    if vector.ndim != 1 or not vector.size:
        raise ValueError("no vector")
    return vector
