"""Running headers and footers.

The first page that has one keeps it as a plain line. Later pages do not repeat it, because it would divide the
sentences of the text and add the same words to many chunks. Page numbers are dropped everywhere. The text layer that
the loss guard counts has lost the same words, and a page without other text keeps its own.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from shared.ingest.parse.readers.pdf.blocks import PageBlock
from shared.ingest.parse.readers.pdf.structure import body_size

_ZONE = 0.13  # of the height of a page
_MOST_CHARS = 200
_MOST_LINES = 2
_MOST_BLOCKS = 3  # of a margin
_LEAST_PAGES = 3
_LEAST_NUMBERED = 2
_NUMBER = re.compile(r"\d{1,6}")
_ROMAN = re.compile(r"[ivxlc]{1,7}")
_CHAPTER = 1.5  # of the size of most letters: a larger text with a number is the heading of a chapter
_SPACE = re.compile(r"(\s+)")


@dataclass(slots=True)
class PageBlocks:
    """The blocks of a page.

    Args:
        number: number of the page, from 1.
        blocks: its blocks in the order of reading.
        plain: its text layer.
        top: height of its upper edge.
        bottom: height of its lower edge.
        illegible: words with characters that the file does not map to letters.
        continues: whether its first block is the rest of a table on the page before it.
    """

    number: int
    blocks: list[PageBlock]
    plain: str
    top: float
    bottom: float
    illegible: tuple[str, ...] = ()
    continues: bool = False


_Key = tuple[bool, str, int | None]


def without_running(pages: Sequence[PageBlocks]) -> None:
    """Remove headers and footers that an earlier page has, from the blocks and from the text layers."""
    keys = [[(block, _keys(block, page)) for block in _marginal(page)] for page in pages]
    counts = Counter(key for page in keys for key in {key for _, found in page for key in found})
    texts = Counter(page.plain for page in pages)
    shown = set[str]()
    large = body_size(block for page in pages for block in page.blocks) * _CHAPTER
    for page, found in zip(pages, keys, strict=True):
        if texts[page.plain] > 1:
            continue
        if len(found) == len(page.blocks):
            continue
        for block, candidates in found:
            best = max(candidates, key=lambda key: counts[key], default=None)
            if best and best[2] is not None and block.size >= large and block.text[:1].isalpha():
                continue
            if best and counts[best] >= (_LEAST_PAGES if best[2] is None else _LEAST_NUMBERED):
                _remove(page, block, best, shown)


def _remove(page: PageBlocks, block: PageBlock, key: _Key, shown: set[str]) -> None:
    block.kind, block.level = "running", 0
    if any(map(str.isalpha, key[1].replace("#", ""))) and key[1] not in shown:
        shown.add(key[1])
        return
    page.blocks.remove(block)
    page.plain = without(page.plain, block.text.split(), last=not key[0])


def _marginal(page: PageBlocks) -> list[PageBlock]:
    zone = (page.top - page.bottom) * _ZONE
    short = [
        block
        for block in page.blocks
        if block.kind != "table" and not block.turned and block.lines <= _MOST_LINES and block.chars <= _MOST_CHARS
    ]
    upper = sorted((block for block in short if block.bottom > page.top - zone), key=lambda block: -block.top)
    lower = sorted((block for block in short if block.top < page.bottom + zone), key=lambda block: block.bottom)
    return [*upper[:_MOST_BLOCKS], *lower[:_MOST_BLOCKS]]


def _keys(block: PageBlock, page: PageBlocks) -> list[_Key]:
    """Return the text of a block, also with each of its numbers as a distance from the number of the page."""
    upper = block.bottom > (page.top + page.bottom) / 2
    text = " ".join(block.text.split())
    keys: list[_Key] = [(upper, text, None)]
    keys += [
        (upper, f"{text[: number.start()]}#{text[number.end() :]}", int(number[0]) - page.number)
        for number in _NUMBER.finditer(text)
    ]
    if _ROMAN.fullmatch(text):
        keys.append((upper, "#", _roman(text) - page.number))
    return keys


def _roman(text: str) -> int:
    values = [{"i": 1, "v": 5, "x": 10, "l": 50, "c": 100}[char] for char in text]
    return sum(-one if one < two else one for one, two in zip(values, [*values[1:], 0], strict=True))


def without(plain: str, tokens: Iterable[str], *, last: bool) -> str:
    """Return a text without some words, each removed once: its first or its last occurrence."""
    parts = _SPACE.split(plain)
    places: dict[str, list[int]] = defaultdict(list)
    for index, part in enumerate(parts):
        places[part].append(index)
    for token in tokens:
        if places.get(token):
            parts[places[token].pop(-1 if last else 0)] = ""
    return "".join(parts)
