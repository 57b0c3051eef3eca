"""The order in which people read the boxes of a slide: top to bottom, left to right, columns apart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeVar

Item = TypeVar("Item")

_MOST_CUTS = 12
_OVERLAP = 0.15
"""Boxes that overlap by this share of the smaller one are still one below the other, or next to each other."""


@dataclass(frozen=True, slots=True)
class Box:
    """The position and the size of something on a slide, in any unit."""

    left: float
    top: float
    width: float
    height: float


@dataclass(frozen=True, slots=True)
class _Placed(Generic[Item]):
    item: Item
    box: Box


def in_reading_order(items: Sequence[tuple[Item, Box | None]]) -> Iterator[Item]:
    """Yield the items in the order of reading; items without a box come first, in the given order.

    The slide is cut into bands along horizontal lines that cross no box, each band into columns along vertical lines,
    and so on (the XY cut of G. Nagy and S. Seth, 1984). Boxes that cannot be separated are read in the order of their
    tops.
    """
    yield from (item for item, box in items if box is None)
    boxes = [_Placed(item, box) for item, box in items if box is not None]
    for placed in _ordered(boxes):
        yield placed.item


def _ordered(boxes: list[_Placed[Item]]) -> Iterator[_Placed[Item]]:
    waiting = [(boxes, 0)]
    while waiting:
        group, cuts = waiting.pop()
        parts = _parts(group) if len(group) > 1 and cuts < _MOST_CUTS else []
        if len(parts) > 1:
            waiting += [(part, cuts + 1) for part in reversed(parts)]
        else:
            yield from sorted(group, key=lambda placed: (placed.box.top, placed.box.left))


def _parts(boxes: list[_Placed[Item]]) -> list[list[_Placed[Item]]]:
    bands = _split(boxes, lambda box: (box.top, box.height))
    return bands if len(bands) > 1 else _split(boxes, lambda box: (box.left, box.width))


def _split(boxes: list[_Placed[Item]], axis: Callable[[Box], tuple[float, float]]) -> list[list[_Placed[Item]]]:
    """Divide the boxes along the lines across the axis that cross none of them."""
    ordered = sorted(boxes, key=lambda placed: axis(placed.box)[0])
    parts, end = [[ordered[0]]], sum(axis(ordered[0].box))
    for before, placed in pairwise(ordered):
        start, length = axis(placed.box)
        slack = _OVERLAP * min(length, axis(before.box)[1])
        if start >= end - slack:
            parts.append([])
        parts[-1].append(placed)
        end = max(end, start + length)
    return parts
