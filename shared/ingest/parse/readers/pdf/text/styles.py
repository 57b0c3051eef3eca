"""The fonts of text objects: size, weight and direction."""

from __future__ import annotations

import re
from ctypes import byref, cast, create_string_buffer
from dataclasses import dataclass
from math import atan2, degrees, hypot
from typing import Any

from pypdfium2 import raw

from shared.ingest.parse.readers.pdf import library

_NEARLY = 2  # degrees
_BOLD_WEIGHT = 600
_BOLD = re.compile(r"bold|black|heavy|demi|cmbx|cmssbx|(?:^|[-,_])(?:bd|b|bx)(?:$|[-,_])", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Style:
    """The font of a text object.

    Args:
        size: its size in points as drawn.
        bold: whether it is bold.
        angle: direction of its lines in degrees, counted against the clock.
        mark: number of the marked content that the structure of the document names; -1 if there is none.
    """

    size: float
    bold: bool
    angle: int
    mark: int = -1


class Fonts:
    """The styles of text objects. Whether a font is bold is read once for a document.

    Args:
        heights: for fonts whose glyphs are drawings: the height of the tallest glyph in points.
    """

    def __init__(self) -> None:
        self._bold: dict[int, bool] = {}
        self.heights: dict[int, float] = {}

    def style(self, text_page: Any, at: int, item: int) -> Style:
        """Return the style of a character's text object."""
        matrix = raw.FS_MATRIX()
        size, angle = raw.FPDFText_GetFontSize(text_page, at), 0
        if raw.FPDFText_GetMatrix(text_page, at, byref(matrix)):
            if size < 0:  # turned twice by half a circle: some programs write forms with such sizes
                matrix = raw.FS_MATRIX(-matrix.a, -matrix.b, -matrix.c, -matrix.d)
            size *= hypot(matrix.c, matrix.d) or hypot(matrix.a, matrix.b)
            angle = _angle(matrix)
        pointer = cast(item, raw.FPDF_PAGEOBJECT)
        mark = raw.FPDFPageObj_GetMarkedContentID(pointer)
        return Style(round(abs(size), 2) or 1.0, self._is_bold(pointer), angle, mark)

    def _is_bold(self, item: Any) -> bool:
        font = raw.FPDFTextObj_GetFont(item)
        key = library.address(font) if font else 0
        if key not in self._bold:
            name = create_string_buffer(128)
            if font:
                raw.FPDFFont_GetBaseFontName(font, name, 128)
            prefix, _, base = name.value.decode("utf-8", "replace").rpartition("+")
            heavy = bool(font) and raw.FPDFFont_GetWeight(font) >= _BOLD_WEIGHT
            self._bold[key] = heavy or bool(_BOLD.search(base or prefix))
        return self._bold[key]


def _angle(matrix: Any) -> int:
    if not (matrix.a or matrix.b):
        return 0
    mirrored = matrix.a * matrix.d - matrix.b * matrix.c < 0
    angle = round(degrees(atan2(-matrix.b, -matrix.a) if mirrored and matrix.d > 0 else atan2(matrix.b, matrix.a)))
    quarter = round(angle / 90) * 90
    return (quarter if abs(angle - quarter) <= _NEARLY else angle) % 360
