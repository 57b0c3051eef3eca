"""Vertical writing: characters below each other."""

from __future__ import annotations

from dataclasses import replace

from shared.ingest.parse.readers.pdf.text.characters import UNSPACED
from shared.ingest.parse.readers.pdf.text.words import Word

_COLUMN_PAIRS = 4  # so many characters, each below the one before it, are vertical writing


def turned_down(words: list[Word]) -> list[Word]:
    """Return the words; words of vertical writing get lines that run downwards."""
    if sum(map(_below, words, words[1:])) < _COLUMN_PAIRS:
        return words
    turned = list[Word]()
    for index, word in enumerate(words):
        near = words[max(0, index - 1) : index + 2]
        if any(map(_below, near, near[1:])):
            style = replace(word.style, angle=270)
            turned.append(Word(word.text, -word.y, -word.y + style.size * len(word.text), word.x0, style, word.index))
        else:
            turned.append(word)
    return turned


def _below(one: Word, two: Word) -> bool:
    size = one.style.size
    if one.style.angle or two.style.angle or len(one.text) > 1 or len(two.text) > 1:
        return False
    fits = abs(one.x0 - two.x0) < size / 2 and size * 0.7 < one.y - two.y < size * 1.5
    return fits and bool(UNSPACED.match(one.text) and UNSPACED.match(two.text))
