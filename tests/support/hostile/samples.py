"""Valid files, small so that reading them takes little time: others are made from them."""

from __future__ import annotations

import io
from functools import cache

from PIL import Image, ImageDraw, ImageFont

TEXT = "The harbour opens at six."
KINDS = ("PNG", "JPEG", "TIFF", "WEBP", "BMP", "GIF", "PDF")
SUFFIXES = {"PNG": "png", "JPEG": "jpg", "TIFF": "tif", "WEBP": "webp", "BMP": "bmp", "GIF": "gif", "PDF": "pdf"}


@cache
def small() -> Image.Image:
    """Return a grey picture of a line of text."""
    page = Image.new("L", (480, 120), 255)
    ImageDraw.Draw(page).text((24, 40), TEXT, fill=0, font=ImageFont.load_default(34))
    return page


def saved(page: Image.Image, kind: str, **options: object) -> bytes:
    content = io.BytesIO()
    resolution = {"resolution": 200} if kind == "PDF" else {"dpi": (200, 200)}
    page.save(content, kind, **resolution, **options)
    return content.getvalue()


@cache
def valid() -> dict[str, bytes]:
    """Return a file of each kind, and of kinds with another compression."""
    tiffs = {name: {"compression": name} for name in ("group3", "group4", "tiff_lzw", "jpeg")}
    faxes = {
        f"TIFF {name}": saved(small().convert("1" if name.startswith("group") else "L"), "TIFF", **options)
        for name, options in tiffs.items()
    }
    return {kind: saved(small(), kind) for kind in KINDS} | faxes
