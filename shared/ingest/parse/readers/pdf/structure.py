"""Headings: from bookmarks, from the structure of the document, or from the size, weight and place of their letters."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from ctypes import addressof, cast, create_string_buffer
from itertools import zip_longest
from typing import Any

from pypdfium2 import raw

from shared.ingest.parse.readers.pdf.blocks import PageBlock
from shared.ingest.parse.readers.pdf.layout.lines import FIELD, normal

_MAX_BOOKMARKS = 20_000
_MAX_ELEMENTS = 20_000  # of the structure of a page
_MOST_LEVEL = 6
_MOST_CHARS = 160
_MOST_LINES = 3
_MOST_COMMAS = 2  # names and addresses have more
_FEW_CHARS = 100
_SHORT_CHARS = 50
_MUCH_LARGER = 1.3
_LARGER = 1.12  # than the letters of the body
_AS_LARGE = 0.97
_MOST_BOLD = 0.2  # share of the letters of a document that are bold, above which bold lines are body text
_TAG = re.compile(r"H([1-6])?$")
_NUMBERED = re.compile(r"(\d{1,3}(?:\.\d{1,3}){0,5})[.)]?\s+\S")
_ENDS = (".", ",", ";", "-", "\u2010", "=", "。", "、")
_LEADER = re.compile(r"(?:\. ?){4}|\u2026 ?\u2026|_{4}")
"""The dots in front of the number of a page, or the line of a field."""

_COLONS = (":", "\uff1a")
_OFTEN_PAGES, _OFTEN_SHARE = 4, 0.25
_SAME_HEIGHT = 4.0  # points
_DIGITS = str.maketrans("", "", "0123456789")

Bookmarks = dict[int, dict[str, int]]
"""For each page, from 1: the level of each title, whose letters and digits are compared."""


def bookmarks_of(document: Any) -> Bookmarks:
    """Return the bookmarks of a document. A circle of bookmarks is read once."""
    found: Bookmarks = {}
    seen = set[int]()
    todo = [(raw.FPDFBookmark_GetFirstChild(document, None), 1)]
    while todo and len(seen) < _MAX_BOOKMARKS:
        mark, level = todo.pop()
        if not mark or (key := _address(mark)) in seen:
            continue
        seen.add(key)
        todo.append((raw.FPDFBookmark_GetNextSibling(document, mark), level))
        todo.append((raw.FPDFBookmark_GetFirstChild(document, mark), level + 1))
        target = raw.FPDFBookmark_GetDest(document, mark)
        if not target:
            action = raw.FPDFBookmark_GetAction(mark)
            target = raw.FPDFAction_GetDest(document, action) if action else None
        title = normal(wide_text(raw.FPDFBookmark_GetTitle, mark))
        if target and title:
            page = raw.FPDFDest_GetDestPageIndex(document, target) + 1
            found.setdefault(page, {}).setdefault(title, min(level, _MOST_LEVEL))
    return found


def _address(handle: Any) -> int:
    return addressof(handle.contents)


def wide_text(function: Any, *arguments: Any) -> str:
    """Return a text that pdfium writes as UTF-16 into a buffer."""
    length = min(function(*arguments, None, 0), 1 << 20)
    if length <= 2:  # noqa: PLR2004 - the final NUL
        return ""
    buffer = create_string_buffer(length + 2)
    function(*arguments, cast(buffer, function.argtypes[-2]), length)
    return buffer.raw[: length - 2].decode("utf-16-le", "replace").rstrip("\0")


def tagged_headings(page: Any) -> dict[int, int]:
    """Return the level of the heading of each marked content, by its number."""
    tree = raw.FPDF_StructTree_GetForPage(page)
    if not tree:
        return {}
    try:
        return dict(_tagged(tree))
    finally:
        raw.FPDF_StructTree_Close(tree)


def _tagged(tree: Any) -> Iterator[tuple[int, int]]:
    count = min(raw.FPDF_StructTree_CountChildren(tree), _MAX_ELEMENTS)
    todo = [(raw.FPDF_StructTree_GetChildAtIndex(tree, index), 0) for index in range(count)]
    seen = 0
    while todo and seen < _MAX_ELEMENTS:
        element, level = todo.pop()
        seen += 1
        if not element:
            continue
        kind = wide_text(raw.FPDF_StructElement_GetType, element)
        if kind == "Title":
            level = 1
        elif found := _TAG.match(kind):
            level = int(found[1] or 2)
        if level:
            marks = raw.FPDF_StructElement_GetMarkedContentIdCount(element)
            for index in range(min(max(marks, 0), _MAX_ELEMENTS)):
                yield raw.FPDF_StructElement_GetMarkedContentIdAtIndex(element, index), level
        children = min(raw.FPDF_StructElement_CountChildren(element), _MAX_ELEMENTS - len(todo))
        for index in range(max(children, 0)):
            if level and (mark := raw.FPDF_StructElement_GetChildMarkedContentID(element, index)) >= 0:
                yield mark, level
            todo.append((raw.FPDF_StructElement_GetChildAtIndex(element, index), level))


def state_levels(blocks: Iterable[PageBlock], titles: dict[str, int], tags: dict[int, int]) -> None:
    """Set the levels of headings that the bookmarks or the structure of the document name."""
    for block in blocks:
        if block.kind == "table" or block.lines > _MOST_LINES or block.chars > _MOST_CHARS * 2:
            continue
        levels = {tags.get(mark, 0) for mark in block.marks}
        if len(levels) == 1 and 0 not in levels:
            block.level = levels.pop()
        elif titles:
            block.level = _bookmarked(normal(block.text), titles)


def _bookmarked(text: str, titles: dict[str, int]) -> int:
    if text in titles:
        return titles[text]
    bare = text.lstrip("0123456789")
    return next((level for title, level in titles.items() if bare and title.lstrip("0123456789") == bare), 0)


def set_levels(pages: Sequence[Sequence[PageBlock]]) -> None:
    """Set the levels of headings that are larger or bolder than the body, by their fonts over the whole document."""
    blocks = [block for page in pages for block in page]
    body = body_size(blocks)
    letters = sum(block.chars for block in blocks) or 1
    bold_is_rare = sum(block.chars for block in blocks if block.bold) <= letters * _MOST_BOLD
    found = [block for page in pages for block in _candidates(page, body, bold_is_rare=bold_is_rare)]
    levels = _levels([block for block in found if not block.level], [block for block in blocks if block.level])
    for block in found:
        block.level = block.level or levels[_font(block)]
    _without_labels(pages, body)


def _without_labels(pages: Sequence[Sequence[PageBlock]], body: float) -> None:
    """Clear the level of a heading that so many pages have at the same height that it is a label of these.

    A text with another number on each page, in much larger letters than the body, is the heading of a chapter.
    """
    found: dict[tuple[str, int], list[PageBlock]] = {}
    for page in pages:
        on_page = {_place(block): block for block in page if block.level}
        for place, block in on_page.items():
            found.setdefault(place, []).append(block)
    least = max(_OFTEN_PAGES, len(pages) * _OFTEN_SHARE)
    for blocks in found.values():
        differ = len({block.text for block in blocks}) == len(blocks)
        if len(blocks) >= least and not (differ and blocks[0].size >= body * _MUCH_LARGER):
            for block in blocks:
                block.level = 0


def _place(block: PageBlock) -> tuple[str, int]:
    return normal(block.text).translate(_DIGITS), round(block.top / _SAME_HEIGHT)


def body_size(blocks: Iterable[PageBlock]) -> float:
    """Return the size of most letters."""
    sizes = Counter[float]()
    for block in blocks:
        sizes[round(block.size * 2) / 2] += block.chars
    return max(sizes, key=sizes.__getitem__, default=0.0)


def _font(block: PageBlock) -> tuple[float, bool]:
    return round(block.size * 2) / 2, block.bold


def _levels(found: Sequence[PageBlock], stated: Sequence[PageBlock]) -> dict[tuple[float, bool], int]:
    """Return the level of each font: a larger one is higher, and a font of stated headings has their level."""
    known: dict[tuple[float, bool], int] = {}
    for block in stated:
        known.setdefault(_font(block), block.level)
    levels: dict[tuple[float, bool], int] = {}
    level = 0
    for font in sorted({_font(block) for block in found} | set(known), reverse=True):
        level = known.get(font, min(level + 1, _MOST_LEVEL))
        levels[font] = level
    return levels


def _candidates(page: Sequence[PageBlock], body: float, *, bold_is_rare: bool) -> Iterator[PageBlock]:
    listed = False
    for block, following in zip_longest(page, page[1:]):
        if block.level or not _may_be_heading(block, body):
            listed = False
            continue
        in_list = listed
        listed = following is not None and _are_alike(block, following) and _font(block) == _font(following)
        if in_list or listed or not _stands_out(block, body, bold_is_rare=bold_is_rare):
            continue
        if following is None or block.size >= body * _MUCH_LARGER or not _goes_on(following):
            yield block


def _are_alike(block: PageBlock, following: PageBlock) -> bool:
    """Return whether two blocks are items of a list, or labels with their values."""
    return block.kind == following.kind == "item" or bool(FIELD.match(block.text) and FIELD.match(following.text))


def _goes_on(following: PageBlock) -> bool:
    """Return whether a block continues the sentence of the block before it."""
    return following.kind == "text" and following.text[:1].islower()


def _may_be_heading(block: PageBlock, body: float) -> bool:
    if block.kind not in ("text", "item") or block.turned or not block.alone:
        return False
    if block.lines > _MOST_LINES or block.chars > _MOST_CHARS:
        return False
    large = block.size >= body * _MUCH_LARGER
    if block.text.endswith(_COLONS) and not (large or block.bold):
        return False
    return _reads_as_heading(block.text, block.chars) and (large or block.chars <= _FEW_CHARS or block.lines == 1)


def _reads_as_heading(text: str, chars: int) -> bool:
    letters, digits = sum(map(str.isalpha, text)), sum(map(str.isdigit, text))
    if letters < max(3, chars // 3) or digits * 2 > letters + 2 or text[:1].islower() or text.startswith(("- ", "* ")):
        return False
    if _LEADER.search(text):
        return False
    if text.count(",") > _MOST_COMMAS or text.count(";") > 1 or "@" in text:
        return False
    return not text.endswith(_ENDS) or (chars <= _SHORT_CHARS and bool(_NUMBERED.match(text)))


def _stands_out(block: PageBlock, body: float, *, bold_is_rare: bool) -> bool:
    if block.size >= body * _LARGER:
        return True
    return bold_is_rare and block.bold and block.size >= body * _AS_LARGE and block.lines < _MOST_LINES
