"""The loss guard: a part whose Markdown lost words is replaced by its plain text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from shared.domain.corpus.completeness import MOST_SAMPLE_WORDS, SAMPLE_WORD_CHARS, Loss
from shared.ingest.parse.readers.reading import Part

MOST_MISSING = 0.01
"""A part's Markdown may miss this share of its words, which the two readings divide differently."""

# A word of a script without spaces is one character, because two readings break its lines at different places.
_UNSPACED = re.compile(r"[\u0e00-\u0eff\u1100-\u11ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff]")
_WORD = re.compile(r"[^\W_]+")
_HYPHENS = ("-", "\u2010", "\u2011")
_HYPHENATED = {
    hyphen: re.compile(rf"{hyphen}(?<=\w{hyphen})[^\S\n]*+\n\s*+(?=\w)") for hyphen in _HYPHENS
}  # a literal first character makes the search fast
_SEPARATED = bytes(ord(chr(code).lower()) if chr(code).isalnum() else ord(" ") for code in range(128)) + bytes(
    range(128, 256)
)
"""Small letters, digits and everything beyond ASCII; a space for the rest of ASCII."""

_ACCENT = re.compile(r"[\u0300-\u036f\u0653-\u0655]")
# Letters i and j under an accent are drawn without a dot; lam and alef are one glyph, whose halves have no order.
_ALIKE = str.maketrans({"\u0131": "i", "\u0237": "j"} | dict.fromkeys("\u0644\u0627"))
_APART = 2  # letters of a word that may be joined to its neighbour, such as a number above the line
_STEP = 256  # pieces that are compared at once
_MOST_LOST = 2_000  # different words: a part that lost more has lost them


@dataclass(frozen=True, slots=True)
class CheckedParts:
    """Parts after the guard.

    Args:
        parts: the parts, of which some are plain text now.
        coverage: the share of the words of all counted parts that arrived; None if no part was counted.
        losses: parts that still miss words.
    """

    parts: tuple[Part, ...]
    coverage: float | None
    losses: tuple[Loss, ...]


def guarded(parts: Iterable[Part]) -> CheckedParts:
    """Return the parts, each with the text that has most of its words."""
    kept, losses, counted, missing = list[Part](), list[Loss](), list[str](), 0
    for part in parts:
        if part.plain is None:
            kept.append(part)
            continue
        counted.append(part.plain)
        kept_part, lost = _better(part, part.plain)
        lost += Counter(part.illegible)
        if lost:
            missing += lost.total()
            if lost.total() > len(words(part.plain)) * MOST_MISSING:
                losses.append(_loss(part.location, lost))
        kept.append(kept_part)
    return CheckedParts(tuple(kept), _coverage(counted, missing), tuple(losses))


def _better(part: Part, plain: str) -> tuple[Part, Counter[str]]:
    """Return a part, as its plain text if that misses fewer words, and the words that it misses."""
    lost = _lost(plain, part.markdown)
    if not lost or lost.total() <= len(words(plain)) * MOST_MISSING:
        return part, lost
    text = escaped(plain)
    in_plain = _lost(plain, text)
    return (replace(part, markdown=text), in_plain) if in_plain.total() < lost.total() else (part, lost)


def _coverage(counted: Iterable[str], missing: int) -> float | None:
    if missing:
        return max(0.0, 1 - missing / max(1, sum(len(words(text)) for text in counted)))
    return 1.0 if any(map(_has_word, counted)) else None


def _has_word(text: str) -> bool:
    return _WORD.search(text) is not None


def _lost(plain: str, markdown: str) -> Counter[str]:
    """Return the words of a plain text that its Markdown lacks.

    Most of both is equal, and only the rest is divided into words.
    """
    stated, arrived = _pieces(plain), _pieces(markdown)
    if stated == arrived:
        return Counter()
    stated_counts, arrived_counts = map(Counter, _without_equal_ends(stated, arrived))
    rest = _more(stated_counts, arrived_counts)
    if not rest:
        return Counter()
    lost = Counter(words(rest)) - Counter(words(_more(arrived_counts, stated_counts)))
    return _without_divided(lost, words(plain), words(markdown)) if lost else lost


