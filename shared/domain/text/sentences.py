# ruff: noqa: RUF001  marks and words of other scripts
"""Sentences as spans of a Markdown text, in linear time and for most scripts.

A heading, a list item, a table row and a line of code are separate units; prose is split after its final marks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from shared.domain.text.breaks import last_break

LineKind = Literal["prose", "item", "row", "code", "heading"]

MAX_CHARS = 600  # a longer stretch without a final mark is cut at white space

_FENCE = re.compile(r" {0,3}(?:```|~~~)")
_HEADING = re.compile(r" {0,3}#{1,6}\s")
_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,3}[.)])\s+")
_ROW = re.compile(r"\s*\|")
_RULE = re.compile(r"[\s|:=*_-]*")
_QUOTE = re.compile(r"\s*(?:>\s?)+")
# Final marks with closing quotes and brackets. Unambiguous marks need no space after them.
_AMBIGUOUS = r"[.!?…\u061f\u06d4]{1,10}"
_UNAMBIGUOUS = r"[。！？｡।॥\u0589\u1362\u1367\u17d4\u17d5\u104b\u0f0d]{1,10}"
_CLOSING = r"\"'”’»›)\]*_」』）】》"
_FINAL_MARKS = rf"{_AMBIGUOUS}[{_CLOSING}“]{{0,5}}(?=\s)|{_UNAMBIGUOUS}[{_CLOSING}]{{0,5}}"
_FINAL = re.compile(_FINAL_MARKS)
_BREAK = re.compile(rf"(?:{_FINAL_MARKS})\s*|\n")
_ENDED = re.compile(rf"(?:{_FINAL_MARKS})\s*\Z|[\u0e00-\u0eff]\W*\Z")
_LAST_WORD = re.compile(r"(\w[\w.]*)\.\Z")
# Thai and Lao end sentences, and also shorter phrases, with nothing but a space.
_PHRASE_END = re.compile(r"(?<=[\u0e00-\u0eff]) +(?=[\u0e00-\u0eff])")
_SHORTEST_PHRASES = 80  # unit of the detector in characters
# German numbers may precede nouns, which are capitalised like the start of a sentence.
_ORDINAL = re.compile(r"\d{1,2}")
_AFTER_ORDINAL = re.compile(
    r"(?:Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez|Jahr|Jh|Weltk|Auflage|Kapitel|Leb|Bund|Klasse|Etage|Stock|"
    r"Mal\b|Tag|Woche|Monat|Platz|Liga|Spiel|Sinf|Sem|Quart)"
)
_NO_END = re.compile(
    r"mr|mrs|ms|dr|prof|sr|jr|st|vs|e\.g|i\.e|cf|al|figs?|nos?|vol|pp|ca|approx|inc|ltd|corp|dept|gen|col|sgt|capt|rev|"
    r"hon|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec|z\.b|d\.h|bzw|usw|nr|str|bspw|ggf|u\.a|p\.ex"
    r"|abb|ders|ebd|evtl|hrsg|inkl|tel|vgl|zzgl|mme|mlle|núm|pág|sra|uds?|dña"
    r"|гг?|ул|им|т\.е|т\.д|т\.п|др|стр|рис|см|св|проф|акад|вв?|н\.э|тыс|млн|млрд|руб|коп",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """The half-open span `text[start:end]`, without white space at its ends."""

    start: int
    end: int
    kind: LineKind = "prose"


def sentence_breaks(text: str, start: int, end: int) -> Iterator[int]:
    """Yield the offsets in `text[start:end]` after final marks with their white space, and after line ends, in order.

    A cut at such an offset never divides a line and rarely a sentence; only `sentences` recognises abbreviations.
    """
    return (match.end() for match in _BREAK.finditer(text, start, end))


def has_final_mark(text: str) -> bool:
    """Return whether a text ends like a sentence; in Thai and Lao, which write no marks, any text does."""
    return _ENDED.search(f"{text[-20:]}\n") is not None


def sentences(text: str) -> Iterator[Sentence]:
    """Yield the sentences of a Markdown text in order; together they cover all but its white space and markup lines."""
    for start, end, kind in _blocks(text):
        if kind in ("code", "heading", "row"):
            yield from _pieces(text, start, end, kind)
        else:
            yield from _split(text, start, end, kind)


def _blocks(text: str) -> Iterator[tuple[int, int, LineKind]]:
    """Yield complete paragraphs and list items, and single lines of headings, tables and code."""
    start: int | None = None
    kind: LineKind = "prose"
    end = 0
    for line_start, line_end, line_kind, is_start in _lines(text):
        if start is not None and (is_start or line_kind != "prose"):
            yield start, end, kind
            start = None
        if line_kind in ("code", "heading", "row"):
            yield line_start, line_end, line_kind
        elif line_kind != "none":
            if start is None:
                start, kind = line_start, line_kind
            end = line_end
    if start is not None:
        yield start, end, kind


def _lines(text: str) -> Iterator[tuple[int, int, LineKind | Literal["none"], bool]]:
    fenced = False
    position = 0
    for line in text.splitlines(keepends=True):
        start, position = position, position + len(line)
        if _FENCE.match(line):
            fenced = not fenced
            yield start, position, "none", True
        elif not line.strip() or (not fenced and _RULE.fullmatch(line)):
            yield start, position, "none", True
        elif fenced:
            yield start, position, "code", True
        else:
            yield _line(line, start)


def _line(line: str, start: int) -> tuple[int, int, LineKind, bool]:
    end = start + len(line)
    if quote := _QUOTE.match(line):
        return start + quote.end(), end, "prose", False
    if heading := _HEADING.match(line):
        return start + heading.end(), end, "heading", True
    if _ROW.match(line):
        return start, end, "row", True
    if item := _ITEM.match(line):
        return start + item.end(), end, "item", True
    return start, end, "prose", False


def _split(text: str, start: int, end: int, kind: LineKind) -> Iterator[Sentence]:
    sentence_start = start
    for mark in _FINAL.finditer(text, start, end):
        if _ends_sentence(text, sentence_start, mark, end):
            yield from _phrases(text, sentence_start, mark.end(), kind)
            sentence_start = mark.end()
    yield from _phrases(text, sentence_start, end, kind)


def _ends_sentence(text: str, start: int, mark: re.Match[str], end: int) -> bool:
    if mark[0] != ".":
        return True
    following = text[mark.end() : min(end, mark.end() + 8)].lstrip()
    if following[:1].islower():
        return False
    word = _LAST_WORD.search(text, max(start, mark.start() - 20), mark.end())
    if word is None:
        return True
    initial = len(word[1]) == 1 and word[1].isupper()
    ordinal = _ORDINAL.fullmatch(word[1]) is not None and _AFTER_ORDINAL.match(following) is not None
    return not (initial or ordinal) and _NO_END.fullmatch(word[1]) is None


def _phrases(text: str, start: int, end: int, kind: LineKind) -> Iterator[Sentence]:
    """Divide a span in a script that ends sentences with spaces into pieces of some phrases."""
    for space in _PHRASE_END.finditer(text, start, end):
        if space.start() - start >= _SHORTEST_PHRASES:
            yield from _pieces(text, start, space.start(), kind)
            start = space.end()
    yield from _pieces(text, start, end, kind)


def _pieces(text: str, start: int, end: int, kind: LineKind) -> Iterator[Sentence]:
    """Yield the span without surrounding white space, cut if it is too long."""
    while end - start > MAX_CHARS:
        cut = last_break(text, start, start + MAX_CHARS)
        yield from _trimmed(text, start, cut, kind)
        start = cut
    yield from _trimmed(text, start, end, kind)


def _trimmed(text: str, start: int, end: int, kind: LineKind) -> Iterator[Sentence]:
    piece = text[start:end]
    start += len(piece) - len(piece.lstrip())
    end = start + len(piece.strip())
    if start < end:
        yield Sentence(start, end, kind)
