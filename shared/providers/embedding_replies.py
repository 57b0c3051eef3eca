"""Replies of embedding models."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any

import numpy as np

from shared.domain.errors import Unavailable
from shared.domain.vectors import Vectors


def vectors_in(reply: Mapping[str, Any], count: int) -> Vectors:
    """Return the vectors of a reply to `count` texts, shape `(count, dimensions)`, of unit length, in order.

    Raises:
        Unavailable: the reply has no vectors, or not one for each text.
    """
    try:
        rows = sorted(reply["data"], key=lambda row: row["index"])
        vectors = np.stack([_decode(row["embedding"]) for row in rows])
    except (KeyError, TypeError, ValueError) as error:
        raise Unavailable(
            "the embedding provider sent a reply without vectors", component="embedding", answered=True
        ) from error
    if len(vectors) != count:
        raise Unavailable(
            f"the embedding provider sent {len(vectors)} vectors for {count} texts", component="embedding"
        )
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    if not np.all(np.isfinite(norms)):
        raise Unavailable(
            "the embedding provider sent a vector that is not finite", component="embedding", answered=True
        )
    norms[norms == 0] = 1
    scaled: Vectors = vectors / norms
    return scaled


def _decode(value: str | list[float]) -> Vectors:
    # An endpoint that does not know `encoding_format` answers with lists.
    if isinstance(value, str):
        return np.frombuffer(base64.b64decode(value), dtype="<f4")
    return np.asarray(value, dtype=np.float32)
