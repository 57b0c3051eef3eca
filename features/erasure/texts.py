"""Texts that name a person, as a regular expression of PostgreSQL."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Sequence

from shared.domain.errors import InvalidInput

MOST_TEXTS = 10
MOST_CHARS = 100  # of a text
LEAST_CHARS = 2

# White space, also as JSON escapes it.
_SPACE = r"(?:\s|\\[nrt])+"
# The start of a word: "Ada" is not found in "Canada". A letter may follow, as in "Ada's" in other languages.
_START = r"(?:(?<![[:alpha:]])|(?<=\\[nrt]))"
# Scripts whose words have a visible start, and no prefixes.
_WITH_WORDS = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "GEORGIAN")


def one_line(text: str) -> str:
    """Return a text that names a person with single spaces.

    Raises:
        ValueError: it has too few or too many characters, or control characters.
    """
    found = " ".join(text.split())
    if not LEAST_CHARS <= len(found) <= MOST_CHARS:
        raise ValueError(f"A text has {LEAST_CHARS} to {MOST_CHARS} characters.")
    if any(unicodedata.category(letter) == "Cc" for letter in found):
        raise ValueError("A text has no control characters.")
    return found


def require_texts(texts: Sequence[str]) -> None:
    """Check texts that name a person.

    Raises:
        InvalidInput: there are too many, or one is not valid.
    """
    if len(texts) > MOST_TEXTS:
        raise InvalidInput(f"Name a person with at most {MOST_TEXTS} texts.", field="texts")
    try:
        for text in texts:
            one_line(text)
    except ValueError as error:
        raise InvalidInput(str(error), field="texts") from None


def pattern_of(texts: Iterable[str]) -> str:
    """Return a regular expression that matches each of some texts where a word starts, in any case.

    White space matches line breaks, too, and composed characters match decomposed ones. Cases are a part of the
    expression, because a database with the collation C knows only the cases of ASCII letters.
    """
    forms = {unicodedata.normalize(form, " ".join(text.split())): None for text in texts for form in ("NFC", "NFD")}
    return "|".join(_expression(form) for form in forms)


def _expression(text: str) -> str:
    start = _START if unicodedata.name(text[0], "").startswith(_WITH_WORDS) else ""
    return start + "".join(_SPACE if letter == " " else _in_any_case(letter) for letter in text)


def _in_any_case(letter: str) -> str:
    cases = sorted({letter, letter.lower(), letter.upper(), letter.title()})
    if all(len(case) == 1 for case in cases):
        return _escaped(letter) if len(cases) == 1 else f"[{''.join(cases)}]"
    return f"(?:{'|'.join(_escaped(case) for case in cases)})"


def _escaped(text: str) -> str:
    return re.sub(r"([!-/:-@\[-`{-~])", r"\\\1", text)
