"""Positions at which an overlong text may be cut: after white space, after a comma, or between graphemes."""

from __future__ import annotations

import unicodedata

_SPACES = " \n\t\u3000"
_COMMAS = "\uff0c\u3001\uff1b\uff1a\u060c\u061b"  # of Chinese, Japanese and Arabic, which are not followed by a space
_JOINERS = frozenset("\u200d\ufe0e\ufe0f")
_BEFORE_ITS_CONSONANT = frozenset("\u0e40\u0e41\u0e42\u0e43\u0e44\u0ec0\u0ec1\u0ec2\u0ec3\u0ec4")  # Thai, Lao vowels
_VIRAMA = 9  # the combining class of signs that join consonants
_LONGEST_CLUSTER = 16


def last_break(text: str, start: int, stop: int) -> int:
    """Return the offset after the last space or comma in the second half, or else between two graphemes."""
    half = start + (stop - start) // 2
    for marks in (_SPACES, _COMMAS):
        if (at := max(text.rfind(mark, half, stop) for mark in marks)) >= 0:
            return at + 1
    for at in range(stop, max(start, stop - _LONGEST_CLUSTER), -1):
        if not _continues(text, at):
            return at
    return stop


def _continues(text: str, at: int) -> bool:
    """Return whether the characters on both sides of `at` form one grapheme."""
    char, before = text[at], text[at - 1]
    return (
        char in _JOINERS
        or before == "\u200d"
        or before in _BEFORE_ITS_CONSONANT
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or unicodedata.category(char)[0] == "M"
        or unicodedata.combining(before) == _VIRAMA
    )
