"""The start of each page in the text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from shared.ingest.parse.text import clean

MARKER = "\n\n\ue0f0\ue0f1{page_num}\ue0f1\ue0f0\n\n"
"""A sequence of private characters that no text contains; occurrences are removed."""

PageStarts = tuple[tuple[int, int], ...]

_MARKED = re.compile(r"\n{0,2}\ue0f0\ue0f1(\d{1,9})\ue0f1\ue0f0\n{0,2}")
_WORD = re.compile(r"\w+")
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


def of_pdf(result: Any, *, min_kept_words: float) -> tuple[str, PageStarts]:
    """Return the text of a PDF and its pages.

    The extractor's Markdown has headings and tables but no page numbers, and of some layouts only a part; its plain
    text of each page is complete but has no structure. The Markdown is used unless it lost words.
    """
    page_texts = [(page["page_number"], clean(page["content"])) for page in result.pages or ()]
    plain = list(chain.from_iterable(_WORD.findall(text) for _, text in page_texts))
    if not plain:
        return "", tuple((0, number) for number, _ in page_texts)
    markdown = clean(result.content)
    kept = set(_WORD.findall(markdown))
    if sum(word in kept for word in plain) < len(plain) * min_kept_words:
        return of_markers("".join(MARKER.format(page_num=number) + text for number, text in page_texts))
    return markdown, _found(markdown, (result.document or {}).get("nodes", ()))


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
