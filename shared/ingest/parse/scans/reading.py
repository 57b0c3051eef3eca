"""Reading of a page: its picture, the filter, and the repetition when words are missing or uncertain."""

from __future__ import annotations

from dataclasses import dataclass

from PIL import Image, ImageFilter

from shared.domain.corpus.chunks import SURE_CONFIDENCE
from shared.domain.errors import Unreadable
from shared.domain.stages.pages import PageText
from shared.ingest.parse import kinds
from shared.ingest.parse.scans import pdf_pages, pictures
from shared.ingest.parse.scans.engine import Engine, Found
from shared.ingest.parse.scans.ink import InkCoverage, measure
from shared.ingest.parse.scans.limits import MAX_PAGE_CHARS
from shared.ingest.parse.scans.shown import shown
from shared.ingest.parse.text import clean

FILTER_PIXELS = 1.2
"""Radius of the Gaussian filter before reading.

On pages with strong noise it reduces wrong characters from 14 to 100 % to 0.4 % at 200 dpi; clean pages stay at 0.2 %.
"""

AGAIN_DPI = 300
AGAIN_BELOW = 80
"""A page whose words have a smaller mean confidence is read again, because its letters may be small.

Letters of 3.8 points, scanned at 300 dpi: 40 at 200 dpi with hardly a right word, 85 at 300 dpi with few wrong letters.
"""
MOST_UNREAD = 0.4
"""A page with a larger share of its ink outside the boxes of words is read again."""


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One reading of a page; `failure` says why it is incomplete, and is empty if it is complete."""

    found: Found | None
    failure: str

    @property
    def is_complete(self) -> bool:
        return self.found is not None and not self.failure

    @property
    def confidence(self) -> float:
        return self.found.confidence if self.found else 0.0

    @property
    def is_sure(self) -> bool:
        """Whether another reading would hardly find more: a complete one, with sure words or without words."""
        return self.is_complete and (not self.confidence or self.confidence >= AGAIN_BELOW)


def read_page(content: bytes, number: int, dpi: int, engine: Engine) -> PageText:
    """Return the text of a page of a file; a page without ink has none.

    Raises:
        Unreadable: words are missing at both resolutions, or the page cannot be drawn; the message names the page.
    """
    try:
        page = picture(content, number, dpi)
        attempts = [_attempt(page, dpi, engine)]
        if not attempts[0].is_sure:  # letters may be too small for this resolution
            attempts.append(_attempt(picture(content, number, AGAIN_DPI), AGAIN_DPI, engine))
    except Unreadable as error:
        raise Unreadable(f"page {number:,} cannot be read: {error.message}", detail=error.detail) from error
    best = max(attempts, key=lambda attempt: (attempt.is_complete, attempt.confidence))
    if best.found and best.is_complete:
        return _text(best.found, shown(page, dpi))
    raise Unreadable(f"page {number:,} cannot be read: {attempts[-1].failure}")


def _attempt(drawn: Image.Image, dpi: int, engine: Engine) -> _Attempt:
    page = drawn.filter(ImageFilter.GaussianBlur(FILTER_PIXELS))
    try:
        found = _upright(page, dpi, engine)
    except RuntimeError as error:
        return _Attempt(None, f"the OCR engine failed ({error})")
    return _Attempt(found, _failure(found, measure(page, [*found.words, *found.pictures])))


def _upright(page: Image.Image, dpi: int, engine: Engine) -> Found:
    """Return the words on a page, which may have been scanned upside down: then most of them are uncertain."""
    found = engine.read(page, dpi)
    if not found.words or found.confidence >= SURE_CONFIDENCE:
        return found
    turned = engine.read(page.transpose(Image.Transpose.ROTATE_180), dpi)
    return turned.turned(page.size) if turned.confidence > found.confidence else found


def _failure(found: Found, ink: InkCoverage) -> str:
    if ink.is_blank:
        return ""
    if not found.words:
        return "it has ink, but no words were found"
    if ink.unread > MOST_UNREAD:
        return f"{ink.unread:.0%} of its ink is outside the words that were found"
    return ""


def picture(content: bytes, number: int, dpi: int) -> Image.Image:
    """Return a page of a PDF or picture file as a grey picture."""
    kind = kinds.detect(content, filename=None, media_type=None, pictures=True)
    draw = pdf_pages.picture if kind is kinds.PDF else pictures.picture
    return draw(content, number, dpi)


def _text(found: Found, picture: bytes) -> PageText:
    return PageText(clean(found.text)[:MAX_PAGE_CHARS], len(found.words), round(found.confidence, 1), picture)
