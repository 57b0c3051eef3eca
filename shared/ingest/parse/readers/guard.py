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
_HYPHENATED = re.compile(r"(\w)[-\u2010]\s*\n\s*(\w)")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


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
    kept, losses, whole, missing = list[Part](), list[Loss](), 0, 0
    for part in parts:
        if part.plain is None:
            kept.append(part)
            continue
        expected = Counter(words(part.plain))
        lost = expected - Counter(words(part.markdown))
        if lost.total() > expected.total() * MOST_MISSING:
            text = escaped(part.plain)
            part, lost = replace(part, markdown=text), expected - Counter(words(text))  # noqa: PLW2901
        whole += expected.total()
        missing += lost.total()
        if lost.total() > expected.total() * MOST_MISSING:
            losses.append(_loss(part.place, lost))
        kept.append(part)
    return Guarded(tuple(kept), 1 - missing / whole if whole else None, tuple(losses))


def words(text: str) -> list[str]:
    """Return the words of a text or Markdown, as two readings of it have them alike."""
    plain = unicodedata.normalize("NFKC", _ESCAPE.sub(r"\1", text)).replace("\u00ad", "").casefold()
    return _WORD.findall(_UNSPACED.sub(r" \g<0> ", _HYPHENATED.sub(r"\1\2", plain)))


def escaped(plain: str) -> str:
    """Return plain text as Markdown in which no character is markup at the start of a line."""
    return "\n".join(re.sub(r"^(\s*)([#>|+*=-]|```|~~~)", r"\1\\\2", line) for line in plain.split("\n"))


def _loss(place: str, lost: Counter[str]) -> Loss:
    # `most_common(n)` would import a module, which the confined process cannot.
    frequent = sorted(lost, key=lost.__getitem__, reverse=True)[:MOST_SAMPLE_WORDS]
    sample = tuple(word[:SAMPLE_WORD_CHARS] for word in frequent)
    return Loss(place, lost.total(), sample)
