"""Groups of points: a collection's points of one kind, for which Qdrant builds a separate graph."""

from __future__ import annotations

from typing import Literal

from shared.domain.corpus.index_location import IndexLocation

PointKind = Literal["q", "t", "d"]
"""Of questions, of texts (each text is one point of its chunk), or of disabled questions, which no search reads."""
KINDS: tuple[PointKind, ...] = ("q", "t", "d")


def group(location: IndexLocation, kind: PointKind) -> str:
    """Name the group of a collection's points of one kind."""
    return f"{location.build}/{kind}"
