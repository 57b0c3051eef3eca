"""The loss guard: a part whose Markdown lost words is replaced by its plain text."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from shared.domain.completeness import MOST_SAMPLE_WORDS, SAMPLE_WORD_CHARS, Loss
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


@dataclass(frozen=True, slots=True)
class Guarded:
    """Parts after the guard.

    Args:
        parts: the parts, of which some are plain text now.
        coverage: the share of the words of all counted parts that arrived; None if no part was counted.
        losses: parts that still miss words.
    """

    parts: tuple[Part, ...]
    coverage: float | None
    losses: tuple[Loss, ...]


def guarded(parts: Iterable[Part]) -> Guarded:
    """Return the parts, each with the text that has most of its words."""
    kept, losses, counted, missing = list[Part](), list[Loss](), list[str](), 0
    for part in parts:
        if part.plain is None:
            kept.append(part)
            continue
        counted.append(part.plain)
        if lost := _lost(part.plain, part.markdown):
            most = len(words(part.plain)) * MOST_MISSING
            if lost.total() > most:
                text = escaped(part.plain)
                lost = _lost(part.plain, text)
                part = replace(part, markdown=text)  # noqa: PLW2901
            if lost.total() > most:
                losses.append(_loss(part.place, lost))
            missing += lost.total()
        kept.append(part)
    return Guarded(tuple(kept), _coverage(counted, missing), tuple(losses))


def _coverage(counted: Iterable[str], missing: int) -> float | None:
    if missing:
        return 1 - missing / sum(len(words(text)) for text in counted)
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
    stated_counts, arrived_counts = Counter(stated), Counter(arrived)
    rest = _more(stated_counts, arrived_counts)
    if not rest:
        return Counter()
    return Counter(words(rest)) - Counter(words(_more(arrived_counts, stated_counts)))


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


def escaped(plain: str) -> str:
    """Return plain text as Markdown in which no character is markup at the start of a line."""
    return "\n".join(re.sub(r"^(\s*)([#>|+*=-]|```|~~~)", r"\1\\\2", line) for line in plain.split("\n"))


def _loss(place: str, lost: Counter[str]) -> Loss:
    # `most_common(n)` would import a module, which the confined process cannot.
    frequent = sorted(lost, key=lost.__getitem__, reverse=True)[:MOST_SAMPLE_WORDS]
    sample = tuple(word[:SAMPLE_WORD_CHARS] for word in frequent)
    return Loss(place, lost.total(), sample)
