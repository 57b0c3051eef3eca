"""Words of the keyword channel: cut from a text of any script, folded, and stemmed for its language.

A word is a run of letters, digits and marks, by Unicode's properties. Scripts without spaces between words are cut into
overlapping pieces of characters instead, as in Lucene's CJK analyzer: no dictionary contains new names, and pieces find
texts as well as words do. `max_tokens`, `AB-1234/7` and `a.b@example.com` are found as a unit and by their parts.

The language of a text determines its stemmer and its stop words, for words in the script of that language. Other words,
and texts of unknown language, are stemmed in the most common language of their script.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

import Stemmer

_MAX_CHARS = 40  # longer words are encodings and separators
STEMMERS = {
    "ar": "arabic", "ca": "catalan", "cs": "czech", "da": "danish", "de": "german", "el": "greek", "en": "english",
    "eo": "esperanto", "es": "spanish", "et": "estonian", "eu": "basque", "fa": "persian", "fi": "finnish",
    "fr": "french", "ga": "irish", "hi": "hindi", "hu": "hungarian", "hy": "armenian", "id": "indonesian",
    "it": "italian", "lt": "lithuanian", "ne": "nepali", "nl": "dutch", "no": "norwegian", "pl": "polish",
    "pt": "portuguese", "ro": "romanian", "ru": "russian", "sr": "serbian", "sv": "swedish", "ta": "tamil",
    "tr": "turkish", "yi": "yiddish",
}  # fmt: skip
_SCRIPTS = {"ar": "ARABIC", "el": "GREEK", "fa": "ARABIC", "hi": "DEVANAGARI", "hy": "ARMENIAN", "ne": "DEVANAGARI"} | {
    "ru": "CYRILLIC", "sr": "CYRILLIC", "ta": "TAMIL", "yi": "HEBREW",
}  # fmt: skip
# The language of a script's words if the text's own language differs or is unknown.
_USUAL = {"LATIN": "en", "CYRILLIC": "ru", "GREEK": "el", "ARABIC": "ar"} | {
    "DEVANAGARI": "hi", "ARMENIAN": "hy", "TAMIL": "ta",
}  # fmt: skip
_MARKS_TELL_WORDS_APART = "vi"  # in Vietnamese a word without its marks is another word
_MARKS_LEFT_OUT = {"LATIN", "GREEK"}  # by many writers of these scripts
ENGLISH_STOP_WORDS = frozenset(
    """
    a an and are as at be been but by can did do does for from had has have how i if in into is it its may more no
    not of on or our she he so such than that the their them then there these they this to was we were what when
    where which who whom whose why will with would you your
    """.split()  # noqa: SIM905  a list of 76 quoted words is not easier to read
)


def _marks() -> str:
    return "".join(char for char in map(chr, range(0x300, 0x10000)) if unicodedata.category(char)[0] == "M")


def _digits() -> dict[int, str]:
    """Return the decimal digits of all scripts, each with its ASCII digit."""
    digits = (char for char in map(chr, range(0x660, 0x10000)) if char.isdecimal())
    return {ord(char): str(unicodedata.decimal(char)) for char in digits}


_INVISIBLE = dict.fromkeys((0xAD, 0x200C, 0x200D, 0x2060, 0xFEFF))  # within words: hyphens that may be, joiners
_CHANGED = {**_digits(), **_INVISIBLE}
_ANY_CHANGED = re.compile(f"[{''.join(map(chr, _CHANGED))}]")
_LETTERS_OF_TURKISH = str.maketrans({"I": "\u0131", "\u0130": "i"})
_FOLDED = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "\u0131": "i"}
)

WORD = re.compile(rf"[\w{_marks()}]+")
_ASCII_WORD = re.compile(r"\w+", re.ASCII)
# Without one of these signs between letters, a text has no compounds; this search takes a tenth of the time of theirs.
_JOINS = re.compile(r"[-./:@+](?<=\w.)(?=\w)")
_COMPOUND = re.compile(
    r"(?<!\w)\w++(?:[-./:@+]\w++)+"
)  # possessive, so that a word of a million letters takes linear time
_IDENTIFIES = re.compile(r"[@\d]")
# Scripts without spaces, and Korean, which joins words to their particles.
_EAST_ASIAN = "\u1100-\u11ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
_EAST_ASIAN += "\U00020000-\U0003134f"
_SOUTH_EAST_ASIAN = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
_UNSPACED = re.compile(rf"([{_EAST_ASIAN}]+)|([{_SOUTH_EAST_ASIAN}]+)")
_EAST_ASIAN_PIECE, _SOUTH_EAST_ASIAN_PIECE = 2, 3  # characters


def words_of(text: str, language: str | None) -> list[str]:
    """Return the words of a text in lower case, followed by its compounds of numbers and signs, unchanged."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        if _ANY_CHANGED.search(text):
            text = text.translate(_CHANGED)
    if language == "tr":
        text = text.translate(_LETTERS_OF_TURKISH)
    text = text.lower()
    words = (_ASCII_WORD if text.isascii() else WORD).findall(text)
    if "_" in text:
        words = [part for word in words for part in _with_parts(word)]
    if _JOINS.search(text):
        words += (compound for compound in _COMPOUND.findall(text) if _IDENTIFIES.search(compound))
    return words


