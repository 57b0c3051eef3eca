"""Hyphens at the ends of lines, columns and pages: most only divide a word, others belong to a compound.

The words of the document decide. If it has neither the whole word nor the compound elsewhere, a hyphen belongs to a
compound only after words that often start one, such as "long-term".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import reduce
from itertools import pairwise

from shared.ingest.parse.readers.pdf.blocks import MAYBE_HYPHEN, PageBlock
from shared.ingest.parse.readers.pdf.margins import PageBlocks, without

# Both start only where a run of letters starts, so that a long word takes no longer than its letters.
_MAYBE = re.compile(rf"(?<![^\W\d_])[^\W\d_]*+(?:{MAYBE_HYPHEN}[^\W\d_]*+)+")
_DIVIDED = re.compile(r"\b\w++[-\u2010]\n\w*+")
_WORD = re.compile(r"[^\W\d_]+(?:[-\u2010][^\W\d_]+)*")
_FIRST_PARTS = re.compile(
    r"(?:full|half|high|large|long|low|non|open|self|short|small|well|two|three|four|five|six|seven|eight|nine|ten)$"
)
_ENDINGS = re.compile(r"(?:age|e[dnrs]|est|ful|hood|i[nst]|iz|land|less|light|ly|ness|teen|th|ty|ways)")
_LAST_BLOCKS = 3  # of a page: footnotes are below the text
_FIRST_BLOCKS = 2


def settle_hyphens(pages: Sequence[PageBlocks]) -> None:
    """Keep or remove each hyphen at the end of a line in the texts of all blocks."""
    open_blocks = [block for page in pages for block in page.blocks if _is_open(block)]
    if not open_blocks:
        return
    words = _words_of(page.plain for page in pages)
    for block in open_blocks:
        block.text = _settled(block.text, words)
        block.rows = [[_settled(cell, words) for cell in row] for row in block.rows]


def join_divided_words(pages: Sequence[PageBlocks]) -> None:
    """Move the rest of a word that the end of a page divides to the page on which the word starts."""
    words: set[str] | None = None
    for page, following in pairwise(pages):
        first = next((block for block in reversed(page.blocks[-_LAST_BLOCKS:]) if _is_divided(block)), None)
        rest = next((block for block in following.blocks[:_FIRST_BLOCKS] if _continues(block)), None)
        if not first or not rest:
            continue
        start, end = first.text.split()[-1], rest.text.split()[0]
        if start not in page.plain.split() or end not in following.plain.split():
            continue
        words = _words_of(one.plain for one in pages) if words is None else words
        whole = _settled(f"{start[:-1]}{MAYBE_HYPHEN}{end}", words)
        first.text = first.text[: -len(start)] + whole
        page.plain = f"{without(page.plain, [start], last=True)}\n{whole}"
        rest.text = rest.text[len(end) :].lstrip()
        following.plain = without(following.plain, [end], last=False)
        if not rest.text:
            following.blocks.remove(rest)


def _is_open(block: PageBlock) -> bool:
    return MAYBE_HYPHEN in block.text or any(MAYBE_HYPHEN in cell for row in block.rows for cell in row)


def _words_of(texts: Iterable[str]) -> set[str]:
    """Return the words of texts in small letters, without words that a line divides."""
    found = set[str]()
    for text in texts:
        found.update(_WORD.findall(_DIVIDED.sub(" ", text).casefold().replace("\u2010", "-")))
    return found


def _settled(text: str, words: set[str]) -> str:
    def whole(found: re.Match[str]) -> str:
        return reduce(lambda before, after: _with_hyphen(before, after, words), found[0].split(MAYBE_HYPHEN))

    return _MAYBE.sub(whole, text) if MAYBE_HYPHEN in text else text


def _with_hyphen(before: str, after: str, words: set[str]) -> str:
    one, two = before.casefold(), after.casefold()
    if one + two not in words and (f"{one}-{two}" in words or (_FIRST_PARTS.match(one) and not _ENDINGS.match(two))):
        return f"{before}-{after}"
    return before + after


def _is_divided(block: PageBlock) -> bool:
    text = block.text
    return block.kind in ("text", "item") and text[-1:] in ("-", "\u2010") and text[-2:-1].isalpha()


def _continues(block: PageBlock) -> bool:
    return block.kind == "text" and block.text[:1].islower()
