"""Pages of a PDF file: which of them have no text, and their pictures. The only module that calls pdfium."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from ctypes import c_float
from math import sqrt

import pypdfium2
from PIL import Image
from pypdfium2 import raw

from shared.domain.errors import Unreadable
from shared.ingest.parse.scans.limits import LEAST_DPI, LEAST_SIDE, MAX_PIXELS, MAX_SIDE

FEW_LETTERS = 32
"""A scanned page may have a stamp or a page number as text."""

DAMAGED_SHARE = 0.1
"""Share of characters without a meaning above which the text of a page is useless."""

_LARGE = 0.5  # share of a page that its pictures cover
_MAX_DEPTH = 6  # of pictures in nested forms
_POINTS = 72  # per inch


def without_text(pdf: bytes, texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    """Return the numbers of the pages that have pictures instead of text, or text that is damaged.

    If no page has any letter, every page on which anything is drawn counts: the letters may be drawn as curves.

    Args:
        pdf: content of the file.
        texts: for each page in order, (page number, its text).
    """
    damaged = {number for number, text in texts if is_damaged(text)}
    few = [number for number, text in texts if letters(text) < FEW_LETTERS]
    if not damaged and not few:
        return ()
    least = _LARGE if any(letters(text) for number, text in texts if number not in damaged) else 0
    with _opened(pdf) as document:
        few = [number for number in few if number <= len(document) and _drawn(document, number, least)]
    return tuple(sorted(damaged.union(few)))


def letters(text: str) -> int:
    """Return the number of letters and digits, up to the number that decides."""
    count = 0
    for char in text:
        count += char.isalnum()
        if count == FEW_LETTERS:
            break
    return count


def is_damaged(text: str) -> bool:
    """Return whether many characters are private, replaced or unassigned, as from fonts without a table of them."""
    visible = "".join(text.split())
    if visible.isprintable() and "\ufffd" not in visible:  # most pages; counting would take 2 % of their parsing
        return False
    unknown = sum(
        char == "\ufffd" or not (char.isprintable() or char in "\u200b\u200c\u200d\u00ad") for char in visible
    )
    return len(visible) >= FEW_LETTERS and unknown > len(visible) * DAMAGED_SHARE


def picture(pdf: bytes, number: int, dpi: int) -> Image.Image:
    """Return a page as a grey picture; the resolution of a very large page is lower.

    Raises:
        Unreadable: the file has no such page, or the page is too large or too small.
    """
    with _opened(pdf) as document:
        if number > len(document):
            raise Unreadable("it is not in the file")
        page = document[number - 1]
        width, height = page.get_size()
        rendered: Image.Image = page.render(scale=_scale(width, height, dpi), grayscale=True).to_pil()
        return rendered.convert("L")


def _scale(width: float, height: float, dpi: int) -> float:
    """Return the pixels per point with which a page is drawn.

    Raises:
        Unreadable: it would be too large even at the lowest resolution, or it has no room for a letter.
    """
    scale = min(dpi / _POINTS, sqrt(MAX_PIXELS / max(width * height, 1)), MAX_SIDE / max(width, height, 1))
    if scale * _POINTS < LEAST_DPI:
        raise Unreadable(f"it measures {width:,.0f} x {height:,.0f} points, too many to be read; divide it")
    if min(width, height) * scale < LEAST_SIDE:
        raise Unreadable(f"it measures {width:,.0f} x {height:,.0f} points, too few for a letter")
    return scale


@contextmanager
def _opened(pdf: bytes) -> Iterator[pypdfium2.PdfDocument]:
    try:
        document = pypdfium2.PdfDocument(pdf)
        try:
            yield document
        finally:
            document.close()
    except pypdfium2.PdfiumError as error:
        raise Unreadable("the PDF file is damaged and its pages cannot be drawn", detail=str(error)) from error


def _drawn(document: pypdfium2.PdfDocument, number: int, least: float) -> bool:
    """Return whether pictures cover more than a share of a page; with share 0, whether it contains anything."""
    page = document[number - 1]
    objects = [raw.FPDFPage_GetObject(page, index) for index in range(raw.FPDFPage_CountObjects(page))]
    if not least:
        return bool(objects)
    left, bottom, right, top = page.get_bbox()
    area = max((right - left) * (top - bottom), 1.0)
    covered = sum(_overlap(_bounds(item), (left, bottom, right, top)) for item in objects if _has_picture(item))
    return bool(covered > area * least)


def _has_picture(item: raw.FPDF_PAGEOBJECT, depth: int = 0) -> bool:
    kind = raw.FPDFPageObj_GetType(item)
    if kind != raw.FPDF_PAGEOBJ_FORM or depth == _MAX_DEPTH:
        return bool(kind == raw.FPDF_PAGEOBJ_IMAGE)
    parts = range(raw.FPDFFormObj_CountObjects(item))
    return any(_has_picture(raw.FPDFFormObj_GetObject(item, index), depth + 1) for index in parts)


_Box = tuple[float, float, float, float]


def _bounds(item: raw.FPDF_PAGEOBJECT) -> _Box:
    left, bottom, right, top = c_float(), c_float(), c_float(), c_float()
    if not raw.FPDFPageObj_GetBounds(item, left, bottom, right, top):
        return 0, 0, 0, 0
    return left.value, bottom.value, right.value, top.value


def _overlap(first: _Box, second: _Box) -> float:
    """Return the area that two boxes share, in square points; a page may have a picture that is larger than itself."""
    width = min(first[2], second[2]) - max(first[0], second[0])
    height = min(first[3], second[3]) - max(first[1], second[1])
    return max(width, 0.0) * max(height, 0.0)
