"""The pages of a file that have to be read."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.errors import Unreadable
from shared.ingest.parse.scans import pdf_pages, pictures
from shared.ingest.parse.scans.limits import MAX_PAGES


def pages_of_picture(content: bytes) -> tuple[int, ...]:
    """Return the numbers of all pages of a picture file."""
    return tuple(range(1, pictures.frame_count(content) + 1))


def pages_without_text(pdf: bytes, texts: Sequence[tuple[int, str]]) -> tuple[int, ...]:
    """Return the numbers of the pages of a PDF file that have pictures instead of text.

    Raises:
        Unreadable: there are too many.
    """
    numbers = pdf_pages.without_text(pdf, texts)
    if len(numbers) > MAX_PAGES:
        raise Unreadable(f"the PDF has {len(numbers):,} pages without text, more than {MAX_PAGES:,}; divide it")
    return numbers
