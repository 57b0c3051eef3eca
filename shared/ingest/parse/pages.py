"""The start of each page in the text."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any

from shared.ingest.parse.readers.reading import Part
from shared.ingest.parse.text import clean

MARKER = "\n\n\ue0f0\ue0f1{page_num}\ue0f1\ue0f0\n\n"
"""A sequence of private characters that no text contains; occurrences are removed."""

PageStarts = tuple[tuple[int, int], ...]

_MARKED = re.compile(r"\n{0,2}\ue0f0\ue0f1(\d{1,9})\ue0f1\ue0f0\n{0,2}")
_WORD = re.compile(r"\w+")
_STAMP_CHARS = 64  # the text of a scanned page may be a stamp or a page number
_PROBE_CHARS = 48
_NODES_TRIED = 3


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
    """Return the Markdown of parts as one text, and the starts of those that have a number."""
    kept, starts, length = list[str](), list[tuple[int, int]](), 0
    for part in parts:
        text = clean(part.markdown).strip("\n")
        if part.number is not None:
            starts.append((length, part.number))
        if text.strip():
            kept.append(text)
            length += len(text) + len("\n\n")
    return "\n\n".join(kept), tuple(starts)


def texts_of_pdf(result: Any) -> list[tuple[int, str]]:
    """Return the number and the plain text of each page."""
    return [(page["page_number"], clean(page["content"])) for page in result.pages or ()]


def of_pdf(result: Any, *, min_kept_words: float, read: Mapping[int, str] | None = None) -> tuple[str, PageStarts]:
    """Return the text of a PDF and its pages.

    The extractor's Markdown has headings and tables but no page numbers, and of some layouts only a part; its plain
    text of each page is complete but has no structure. The Markdown is used unless it lost words, or contains the text
    of a page that was read by OCR because its own text is damaged.

    Args:
        result: result of the extractor.
        min_kept_words: share of the words that the Markdown must have.
        read: the texts of pages that were read by OCR, by number; they replace the pages' own texts.
    """
    read = read or {}
    own = texts_of_pdf(result)
    page_texts = [(number, read.get(number, text)) for number, text in own]
    replaced = any(number in read and len(text) > _STAMP_CHARS for number, text in own)
    plain = list(chain.from_iterable(_WORD.findall(text) for number, text in own if number not in read))
    if not plain:
        return joined(page_texts) if read else ("", tuple((0, number) for number, _ in page_texts))
    markdown = clean(result.content)
    kept = set(_WORD.findall(markdown))
    if replaced or sum(word in kept for word in plain) < len(plain) * min_kept_words:
        return joined(page_texts)
    return _inserted(markdown, _found(markdown, (result.document or {}).get("nodes", ())), read)


def _inserted(markdown: str, starts: PageStarts, read: Mapping[int, str]) -> tuple[str, PageStarts]:
    """Insert the texts of pages, each before the first later page whose start was found."""
    ends = [*(offset for offset, _ in starts[1:]), len(markdown)]
    parts = [(number, markdown[offset:end]) for (offset, number), end in zip(starts, ends, strict=False)]
    for number, text in sorted(read.items()):
        if text.strip():
            parts.insert(bisect_left(parts, number, key=_number), (number, f"{text}\n\n"))
    texts = [markdown[: starts[0][0]] if starts else markdown]
    shifted: list[tuple[int, int]] = []
    length = len(texts[0])
    for number, text in parts:
        gap = "" if texts[-1].endswith("\n\n") or not length else "\n\n"
        shifted.append((length + len(gap), number))
        texts.append(gap + text)
        length += len(texts[-1])
    return "".join(texts), tuple(shifted)


def _number(part: tuple[int, str]) -> int:
    return part[0]


def _found(markdown: str, nodes: Iterable[dict[str, Any]]) -> PageStarts:
    """Return the starts of pages, found by the first words of each page, searched after the previous page's.

    Only letters and digits are compared, because the Markdown has escapes and marks that the words do not have.
    """
    offsets = [at for at, char in enumerate(markdown) if char.isalnum()]
    letters = "".join(markdown[at] for at in offsets)
    starts: list[tuple[int, int]] = []
    cursor = 0
    for number, probes in _probes(nodes):
        at = next((found for probe in probes if (found := letters.find(probe, cursor)) >= 0), None)
        if at is not None:
            start = offsets[at]
            starts.append((markdown.rfind("\n", 0, start) + 1, number))
            cursor = at + 1
    return tuple(starts)


def _probes(nodes: Iterable[dict[str, Any]]) -> Iterator[tuple[int, list[str]]]:
    """Yield, for each page in order, the starts of its first few blocks, reduced to letters and digits."""
    by_page: dict[int, list[str]] = {}
    for node in nodes:
        probes = by_page.setdefault(node.get("page") or 0, [])
        if len(probes) < _NODES_TRIED and (probe := _letters(node.get("content") or {})):
            probes.append(probe)
    return ((number, probes) for number, probes in sorted(by_page.items()) if number)


def _letters(content: dict[str, Any]) -> str:
    text = content.get("text") or ""
    if not text and content.get("grid"):
        text = "".join(cell.get("content", "") for cell in content["grid"].get("cells", ())[:12])
    return "".join(filter(str.isalnum, text[: _PROBE_CHARS * 4]))[:_PROBE_CHARS]
