"""The token budget of an answer's context."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def fit(items: Sequence[T], tokens_of: Callable[[T], int], max_tokens: int) -> list[T]:
    """Take items in order while they fit; one that is too large is passed over for a smaller one behind it."""
    taken, left = [], max_tokens
    for item in items:
        cost = tokens_of(item)
        if cost <= left:
            taken.append(item)
            left -= cost
    return taken
