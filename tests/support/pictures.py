"""Pictures of pages, for the engine of OCR: with printed text, and with ink but no words."""

from __future__ import annotations

import random
from collections.abc import Sequence
from io import BytesIO

from PIL import Image, ImageDraw, ImageFont

_SIZE = (1165, 1654)  # A5 at 200 dpi


def picture(text: str) -> Image.Image:
    """Return a page with lines of printed text."""
    page = Image.new("L", _SIZE, 255)
    ImageDraw.Draw(page).multiline_text((80, 200), text, fill=0, font=ImageFont.load_default(44), spacing=20)
    return page


def scribble() -> Image.Image:
    """Return a page with much ink and no words."""
    page, chance = Image.new("L", _SIZE, 255), random.Random(1)
    for _ in range(60):
        corners = [(chance.randrange(_SIZE[0]), chance.randrange(_SIZE[1])) for _ in range(4)]
        ImageDraw.Draw(page).line(corners, fill=0, width=24)
    return page


def saved(pages: Sequence[Image.Image], kind: str) -> bytes:
    """Return a file with these pages; `kind` is a format that Pillow writes, such as PDF or TIFF."""
    first, *others = pages
    content = BytesIO()
    more: dict[str, object] = {"save_all": True, "append_images": others} if others else {}
    first.save(content, kind, resolution=200, **more)
    return content.getvalue()
