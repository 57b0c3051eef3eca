"""The lines of a page, each a part of a printed line between two wide gaps."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from shared.ingest.parse.readers.pdf.text.characters import RTL, UNSPACED
from shared.ingest.parse.readers.pdf.text.words import Word

_LEVEL = 0.35  # of the font size: baselines that are not farther are one line

LABEL = re.compile(
    r"(?:[•▪➢✓□■●○◦‣\u2043·∙*\u2013—-]|\(?(?:\d{1,3}|[a-zA-Z]|[ivxIVX]{1,5})[.)]|\d{0,2}(?:\.\d{1,2}){1,3}\.?)$"
)
"""The number, letter or bullet of an item of a list."""

FIELD = re.compile(r"[^:\uff1a]{2,30}+[:\uff1a]\s*\S")
"""A label with its value."""


@dataclass(slots=True)
class PageLine:
    """Words on one baseline, in the order of reading; a part of a printed line between two wide gaps."""

    words: list[Word]
    x0: float
    x1: float
    y: float
    size: float
    divided: bool = False  # by a wide gap, or from the others in its figure
    table: PageTable | None = None  # in ruling lines, which this line represents

    @property
    def top(self) -> float:
        """Return the height of its letters' upper end."""
        return self.y + self.size * 0.75

    @property
    def bottom(self) -> float:
        """Return the height of its letters' lower end."""
        return self.y - self.size * 0.25

    @property
    def text(self) -> str:
        """Return its words with spaces."""
        return joined(self.words)

    @property
    def chars(self) -> int:
        """Return the number of its letters."""
        return sum(len(word.text) for word in self.words)


@dataclass(slots=True)
class Flow:
    """Lines of one column, from above."""

    lines: list[PageLine]


@dataclass(slots=True)
class PageTable:
    """Rows of cells; each cell has its lines."""

    rows: list[list[list[PageLine]]]
    edges: tuple[float, ...] = ()
    ruled: bool = False

    @property
    def lines(self) -> list[PageLine]:
        """Return the lines of all cells."""
        return [line for row in self.rows for cell in row for line in cell]


Item = Flow | PageTable


def joined(words: Sequence[Word]) -> str:
    """Return the words of a line with spaces between words that do not touch."""
    parts = list[str]()
    last: Word | None = None
    for word in words:
        if last and not _touches(last, word):
            parts.append(" ")
        parts.append(word.text)
        last = word
    return "".join(parts)


def _touches(last: Word, word: Word) -> bool:
    if word.glued:
        return True
    if UNSPACED.match(last.text[-1]) and UNSPACED.match(word.text[0]):
        return word.x0 - last.x1 < word.style.size / 2
    return False


def line_of(words: list[Word]) -> PageLine:
    """Return words that are next to each other as a line."""
    largest = max(words, key=_size)
    return PageLine(
        words, min(word.x0 for word in words), max(word.x1 for word in words), largest.y, largest.style.size
    )


def _size(word: Word) -> float:
    return word.style.size


def rows_of(lines: Iterable[PageLine]) -> list[list[PageLine]]:
    """Return lines by their baselines, from above; each row from the left."""
    rows = list[list[PageLine]]()
    y = size = 0.0
    for line in sorted(lines, key=lambda line: -line.y):
        if rows and y - line.y <= _LEVEL * min(size, line.size):
            rows[-1].append(line)
        else:
            rows.append([line])
            y, size = line.y, line.size
    for row in rows:
        row.sort(key=lambda line: line.x0)
    return rows


def whole(chains: Sequence[PageLine]) -> PageLine:
    """Return neighbours as one line, in the order of reading."""
    largest = max(chains, key=lambda chain: (chain.chars, chain.size))
    words = [word for chain in _logical(chains) for word in chain.words]
    return PageLine(words, chains[0].x0, max(chain.x1 for chain in chains), largest.y, largest.size)


def divided(line: PageLine, is_gap: Callable[[Word, Word], bool]) -> list[PageLine]:
    """Return the parts of a line between gaps. A line that is written from the right stays whole."""
    if len(line.words) < 2 or is_right_to_left([line]):  # noqa: PLR2004 - words
        return [line]
    parts = [[line.words[0]]]
    for last, word in pairwise(line.words):
        if not word.glued and is_gap(last, word):
            parts.append([])
        parts[-1].append(word)
    return [line_of(words) for words in parts] if len(parts) > 1 else [line]


def with_gaps(row: Sequence[PageLine]) -> PageLine:
    line = whole(row)
    line.divided = True
    return line


def _logical(chains: Sequence[PageLine]) -> Sequence[PageLine]:
    """Return the words of a line in the order of reading, if it has words that are written from the right."""
    leading = [chain.words[0].text for chain in chains]
    right = sum(bool(RTL.search(text)) for text in leading)
    if not right:
        return chains
    if right * 2 < sum(any(char.isalpha() for char in text) for text in leading):
        return _with_turned(chains, leading, right_to_left=False)
    return _with_turned(chains[::-1], leading[::-1], right_to_left=True)


def _with_turned(chains: Sequence[PageLine], leading: Sequence[str], *, right_to_left: bool) -> list[PageLine]:
    """Reverse the runs of words whose direction differs from their line's."""
    ordered, run = list[PageLine](), list[PageLine]()
    for chain, text in zip(chains, leading, strict=True):
        if bool(RTL.search(text)) == right_to_left or (not right_to_left and not run):
            if bool(RTL.search(text)) != right_to_left:
                run = [chain]
                continue
            ordered += [*run[::-1], chain]
            run = []
        else:
            run.append(chain)
    return [*ordered, *run[::-1]]


def is_right_to_left(lines: Sequence[PageLine]) -> bool:
    """Return whether most lines are written from the right."""
    return sum(bool(line.words and RTL.search(line.words[0].text)) for line in lines) * 2 > len(lines)


def add_lines(items: list[Item], rows: Iterable[Sequence[PageLine]]) -> None:
    """Add rows to items as the lines of one column; a table in ruling lines is an item of its own."""
    for row in rows:
        items += [line.table for line in row if line.table]
        texts = [line for line in row if not line.table]
        if not texts:
            continue
        line = with_gaps(texts) if len(texts) > 1 else texts[0]
        if items and isinstance(items[-1], Flow):
            items[-1].lines.append(line)
        else:
            items.append(Flow([line]))


def normal(text: str) -> str:
    """Return the letters and digits of a text in one case, to compare it."""
    return "".join(filter(str.isalnum, unicodedata.normalize("NFKC", text).casefold()))
