"""Detects the language of each chunk, which selects its stemmer."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import gcld3

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.text.words import stop_word_share

_LEAST_LETTERS = 40  # of prose: in fewer the detector guesses
_NO_PROSE = re.compile(
    r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)|`[^`\n]*`|\b\w{1,20}+://\S+|\]\([^)\s]{0,500}\)", re.DOTALL | re.MULTILINE
)
_SIGNS_OF_NO_PROSE = ("`", "~~~", "://", "](")  # each match of the expression has one of them
_SAMPLE_CHARS = 500
"""The first characters of a text, which usually determine its language.

Of 5,471 passages of the evaluation sets (10 sets, at most 1,800 characters each), 14 get a language from their sample
that the whole text does not get, and no other differs. It takes 257 instead of 402 us a passage.
"""
# The least share of a text's words that are stop words. Of 240 German passages of XQuAD the least has 13 %, of 1,700
# passages of five English kinds 99 in 100 have 9 %, and source code that was taken for French has none.
_LEAST_STOP_WORDS = 0.05
_SPOKEN = frozenset(
    [
        "ca",
        "cs",
        "da",
        "de",
        "en",
        "eo",
        "es",
        "et",
        "fi",
        "fr",
        "hu",
        "id",
        "it",
        "lt",
        "nl",
        "no",
        "pl",
        "pt",
        "ro",
        "sv",
        "tr",
        "vi",
    ]
)
_LETTERS = re.compile(r"[^\W\d_]+")

_KNOWN = frozenset(
    """
    af am ar az be bg bn ca cs da de el en eo es et eu fa fi fr ga gu he hi hr hu hy id it ja jv ka
    km kn ko la lt lv mk ml mr my ne nl no pa pl pt ro ru si sk sl sn sr sv ta te th tl tr uk ur uz
    vi yi zh zu
    """.split()  # noqa: SIM905 - a list of quoted codes is not easier to read
)
"""The languages that chunks may have, in ISO 639-1. A text in another one is more often a list of names."""

_OTHER_CODES = {"iw": "he", "fil": "tl"}
_SURE = 0.95
"""The probability from which on the detector is believed.

Of 3,064 texts of 60 to 1,000 characters in 20 languages (XQuAD, Natural Questions, manuals, messages of programs), 94 %
have their language then, and one in 3,000 a wrong one. With 0.98, 93 % have it, with 0.8, seven in 3,000 a wrong one.
"""

_MOST_BYTES = 2_000  # of a text are read


@cache
def _detector() -> gcld3.NNetLanguageIdentifier:
    return gcld3.NNetLanguageIdentifier(min_num_bytes=0, max_num_bytes=_MOST_BYTES)


def load() -> None:
    """Create the detector and let it read a sample, because a confined process imports no module."""
    _detector().FindLanguage(text="a")


def with_languages(chunks: Sequence[ChunkContent]) -> tuple[ChunkContent, ...]:
    """Return the chunks of a document with their languages; a short chunk has the language of most of the document.

    Chunks that are mostly code, and documents with only short texts, have no language.
    """
    proses = [_prose_of(chunk.text) for chunk in chunks]
    found = [_language_of_sample(prose) for prose in proses]
    spoken: Counter[str] = Counter()
    for language, letters in found:
        if language:
            spoken[language] += letters
    usual = max(spoken, key=lambda language: spoken[language], default=None)
    return tuple(
        replace(chunk, language=language or (None if len(prose) * 2 < len(chunk.text) else usual))
        for chunk, prose, (language, _) in zip(chunks, proses, found, strict=True)
    )


def _prose_of(text: str) -> str:
    return _NO_PROSE.sub(" ", text) if any(sign in text for sign in _SIGNS_OF_NO_PROSE) else text


def _language_of_sample(prose: str) -> tuple[str | None, int]:
    """Return the language of a text, and the number of letters that determined it.

    The whole text is only read if its first characters have no language.
    """
    for part in [prose[:_SAMPLE_CHARS], prose] if len(prose) > _SAMPLE_CHARS else [prose]:
        letters = sum(map(len, _LETTERS.findall(part)))
        if letters >= _LEAST_LETTERS and (language := language_of(part)):
            return language, letters
    return None, 0


def language_of(text: str) -> str | None:
    """Return the language of a text in ISO 639-1; None if the detector is not sure.

    If it is sure of a language in Latin script, but the text lacks its most common words, the text is code or a list.
    """
    found = _detector().FindLanguage(text=text[:_MOST_BYTES])
    language: str = _OTHER_CODES.get(found.language, found.language)
    if found.probability < _SURE or language not in _KNOWN:
        return None
    if language in _SPOKEN and stop_word_share(text, language) < _LEAST_STOP_WORDS:
        return None
    return language
