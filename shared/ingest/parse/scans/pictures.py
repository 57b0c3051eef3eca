"""Picture files, whose frames are pages. With `pdf_pages`, `ink` and `engine` the only modules that call Pillow."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from io import BytesIO
from math import sqrt

from PIL import (
    Image,
    ImageOps,
    MpoImagePlugin,
    TiffImagePlugin,
    WebPImagePlugin,
)

from shared.domain.errors import Unreadable
from shared.ingest.parse.scans.limits import LEAST_DPI, LEAST_SIDE, MAX_DECODED, MAX_PAGES, MAX_PIXELS, MAX_SIDE

Image.preinit()  # a confined process can import nothing when it opens the first picture
LOADED = (MpoImagePlugin, TiffImagePlugin, WebPImagePlugin)
"""The plugins that are not imported by `preinit`."""

_FORMATS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF")
_PAGE_INCHES = 11.7
"""Assumed length of a page whose resolution is unknown: A4."""

_LONGEST_PAGE = 20  # inches; cameras declare 72 dpi, with which a photograph would be larger than a poster
_LEAST_STATED, _MOST_STATED = 50, 1_200  # dots per inch that are believed
_MOST_ENLARGED = 3.0
_Scale = tuple[float, float]
_DAMAGE = (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, OverflowError, struct.error)
"""The errors that Pillow raises for damaged files."""

Image.MAX_IMAGE_PIXELS = None  # each file has its own limit, by its resolution


def frame_count(content: bytes) -> int:
    """Return the number of pages of a picture file, which only in TIFF can be several.

    Raises:
        Unreadable: the file is damaged, an animation, or has too many pages.
    """
    with _opened(content) as image:
        if image.format == "TIFF":
            return _tiff_frames(image)
        if image.format in ("GIF", "WEBP", "PNG") and getattr(image, "n_frames", 1) > 1:
            raise Unreadable(f"the file is an animation ({image.format}); add its pictures as PNG files")
        return 1


def _tiff_frames(image: Image.Image) -> int:
    for count in range(1, MAX_PAGES + 1):
        try:
            image.seek(count)
        except EOFError:
            return count
    raise Unreadable(f"the TIFF file has more than the {MAX_PAGES:,} pages allowed; divide it")


def picture(content: bytes, number: int, dpi: int) -> Image.Image:
    """Return a page as a grey picture of about `dpi`, upright if its camera recorded the orientation.

    Raises:
        Unreadable: the page is damaged, too large or too small.
    """
    with _opened(content) as image:
        try:
            image.seek(number - 1)
        except EOFError as error:
            raise Unreadable("it is not in the file") from error
        size = _size(image, dpi)
        image.draft("L", size)  # a JPEG is decoded at a fraction of its size
        grey = _grey(image)
    resized = grey.resize(size, Image.Resampling.LANCZOS) if size != grey.size else grey
    return _upright(resized)


def _upright(page: Image.Image) -> Image.Image:
    """Return a page in the orientation that its camera recorded; it is read as it is if the record is damaged."""
    try:
        return ImageOps.exif_transpose(page)
    except _DAMAGE:
        return page


def _size(image: Image.Image, dpi: int) -> tuple[int, int]:
    """Return the width and height of the page's picture for `dpi`.

    Raises:
        Unreadable: it would be too large even at the lowest resolution, or it has no room for a letter.
    """
    width, height = image.size
    across, down = _resolution(image)
    if min(width, height) < LEAST_SIDE:
        raise Unreadable(_too_small(width, height))
    least = LEAST_DPI / max(across, down)
    if (
        width * height > MAX_DECODED
        or width * height * least * least > MAX_PIXELS
        or max(width, height) * least > MAX_SIDE
    ):
        raise Unreadable(f"it has {width:,} x {height:,} pixels, too many to be read; make it smaller")
    sizes = width * min(dpi / across, _MOST_ENLARGED), height * min(dpi / down, _MOST_ENLARGED)
    shrink = min(1.0, sqrt(MAX_PIXELS / (sizes[0] * sizes[1])), MAX_SIDE / max(sizes))
    size = int(sizes[0] * shrink), int(sizes[1] * shrink)
    if min(size) < LEAST_SIDE:
        raise Unreadable(_too_small(width, height))
    return size


def _too_small(width: int, height: int) -> str:
    return f"it has {width:,} x {height:,} pixels, too few for a letter"


def _resolution(image: Image.Image) -> _Scale:
    """Return the dots per inch across and down; faxes have different ones. Absurd ones are replaced."""
    stated = image.info.get("dpi", ())
    values = [float(value) for value in stated] if isinstance(stated, tuple) else []
    across, down = values if len(values) == 2 else (0.0, 0.0)  # noqa: PLR2004 - across and down
    likely = min(across, down) >= _LEAST_STATED and max(across, down) <= _MOST_STATED
    if likely and max(image.width / across, image.height / down) <= _LONGEST_PAGE:
        return across, down
    guessed = max(image.size) / _PAGE_INCHES
    return guessed, guessed


def _grey(image: Image.Image) -> Image.Image:
    """Return the picture in grey, with transparent parts white and 8 bits for a pixel."""
    if image.mode.startswith("I"):
        return image.point(lambda value: value / 256).convert("L")
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        paper = Image.new("RGBA", image.size, "white")
        paper.alpha_composite(image)
        return paper.convert("L")
    return image.convert("L")


@contextmanager
def _opened(content: bytes) -> Iterator[Image.Image]:
    """Open a picture, and convert the library's errors."""
    try:
        with Image.open(BytesIO(content), formats=_FORMATS) as image:
            yield image
    except _DAMAGE as error:
        raise Unreadable(
            "the picture is damaged and cannot be opened", detail=f"{type(error).__name__}: {error}"
        ) from error
