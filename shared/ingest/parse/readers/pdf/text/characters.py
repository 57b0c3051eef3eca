"""The characters of a page as pdfium reads them, with their boxes and text objects."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

from shared.ingest.parse.readers.pdf import library
from shared.ingest.parse.readers.pdf.text.glyphs import letters_of

_NOTHING = "\x7f"
"""Replaces an accent that was joined with its letter, and a line end inside of a word."""

ACCENTS = {
    "`": "\u0300",
    "\xb4": "\u0301",
    "\u02c6": "\u0302",
    "^": "\u0302",
    "\u02dc": "\u0303",
    "~": "\u0303",
    "\xaf": "\u0304",
    "\u02d8": "\u0306",
    "\u02d9": "\u0307",
    "\xa8": "\u0308",
    "\u02da": "\u030a",
    "\u02dd": "\u030b",
    "\u02c7": "\u030c",
    "\xb8": "\u0327",
    "\u02db": "\u0328",
}
_ACCENT = re.compile(f"[{re.escape(''.join(ACCENTS))}]")
_MARKS = "".join(char for char in ACCENTS if not char.isascii())
_DRAWN_ACCENT = re.compile(f"(?<=[^\\W\\d_])(?: ?[{_MARKS}]|[{_MARKS}] )(?=[^\\W\\d_])")
_DOTTED = str.maketrans("ıȷ", "ij")
_ALEF_LAM = re.compile(r"[\u0622\u0623\u0625\u0627]\u0644")
_VOWEL_SIGN = re.compile(r"[\u0591-\u05bd\u05bf\u05c1\u05c2\u05c4\u05c5\u05c7\u0610-\u061a\u064b-\u065f\u0670]")
"""Signs above or below letters of Hebrew and Arabic, in Unicode after their letter."""

RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
"""Characters of scripts that are written from the right."""

UNSPACED = re.compile(r"[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff65]")
"""Characters of scripts without spaces between words."""

_TORN = re.compile(r"(?<=\S)\r\n(?=\S)")
_TOUCHING = 0.1  # of the height of a character: the boxes of the letters of a word are not farther apart
_HALF = re.compile(r"[\ud800-\udfff]")
_ILLEGIBLE = re.compile(r"\S*[\x01-\x08\x0e-\x1f\u0100-\u1fff\u2300-\uffff]\S*")
_SUSPECT = re.compile(r"[\x01-\x08\x0e-\x1f\u0100-\u1fff\u2300-\uffff]")
"""pdfium uses the code of a character that the file does not map to Unicode. Simple fonts have codes up to 255."""

_GLYPH = re.compile(r"[\x01-\x08\x0e-\x1f]")
"""A number of a glyph in a font that the file does not map to Unicode: mostly the space has such a number."""

_WITHOUT_MEANING = re.compile(r"[\ue000-\uf8ff\ufffd]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")

_DRAWN_AS_ONE = re.compile(r"[\x0b\x0c\x0e\x0f\x19-\x1f]|\r(?!\n)")
"""The codes of several letters that one glyph of TeX's fonts draws. Bitmap fonts do not map them to Unicode."""

_OLD = dict(zip("\x0b\x0c\r\x0e\x0f\x19\x1a\x1b\x1c\x1d\x1e\x1f", "\ufb00\ufb01\ufb02\ufb03\ufb04ßæœøÆŒØ", strict=True))
_CORK = dict(
    zip(
        "\x19\x1a\x1b\x1c\x1d\x1e\x1f\x10\x11\x15\x16",
        "\u0131\u0237\ufb00\ufb01\ufb02\ufb03\ufb04\u201c\u201d\u2013\u2014",
        strict=True,
    )
)
"""The two encodings of TeX: the second one also has its quotation marks and dashes here."""

_CORK_MARKS = re.compile(r"[\x10\x11\x15\x16]")
_ONLY_OLD = frozenset("\x0b\x0c\r\x0e\x0f\x19\x1a")
_SHARED = frozenset("\x1b\x1c\x1d\x1e\x1f")
_STARTS_NO_WORD = frozenset("\x1b\x1e\x1f")
"""The codes of ff, ffi and ffl in the second encoding. The first one has letters there that start words."""

_LATIN = re.compile(r"[A-Za-z\u00c0-\u024f]")
_VOWEL = re.compile(r"[AEIOUYaeiouy]")

_LETTERS = str.maketrans({"\ufb00": "ff", "\ufb01": "fi", "\ufb02": "fl", "\ufb03": "ffi", "\ufb04": "ffl"})

_SYMBOLS = str.maketrans(
    {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "➢", "\uf0fc": "✓", "\uf0a8": "□", "\uf06f": "□", "\ufffe": "\x02"}
    | dict.fromkeys(map(chr, (*range(1, 2), *range(3, 9), *range(14, 32), 0x7F)), "\ufffd")
    | {"\0": "\ufffd"}
)


