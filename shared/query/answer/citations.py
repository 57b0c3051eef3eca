"""Citations in answers: they have the form `[1]` and name existing passages only."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

_LONGEST_CITATION = 48  # characters, brackets included; a longer bracket is prose
_LONGEST_SPACE = 1_000  # characters that are held back before a bracket, or at the end
_WIDEST_RANGE = 50
_CITATION = re.compile(
    r"(?P<space>(?<![ \t])[ \t]*+)[\[\u3010]\s*+(?:(?:passages?|sources?|documents?)\s++)?"
    r"(?P<numbers>\d{1,3}(?>(?:\s*+[,;\u2013-]\s*+\d{1,3})*))\s*+(?:\u2020[^\[\]\u3010\u3011]*+)?[\]\u3011]",
    re.IGNORECASE,
)
_PART = re.compile(r"(\d+)(?:\s*[\u2013-]\s*(\d+))?")
_CLEANED = re.compile(r"\[(\d{1,3})\]")


class CitationCleaner:
    """Cleans the citations of a text that arrives in pieces.

    `[1, 2]`, `[1-3]`, `[Passage 1]` and `【1】` become `[1][2]` and so on; numbers of no passage are removed. An open
    bracket is buffered until it closes, so that no citation is split.

    Args:
        numbers: the passages that may be cited.

    Attributes:
        cited: the passages cited so far, in order of appearance.
        removed: the numbers cited so far without a passage.
    """

    def __init__(self, numbers: Collection[int]) -> None:
        self._numbers = frozenset(numbers)
        self._held = ""
        self._started = False
        self.cited: list[int] = []
        self.removed: list[int] = []

    def feed(self, piece: str) -> str:
        """Process a piece of text; return the text that can be shown now, including earlier text that was held back."""
        text = self._held + piece
        held = _held_back(text)
        self._held = text[held:]
        return self._clean(text[:held])

    def end(self) -> str:
        """Return the text that is still held back, without the white space that ends it."""
        rest, self._held = self._held, ""
        return self._clean(rest).rstrip()

    def _clean(self, text: str) -> str:
        clean = _CITATION.sub(self._normalised, text)
        if not self._started:
            clean = clean.lstrip()
            self._started = bool(clean)
        return clean

    def _normalised(self, match: re.Match[str]) -> str:
        numbers = list(dict.fromkeys(_numbers(match["numbers"])))
        for number in numbers:
            seen = self.cited if number in self._numbers else self.removed
            if number not in seen:
                seen.append(number)
        citations = "".join(f"[{number}]" for number in numbers if number in self._numbers)
        return match["space"] + citations if citations else ""


class CitationOrder:
    """Numbers the citations of a text in order of appearance; the text arrives in pieces without split citations.

    Args:
        numbers: the passages that may be cited.

    Attributes:
        spans: span of the first citation of each passage, by its number and in order of appearance: the offset in the
            text of the opening bracket, and the offset after the closing bracket.
    """

    def __init__(self, numbers: Collection[int]) -> None:
        self._numbers = frozenset(numbers)
        self._citations: dict[int, int] = {}
        self._length = 0
        self.spans: dict[int, tuple[int, int]] = {}

    def feed(self, piece: str) -> str:
        """Process the next piece; return it with numbered citations."""
        shown, rest = "", 0
        for match in _CLEANED.finditer(piece):
            number = int(match[1])
            if number not in self._numbers:
                continue
            shown += piece[rest : match.start()]
            rest = match.end()
            citation = f"[{self._citations.setdefault(number, len(self._citations) + 1)}]"
            start = self._length + len(shown)
            self.spans.setdefault(number, (start, start + len(citation)))
            shown += citation
        shown += piece[rest:]
        self._length += len(shown)
        return shown


def _held_back(text: str) -> int:
    """Return the offset of the part that may still become a citation: an open bracket and the space before it."""
    window = max(0, len(text) - _LONGEST_CITATION)
    bracket = max(text.rfind("[", window), text.rfind("\u3010", window))
    if bracket < 0 or _closed(text, bracket):
        bracket = len(text)
    start = max(0, bracket - _LONGEST_SPACE)
    return start + len(text[start:bracket].rstrip())


def _closed(text: str, bracket: int) -> bool:
    return any(mark in text[bracket:] for mark in "]\u3011")


def _numbers(text: str) -> Iterator[int]:
    for part in _PART.finditer(text):
        first, last = int(part[1]), int(part[2] or part[1])
        if first <= last <= first + _WIDEST_RANGE:
            yield from range(first, last + 1)
        else:
            yield from (first, last)
