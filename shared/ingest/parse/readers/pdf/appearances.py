"""Texts that annotations draw, but do not state: signatures, captions of buttons, results of calculations, stamps.

pdfium has a text layer for the content of a page only. So the page is read again with its annotations drawn into
its content, and only the boxes of these annotations are compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import c_ushort
from typing import Any

import pypdfium2
from pypdfium2 import raw

from shared.ingest.parse.readers.pdf.rulings import Box
from shared.ingest.parse.readers.pdf.structure import wide_text

MOST_BOXES = 500
"""Further annotations of a page that only draw a text are left out."""

_MARGIN = 1.0  # points: letters may reach over the edge of a box
_MOST_CHARS = 20_000  # of a box
_SHOWING = ("Tj", "TJ", "Do", "'", '"')
"""The operators that show text, or draw another stream that may do so (ISO 32000, tables 87 and 109)."""


def shows_text(annotation: Any) -> bool:
    """Return whether the appearance of an annotation may have text."""
    stream = wide_text(raw.FPDFAnnot_GetAP, annotation, raw.FPDF_ANNOT_APPEARANCEMODE_NORMAL)
    return any(operator in stream for operator in _SHOWING)


def drawn_texts(document: pypdfium2.PdfDocument, number: int, boxes: Sequence[Box]) -> list[str]:
    """Return the texts in boxes of a page that its annotations draw. Afterwards the page has no annotations.

    Args:
        document: pdfium's handle, without a form that is open.
        number: number of the page, from 1.
        boxes: left, bottom, right and top of the annotations.
    """
    try:
        before = _texts_in(document, number, boxes, draw=True)
        after = _texts_in(document, number, boxes, draw=False)
    except pypdfium2.PdfiumError:
        return []
    found = ("\n".join(line for line in new if line not in old) for old, new in zip(before, after, strict=True))
    return [text for text in found if text]


def _texts_in(document: pypdfium2.PdfDocument, number: int, boxes: Sequence[Box], *, draw: bool) -> list[list[str]]:
    """Return the lines in each box; then draw the annotations into the content of the page."""
    page = document[number - 1]
    text_page = page.get_textpage()
    try:
        return [_lines(text_page, box) for box in boxes]
    finally:
        text_page.close()
        if draw:
            raw.FPDFPage_Flatten(page, raw.FLAT_NORMALDISPLAY)
        page.close()


def _lines(text_page: Any, box: Box) -> list[str]:
    left, bottom, right, top = box
    area = (left - _MARGIN, top + _MARGIN, right + _MARGIN, bottom - _MARGIN)
    count = min(raw.FPDFText_GetBoundedText(text_page, *area, None, 0), _MOST_CHARS)
    if count <= 0:
        return []
    buffer = (c_ushort * count)()
    raw.FPDFText_GetBoundedText(text_page, *area, buffer, count)
    text = bytes(buffer).decode("utf-16-le", "replace").partition("\0")[0]
    return [line for line in map(str.strip, text.splitlines()) if line]