def _with_parts(word: str) -> Iterator[str]:
    yield word
    if "_" in word:
        yield from filter(None, word.split("_"))


def pieces_of(word: str) -> Iterator[str]:
    """Yield a word, or the overlapping pieces of a run of characters in a script without spaces."""
    end = 0
    for stretch in () if word.isascii() else _UNSPACED.finditer(word):
        yield from filter(None, (word[end : stretch.start()],))
        yield from _overlapping(stretch[0], _EAST_ASIAN_PIECE if stretch[1] else _SOUTH_EAST_ASIAN_PIECE)
        end = stretch.end()
    yield from filter(None, (word[end:],))


def terms_of(word: str, language: str | None) -> tuple[str, ...]:
    """Return the terms of a word: none for a stop word, several in a script without spaces."""
    if word.isascii():
        term = _term(word, language)
        return () if term is None else (term,)
    terms = (piece if is_unspaced(piece) else _term(piece, language) for piece in pieces_of(word))
    return tuple(term for term in terms if term is not None)


def variants_of(word: str, language: str | None) -> tuple[str, ...]:
    """Return the terms that texts of a language may contain for a query's word, including those without its marks."""
    terms = terms_of(word, language)
    if word.isascii() or not terms or language == _MARKS_TELL_WORDS_APART or _script(word) not in _MARKS_LEFT_OUT:
        return terms
    return (*terms, *terms_of(_folded(word), language))


def stop_word_share(text: str, language: str) -> float:
    """Return the share of a text's words that are stop words of a language; words of one letter are ignored."""
    words = [word for word in words_of(text, language) if len(word) > 1]
    return sum(map(_stop_words(language).__contains__, words)) / max(1, len(words))


def most_stop_words(text: str) -> int:
    """Return the number of stop words of the language with the most stop words in a text."""
    words = set(words_of(text, None))
    return max(len(words & stop_words) for stop_words in _STOP_WORDS.values())


def is_unspaced(text: str) -> bool:
    """Return whether a text has characters of a script that puts no spaces between words, or of Korean."""
    return not text.isascii() and _UNSPACED.search(text) is not None


def _overlapping(stretch: str, size: int) -> Iterator[str]:
    return (stretch[at : at + size] for at in range(max(1, len(stretch) - size + 1)))


def _term(word: str, language: str | None) -> str | None:
    if len(word) > _MAX_CHARS:
        return None
    if not word.isalnum() and _COMPOUND.fullmatch(word):
        return word
    spoken = _language(word, language)
    if word in _stop_words(spoken):
        return None
    if spoken == _MARKS_TELL_WORDS_APART:
        return f"{spoken}:{word}"  # no word without marks becomes it
    bare = word.strip("_")
    if not bare:
        return None
    # English words are folded first: their marks are foreign, and the rest has English endings.
    term = _stemmer(spoken)(_folded(bare) if spoken == "en" else bare)
    return _folded(term) or word


def _language(word: str, language: str | None) -> str | None:
    """Return the language whose stemmer applies to a word in a text of this language."""
    script = _script(word)
    if language is not None and script == _SCRIPTS.get(language, "LATIN") and language in _CUT:
        return language
    return _USUAL.get(script)


def _script(word: str) -> str:
    letter = next((char for char in word if char.isalpha()), "a")
    return "LATIN" if letter.isascii() else unicodedata.name(letter, "").partition(" ")[0]


def _folded(word: str) -> str:
    """Return a word without combining marks above or below letters."""
    if word.isascii():
        return word
    return "".join(c for c in unicodedata.normalize("NFKD", word.translate(_FOLDED)) if not unicodedata.combining(c))


_CUT = {*STEMMERS, _MARKS_TELL_WORDS_APART}


@cache
def _stemmer(language: str | None) -> Callable[[str], str]:
    name = STEMMERS.get(language or "")
    return Stemmer.Stemmer(name, 0).stemWord if name else str  # without its cache, because the ids of words are cached


def _stop_words(language: str | None) -> frozenset[str]:
    return _STOP_WORDS.get(language or "", frozenset())


def _read_stop_words() -> Mapping[str, frozenset[str]]:
    file = Path(__file__).with_name("stop_words.txt").read_text(encoding="utf-8")
    paragraphs = (paragraph.split() for paragraph in file.split("\n\n")[1:])
    return {language: frozenset(words) for language, *words in paragraphs} | {"en": ENGLISH_STOP_WORDS}


_STOP_WORDS = _read_stop_words()  # eagerly: a process that parses files can open none later
