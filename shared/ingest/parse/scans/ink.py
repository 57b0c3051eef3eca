"""Ink: pixels of a page that differ from its paper, and the pixels among them that no word covers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from PIL import Image, ImageDraw

Box = tuple[int, int, int, int]
"""left, top, right, bottom in pixels"""

BLANK_SHARE = 0.0003
"""Less of a page's area is dust or a page number: a line of text covers 0.15 % of a page."""

_CONTRAST = 60  # of 255 levels between ink and paper
_MARGIN = 0.03  # of a page's sides: shadows of a scanner
_AROUND = 4  # pixels around a word's box that belong to its letters


@dataclass(frozen=True, slots=True)
class InkCoverage:
    """Shares of ink: `of_page` of the page's area, `unread` of the ink outside the boxes, both 0 to 1."""

    of_page: float
    unread: float

    @property
    def is_blank(self) -> bool:
        return self.of_page < BLANK_SHARE


def measure(page: Image.Image, boxes: Iterable[Box]) -> InkCoverage:
    """Return the ink of a grey page, and its share outside the boxes of words and pictures.

    Ink is darker than the paper, or lighter on a dark page; the median is the paper.
    """
    inner = _inner(page.size)
    counts = page.crop(inner).histogram()
    paper = _median(counts)
    total = _inked(counts, paper)
    outside = Image.new("1", page.size, 1)
    draw = ImageDraw.Draw(outside)
    for left, top, right, bottom in boxes:
        draw.rectangle((left - _AROUND, top - _AROUND, right + _AROUND, bottom + _AROUND), fill=0)
    unread = _inked(page.crop(inner).histogram(outside.crop(inner)), paper)
    area = (inner[2] - inner[0]) * (inner[3] - inner[1])
    return InkCoverage(total / area, unread / max(total, 1))


def _inner(size: tuple[int, int]) -> Box:
    width, height = size
    across, down = int(width * _MARGIN), int(height * _MARGIN)
    return across, down, width - across, height - down


def _median(counts: list[int]) -> int:
    half, seen = sum(counts) // 2, 0
    for level, count in enumerate(counts):
        seen += count
        if seen > half:
            return level
    return len(counts) - 1


def _inked(counts: list[int], paper: int) -> int:
    return sum(count for level, count in enumerate(counts) if abs(level - paper) > _CONTRAST)
