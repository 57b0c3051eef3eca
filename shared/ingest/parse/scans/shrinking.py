"""Pictures in documents, made small enough for a vision model."""

from __future__ import annotations

from io import BytesIO

from PIL import Image

from shared.ingest.parse.scans import pictures
from shared.ingest.parse.scans.limits import MAX_DECODED, MAX_ILLUSTRATION_BYTES

LEAST_PIXELS = 200
"""A picture with a shorter side is an icon, a line or a bullet."""

MOST_PIXELS = 1_024
"""Vision models read larger pictures at this size or charge more for them; labels of charts remain legible."""

_FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
_QUALITY = 85

assert pictures.LOADED  # the plugins are imported before this process is confined


def shrunk(content: bytes) -> bytes | None:
    """Return a picture as a JPEG file of at most 1,024 pixels; None if it is small, damaged or too large."""
    try:
        with Image.open(BytesIO(content), formats=_FORMATS) as image:
            if min(image.size) < LEAST_PIXELS or image.width * image.height > MAX_DECODED:
                return None
            image.draft("RGB", (MOST_PIXELS, MOST_PIXELS))  # a JPEG is decoded at a fraction of its size
            return _jpeg(image)
    except (OSError, ValueError, SyntaxError, EOFError, Image.DecompressionBombError):  # a damaged picture
        return None


def _jpeg(image: Image.Image) -> bytes | None:
    image.thumbnail((MOST_PIXELS, MOST_PIXELS))
    rgba = image.convert("RGBA")
    white = Image.new("RGBA", rgba.size, "white")
    file = BytesIO()
    Image.alpha_composite(white, rgba).convert("RGB").save(file, "JPEG", quality=_QUALITY)
    jpeg = file.getvalue()
    return jpeg if len(jpeg) <= MAX_ILLUSTRATION_BYTES else None