class Characters:
    """The characters of a page.

    Args:
        text_page: pdfium's handle.
        count: number of its characters.
    """

    def __init__(self, text_page: Any, count: int) -> None:
        handle = library.address(text_page)
        codes = library.unicodes(handle, count)
        self.boxes = library.boxes(handle, count)
        self.origins = library.origins(handle, count)
        self._handle = handle
        self._known = set[int]()  # characters that the file does not map, but whose meaning is known
        text = "".join(map(chr, codes))
        if _GLYPH.search(text):
            text = self._with_font_letters(text)
        if _DRAWN_AS_ONE.search(text):
            text = self._with_letters(text)
        self.text = text.translate(_SYMBOLS)
        self._compose()
        self._order_ligatures()
        self._halves = bool(_HALF.search(self.text))
        self.objects = library.objects(handle, count)
        if _VOWEL_SIGN.search(self.text):
            self._join_signs()
        self._remove_false_line_ends()

    def illegible(self) -> tuple[str, ...]:
        """Return the words with characters that the file does not map to letters. Single symbols are not words."""
        return tuple(word[0] for word in _ILLEGIBLE.finditer(self.text) if self._is_illegible(word.start(), word.end()))

    def _is_illegible(self, start: int, end: int) -> bool:
        """Return whether a word lacks letters or the sign of its number. A mark in front of a word does not count."""
        unknown = [
            at
            for at in range(start, end)
            if _SUSPECT.match(self.text[at])
            and at not in self._known
            and (_WITHOUT_MEANING.match(self.text[at]) or self._is_unmapped(at))
        ]
        if not unknown or end - start == 1:
            return False
        return len(unknown) > 1 or unknown[0] > start or bool(_NUMBER.fullmatch(self.text, start + 1, end))

    def are_level(self, one: int, two: int) -> bool:
        """Return whether the baselines of two characters are one."""
        height = self.boxes[4 * two + 1] - self.boxes[4 * two + 3]
        return abs(self.origins[2 * one + 1] - self.origins[2 * two + 1]) < abs(height) / 2

    def height(self, at: int) -> float:
        """Return the height of a character's box in points."""
        return self.boxes[4 * at + 1] - self.boxes[4 * at + 3]

    def is_ligature(self, at: int) -> bool:
        """Return whether one glyph is a character and the next one."""
        return self.boxes[4 * at : 4 * at + 4] == self.boxes[4 * at + 4 : 4 * at + 8]

    def part(self, start: int, end: int) -> str:
        """Return the characters of a part of the page."""
        return self._plain(self.text[start:end].replace("\x02", "-"))

    def plain(self) -> str:
        """Return the text of the page in the order of its content, as pdfium itself joins and divides it."""
        text = _DRAWN_ACCENT.sub("", self._plain(self.text))
        return text.replace("\r\n", "\n").replace("\x02", "-\n")

    def _plain(self, text: str) -> str:
        """Return a text without joined accents. pdfium counts characters beyond U+FFFF twice, as halves of UTF-16."""
        text = text.replace(_NOTHING, "")
        if self._known:
            text = text.translate(_LETTERS)
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if self._halves else text

    def _with_font_letters(self, text: str) -> str:
        """Return a text in which the numbers of glyphs are the letters that their fonts state."""
        if not any(self._is_unmapped(found.start()) for found in _GLYPH.finditer(text)):
            return text
        by_font: dict[int, list[int]] = {}
        for at, item in enumerate(library.objects(self._handle, len(text))):
            if item and self._is_unmapped(at):
                by_font.setdefault(library.font_of(item), []).append(at)
        chars = list(text)
        for font, places in by_font.items():
            letters = letters_of(font, [ord(text[at]) for at in places]) if font else {}
            known = [at for at in places if ord(text[at]) in letters]
            for at in known:
                chars[at] = chr(letters[ord(text[at])])
            self._known.update(known)
        return "".join(chars)

    def _with_letters(self, text: str) -> str:
        """Return a text with the letters of glyphs that draw several, next to Latin letters in bitmap fonts."""
        found = [
            at
            for at in (match.start() for match in _DRAWN_AS_ONE.finditer(text))
            if (_LATIN.match(text[at - 1 : at]) or _LATIN.match(text, at + 1))
            and self._is_unmapped(at)
            and library.is_bitmap(self._handle, at)
        ]
        chars = list(text)
        if _is_old(text, found):
            codes = _OLD
        else:
            codes = _CORK
            found += [at.start() for at in _CORK_MARKS.finditer(text) if found and self._is_unmapped(at.start())]
        for at in found:
            chars[at] = codes[text[at]]
        self._known.update(found)
        return "".join(chars)

    def _is_unmapped(self, at: int) -> bool:
        return library.is_unmapped(self._handle, at)

    def _remove_false_line_ends(self) -> None:
        """Remove line ends between letters that touch.

        If each letter is an object of its own, as browsers print, and a narrow text fills the height of the page,
        pdfium takes the text for vertical lines.
        """
        boxes, chars = self.boxes, None
        for found in _TORN.finditer(self.text):
            last, first = found.start() - 1, found.end()
            gap = boxes[4 * first] - boxes[4 * last + 2]
            if self.objects[first - 1] is not None or abs(gap) > _TOUCHING * self.height(first):
                continue
            if abs(self.origins[2 * first + 1] - self.origins[2 * last + 1]) > _TOUCHING * self.height(first):
                continue  # raised, as marks of footnotes are
            chars = chars or list(self.text)
            for at in range(last + 1, first):
                self._empty(chars, at, first)
        if chars:
            self.text = "".join(chars)

    def _compose(self) -> None:
        """Join an accent that is drawn over a letter with the letter, as TeX and old programs write it."""
        if not _ACCENT.search(self.text):
            return
        chars = list(self.text)
        for found in _ACCENT.finditer(self.text):
            at = found.start()
            middle = (self.boxes[4 * at] + self.boxes[4 * at + 2]) / 2
            for near in (at + 1, at - 1, at + 2, at - 2, *range(at - 3, at - 9, -1)):
                if not 0 <= near < len(chars) or not chars[near].isalpha():
                    continue
                if self.boxes[4 * near] <= middle <= self.boxes[4 * near + 2] and self.are_level(at, near):
                    whole = unicodedata.normalize("NFC", chars[near].translate(_DOTTED) + ACCENTS[found[0]])
                    if len(whole) == 1:
                        chars[near], chars[at] = whole, _NOTHING
                    break
        self.text = "".join(chars)

    def _join_signs(self) -> None:
        """Put each vowel sign after the letter that it is drawn over, and remove spaces that its position caused."""
        chars = list(self.text)
        for found in reversed(list(_VOWEL_SIGN.finditer(self.text))):
            at = found.start()
            middle = (self.boxes[4 * at] + self.boxes[4 * at + 2]) / 2
            for near in (at - 1, at + 1, at - 2):
                if not 0 <= near < len(chars) or not RTL.match(chars[near]) or _VOWEL_SIGN.match(chars[near]):
                    continue
                if self.boxes[4 * near] <= middle <= self.boxes[4 * near + 2] and self.are_level(at, near):
                    if near != at - 1:
                        self._swap(chars, at, max(near, at - 1))
                    letter = min(near, at)
                    self._close(chars, letter, letter - 1, letter - 2)
                    self._close(chars, letter, letter + 2, letter + 3)
                    break
        self.text = "".join(chars)

    def _close(self, chars: list[str], letter: int, space: int, other: int) -> None:
        """Remove a space that pdfium inserted between two letters that touch."""
        if not 0 <= min(space, other) <= max(space, other) < len(chars) or chars[space] != " ":
            return
        if self.objects[space] is not None or not RTL.match(chars[other]) or not self.are_level(letter, other):
            return
        right, left = max(letter, other, key=self._left), min(letter, other, key=self._left)
        gap = self.boxes[4 * right] - self.boxes[4 * left + 2]
        if abs(gap) <= _TOUCHING * self.height(letter):
            self._empty(chars, space, letter)

    def _left(self, at: int) -> float:
        return self.boxes[4 * at]

    def _swap(self, chars: list[str], one: int, two: int) -> None:
        chars[one], chars[two] = chars[two], chars[one]
        self.objects[one], self.objects[two] = self.objects[two], self.objects[one]
        for places, size in ((self.boxes, 4), (self.origins, 2)):
            first, second = places[size * one : size * (one + 1)], places[size * two : size * (two + 1)]
            places[size * one : size * (one + 1)], places[size * two : size * (two + 1)] = second, first

    def _empty(self, chars: list[str], at: int, near: int) -> None:
        """Replace a character by nothing, at the position of another character."""
        chars[at], self.objects[at] = _NOTHING, self.objects[near]
        self.boxes[4 * at : 4 * at + 4] = self.boxes[4 * near : 4 * near + 4]
        self.origins[2 * at : 2 * at + 2] = self.origins[2 * near : 2 * near + 2]

    def _order_ligatures(self) -> None:
        """Put lam in front of alef if one glyph is both: pdfium reverses the characters of Arabic lines."""
        for found in _ALEF_LAM.finditer(self.text):
            one, two = 4 * found.start(), 4 * found.start() + 4
            if self.boxes[one : one + 4] == self.boxes[two : two + 4]:
                first = found.start()
                self.text = f"{self.text[:first]}{found[0][::-1]}{self.text[first + 2 :]}"


def _is_old(text: str, found: Sequence[int]) -> bool:
    """Return whether the page has TeX's first encoding.

    Both encodings have letters at five codes. The second one has ligatures there, which mostly follow vowels. The first
    one has vowels there, which mostly follow consonants.
    """
    if any(text[at] in _ONLY_OLD for at in found):
        return True
    shared = [at for at in found if text[at] in _SHARED]
    inside = [at for at in shared if _LATIN.match(text[at - 1 : at])]
    vowels = sum(bool(_VOWEL.match(text[at - 1])) for at in inside)
    starts = sum(text[at] in _STARTS_NO_WORD for at in set(shared).difference(inside))
    return len(inside) - vowels + starts > vowels
