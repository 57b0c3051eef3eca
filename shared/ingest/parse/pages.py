"""The start of each page in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from shared.ingest.parse.readers.reading import Part
from shared.ingest.parse.text import clean

MARKER = "\n\n\ue0f0\ue0f1{page_num}\ue0f1\ue0f0\n\n"
"""A sequence of private characters that no text contains; occurrences are removed."""

PageStarts = tuple[tuple[int, int], ...]

_MARKED = re.compile(r"\n{0,2}\ue0f0\ue0f1(\d{1,9})\ue0f1\ue0f0\n{0,2}")


def of_markers(text: str) -> tuple[str, PageStarts]:
    """Return the text without its page markers, and the positions of these."""
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    length = last = 0
    for marker in _MARKED.finditer(text):
        part = text[last : marker.start()] + ("\n\n" if length or marker.start() else "")
        parts.append(part)
        length += len(part)
        starts.append((length, int(marker[1])))
        last = marker.end()
    return "".join((*parts, text[last:])), tuple(starts)


def joined(texts: Iterable[tuple[int, str]]) -> tuple[str, PageStarts]:
    """Return the texts of pages, each with its number, as one text, and the start of each page."""
    return of_markers("".join(MARKER.format(page_num=number) + text for number, text in texts))


def of_parts(parts: Iterable[Part]) -> tuple[str, PageStarts]:
    """Return the Markdown of parts as one text, and the starts of numbered parts."""
    kept, starts, length = list[str](), list[tuple[int, int]](), 0
    for part in parts:
        text = clean(part.markdown).strip("\n")
        rows = part.continues and text.startswith("|") and bool(kept) and _ends_with_row(kept[-1])
        gap = ("\n" if rows else "\n\n") if kept else ""
        if part.number is not None:
            starts.append((length + len(gap), part.number))
        if text.strip():
            kept += (gap, text)
            length += len(gap) + len(text)
    return "".join(kept), tuple(starts)


def _ends_with_row(text: str) -> bool:
    return text.rpartition("\n")[2].startswith("|")