def _without_equal_ends(some: list[bytes], others: list[bytes]) -> tuple[list[bytes], list[bytes]]:
    """Return two lists without the pieces that both have at their start, and at their end, up to a few."""
    start, most = 0, min(len(some), len(others))
    while start < most and some[start : start + _STEP] == others[start : start + _STEP]:
        start += _STEP
    end = 0
    while end + _STEP <= most - start and _in_front(some, end) == _in_front(others, end):
        end += _STEP
    return some[start : len(some) - end], others[start : len(others) - end]


def _in_front(pieces: list[bytes], last: int) -> list[bytes]:
    """Return the pieces in front of the last ones."""
    return pieces[len(pieces) - last - _STEP : len(pieces) - last]


def _more(counts: Counter[bytes], others: Counter[bytes]) -> str:
    """Return the pieces that are more often in one count than in the other."""
    find = others.get
    rest = [(piece, count - found) for piece, count in counts.items() if count > (found := find(piece, 0))]
    return b" ".join(piece for piece, count in rest for _ in range(count)).decode()


def _pieces(text: str) -> list[bytes]:
    """Return the pieces of a text between spaces and punctuation of ASCII: words, or several words of other scripts."""
    return _joined(text).encode("utf-8", "replace").translate(_SEPARATED).split()


def words(text: str) -> list[str]:
    """Return the words of a text or Markdown, as two readings of it have them alike."""
    text = _joined(text)
    if text.isascii():
        return text.encode().translate(_SEPARATED).decode().split()
    plain = unicodedata.normalize("NFKC", text).replace("\u00ad", "").casefold()
    return _WORD.findall(_UNSPACED.sub(r" \g<0> ", plain))


def _joined(text: str) -> str:
    """Return a text without the hyphens that divide a word at the end of a line."""
    if "\\-" in text:
        text = text.replace("\\-", "-")
    if "\n" in text:
        for hyphen, pattern in _HYPHENATED.items():
            if hyphen in text:
                text = pattern.sub("", text)
    return text


def _without_divided(lost: Counter[str], expected: Sequence[str], found: Sequence[str]) -> Counter[str]:
    """Return the lost words, except words that the two readings only divide differently.

    These are letters that are printed apart, words with other accents, and a word that the Markdown divides. Words that
    it joins are lost.
    """
    added = Counter(found) - Counter(expected)
    if len(lost) > _MOST_LOST:
        return lost
    here, there = _letters(expected), _letters(found)
    spelled = Counter(_letters([word]) for word in added.elements())
    del spelled[""]
    for word in tuple(lost):
        letters = _letters([word])
        lost[word] -= (alike := min(lost[word], spelled[letters]))
        spelled[letters] -= alike
        if len(letters) <= _APART:
            lost[word] = min(lost[word], max(0, here.count(letters) - there.count(letters)) if letters else 0)
        if lost[word] and len(spelled) <= _MOST_LOST:
            lost[word] -= _composed(letters, lost[word], spelled)
    return +lost


def _composed(word: str, count: int, added: Counter[str]) -> int:
    """Return how often a word can be composed of added words, and take these."""
    letters = Counter(word)
    parts = {part: number for part, number in added.items() if number and part in word}
    times = 0
    while times < count:
        needed = letters.copy()
        used = Counter[str]()
        for part in sorted(parts, key=len, reverse=True):
            while parts[part] > used[part] and all(needed[char] >= number for char, number in Counter(part).items()):
                needed -= Counter(part)
                used[part] += 1
        if needed:
            break
        for part, number in used.items():
            parts[part] -= number
            added[part] -= number
        times += 1
    return times


def _letters(tokens: Iterable[str]) -> str:
    """Return the letters and digits of words without accents, which some files draw as characters of their own."""
    decomposed = unicodedata.normalize("NFKD", "".join(tokens))
    if not decomposed.isascii():
        decomposed = _ACCENT.sub("", decomposed).translate(_ALIKE)
    return decomposed


def escaped(plain: str) -> str:
    """Return plain text as Markdown in which no character is markup at the start of a line."""
    return "\n".join(re.sub(r"^(\s*)([#>|+*=-]|```|~~~)", r"\1\\\2", line) for line in plain.split("\n"))


def _loss(location: str, lost: Counter[str]) -> Loss:
    # `most_common(n)` would import a module, which the confined process cannot.
    frequent = sorted(lost, key=lost.__getitem__, reverse=True)[:MOST_SAMPLE_WORDS]
    sample = tuple(word[:SAMPLE_WORD_CHARS] for word in frequent)
    return Loss(location, lost.total(), sample)
