"""The picture of a page for people, who compare it with the text that was read."""

from __future__ import annotations

from io import BytesIO
from math import sqrt

from PIL import Image

from shared.domain.stages.pages import MAX_PICTURE_BYTES

_SHOWN_DPI = 100
"""Letters of 8 points are legible, and an A4 page has 827 x 1,169 pixels."""

_MOST_PIXELS = 2_500_000  # of larger pages, and of pages in a lower resolution
_QUALITIES = (15, 3)  # of 100; letters are as legible as with 40, in two thirds of the bytes
_SPEED = 2  # of WebP's methods 0 to 6


def shown(page: Image.Image, dpi: int) -> bytes:
    """Return a WebP of a grey page at 100 dpi; empty if it would have more bytes than allowed, as with strong noise."""
    scale = min(1.0, _SHOWN_DPI / dpi, sqrt(_MOST_PIXELS / (page.width * page.height)))
    size = max(1, int(page.width * scale)), max(1, int(page.height * scale))
    small = page.resize(size, Image.Resampling.BOX)
    for quality in _QUALITIES:
        content = BytesIO()
        small.save(content, "WEBP", quality=quality, method=_SPEED)
        if len(content.getvalue()) <= MAX_PICTURE_BYTES:
            return content.getvalue()
    return b""
