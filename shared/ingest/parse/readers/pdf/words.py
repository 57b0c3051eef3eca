"""The words of a page in the order of its content, with their places."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from ctypes import byref, cast, create_string_buffer
from dataclasses import dataclass, replace
from itertools import pairwise
from math import atan2, cos, degrees, hypot, radians, sin
from operator import sub
from typing import Any

from pypdfium2 import raw

from shared.ingest.parse.readers.pdf import library

_GLUED = 0.13  # of the font size: objects with a smaller gap are one word
_TRACKED = 0.4  # of the font size: letters that are spaced are not farther apart
_RAISED = 0.65  # of the font size: the baseline of a raised or lowered number is not farther
_RAISED_GAP = 0.3  # of the font size
_LEVEL = 0.12  # of the font size: baselines that are not farther are one
_BACK = -0.7  # of the font size: kerning and accents move back less
_SMALLER = 0.92  # of the font size: a raised number is smaller
_NEARLY = 2  # degrees
_BOLD_WEIGHT = 600
_DRAWN = 3  # times the font size: glyphs of common fonts are not taller
_SPACE = 0.17  # of the font size: a wider gap in an object is a space
_COLUMN_PAIRS = 4  # so many characters, each below the one before it, are vertical writing

_TOKEN = re.compile(r"[^\s\x02]+\x02?|\x02")
_BOLD = re.compile(r"bold|black|heavy|demi|cmbx|cmssbx|(?:^|[-,_])(?:bd|b|bx)(?:$|[-,_])", re.IGNORECASE)
_NOTHING = "\x7f"
"""Replaces an accent that was joined with its letter."""

_ACCENTS = {
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
_ACCENT = re.compile(f"[{re.escape(''.join(_ACCENTS))}]")
_DRAWN_ACCENT = re.compile(
    f"(?<=[^\\W\\d_]) ?[{''.join(char for char in _ACCENTS if not char.isascii())}] ?(?=[^\\W\\d_])"
)
_DOTTED = str.maketrans("ıȷ", "ij")
_ALEF_LAM = re.compile(r"[\u0622\u0623\u0625\u0627]\u0644")
_RTL = re.compile(r"[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]")
_HALF = re.compile(r"[\ud800-\udfff]")
UNSPACED = re.compile(r"[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff65]")
"""Characters of scripts without spaces between words."""

_ILLEGIBLE = re.compile(r"\S*[\x01-\x08\x0e-\x1f\u0100-\u1fff\u2300-\uffff]\S*")
_SUSPECT = re.compile(r"[\x01-\x08\x0e-\x1f\u0100-\u1fff\u2300-\uffff]")
_WITHOUT_MEANING = re.compile(r"[\ue000-\uf8ff\ufffd]")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
"""pdfium uses the code of a character that the file does not map to Unicode. Simple fonts have codes up to 255."""

_SYMBOLS = str.maketrans(
    {"\uf0b7": "•", "\uf0a7": "▪", "\uf0d8": "➢", "\uf0fc": "✓", "\uf0a8": "□", "\uf06f": "□", "\ufffe": "\x02"}
    | dict.fromkeys(map(chr, (*range(1, 2), *range(3, 9), *range(14, 32), 0x7F)), "\ufffd")
    | {"\0": "\ufffd"}
)


@dataclass(frozen=True, slots=True)
class Style:
    """The font of a text object.

    Args:
        size: its size in points as drawn.
        bold: whether it is bold.
        angle: direction of its lines in degrees, counted against the clock.
        mark: number of the marked content that the structure of the document names; -1 if there is none.
    """

    size: float
    bold: bool
    angle: int
    mark: int = -1


@dataclass(slots=True)
class Word:
    """Characters without a space. Places are in points, with x in the direction of its line, and y upwards.

    Args:
        text: its characters.
        x0: left end.
        x1: right end.
        y: height of the baseline.
        style: its font.
        index: index of its first character in the content of the page.
        glued: whether it continues the word before it without a space, as a raised number does.
    """

    text: str
    x0: float
    x1: float
    y: float
    style: Style
    index: int
    glued: bool = False


@dataclass(frozen=True, slots=True)
class TextLayer:
    """The text of a page.

    Args:
        groups: the words of each direction, the direction with most characters first.
        plain: its characters in the order of the content, as pdfium joins them.
        illegible: words with characters that the file does not map to letters.
    """

    groups: tuple[tuple[int, list[Word]], ...]
    plain: str
    illegible: tuple[str, ...] = ()


class Fonts:
    """The styles of text objects. Whether a font is bold is read once for a document.

    Args:
        heights: for fonts whose glyphs are drawings: the height of the tallest glyph in points.
    """

    def __init__(self) -> None:
        self._bold: dict[int, bool] = {}
        self.heights: dict[int, float] = {}

    def style(self, text_page: Any, at: int, item: int) -> Style:
        """Return the style of a character's text object."""
        matrix = raw.FS_MATRIX()
        size, angle = raw.FPDFText_GetFontSize(text_page, at), 0
        if raw.FPDFText_GetMatrix(text_page, at, byref(matrix)):
            size *= hypot(matrix.c, matrix.d) or hypot(matrix.a, matrix.b)
            angle = _angle(matrix)
        pointer = cast(item, raw.FPDF_PAGEOBJECT)
        mark = raw.FPDFPageObj_GetMarkedContentID(pointer)
        return Style(round(abs(size), 2) or 1.0, self._is_bold(pointer), angle, mark)

    def _is_bold(self, item: Any) -> bool:
        font = raw.FPDFTextObj_GetFont(item)
        key = library.address(font) if font else 0
        if key not in self._bold:
            name = create_string_buffer(128)
            if font:
                raw.FPDFFont_GetBaseFontName(font, name, 128)
            prefix, _, base = name.value.decode("utf-8", "replace").rpartition("+")
            heavy = bool(font) and raw.FPDFFont_GetWeight(font) >= _BOLD_WEIGHT
            self._bold[key] = heavy or bool(_BOLD.search(base or prefix))
        return self._bold[key]


def _angle(matrix: Any) -> int:
    if not (matrix.a or matrix.b):
        return 0
    mirrored = matrix.a * matrix.d - matrix.b * matrix.c < 0
    angle = round(degrees(atan2(-matrix.b, -matrix.a) if mirrored and matrix.d > 0 else atan2(matrix.b, matrix.a)))
    quarter = round(angle / 90) * 90
    return (quarter if abs(angle - quarter) <= _NEARLY else angle) % 360


def text_layer(text_page: Any, count: int, fonts: Fonts) -> TextLayer:
    """Return the words of a page.

    Args:
        text_page: pdfium's handle.
        count: number of its characters.
        fonts: the fonts of the document.
    """
    found = _Finder(text_page, count, fonts)
    words = found.words()
    groups: dict[int, list[Word]] = {}
    for word in _vertical(words):
        groups.setdefault(word.style.angle, []).append(word)
    ordered = sorted(groups.items(), key=lambda group: -sum(len(word.text) for word in group[1]))
    return TextLayer(tuple(ordered), plain_text(text_page), found.illegible())


def plain_text(text_page: Any) -> str:
    """Return the text of a page in the order of its content, as pdfium itself joins and divides it."""
    text: str = text_page.get_text_range()
    text = _DRAWN_ACCENT.sub("", text)
    return text.translate(_SYMBOLS).replace("\r\n", "\n").replace("\x02", "-\n")


class _Finder:
    def __init__(self, text_page: Any, count: int, fonts: Fonts) -> None:
        handle = library.address(text_page)
        codes = library.unicodes(handle, count)
        self._boxes = library.boxes(handle, count)
        self._origins = library.origins(handle, count)
        self._handle = handle
        self._text = "".join(map(chr, codes)).translate(_SYMBOLS)
        self._compose()
        self._order_ligatures()
        self._halves = bool(_HALF.search(self._text))
        self._objects = library.objects(handle, count)
        self._page, self._fonts = text_page, fonts
        self._styles: dict[int | None, Style] = {None: Style(1.0, bold=False, angle=0)}
        self._has_heights = False

    def _compose(self) -> None:
        """Join an accent that is drawn over a letter with the letter, as TeX and old programs write it."""
        if not _ACCENT.search(self._text):
            return
        chars = list(self._text)
        for found in _ACCENT.finditer(self._text):
            at = found.start()
            middle = (self._boxes[4 * at] + self._boxes[4 * at + 2]) / 2
            for near in (at + 1, at - 1, at + 2, at - 2, *range(at - 3, at - 9, -1)):
                if not 0 <= near < len(chars) or not chars[near].isalpha():
                    continue
                if self._boxes[4 * near] <= middle <= self._boxes[4 * near + 2] and self._level(at, near):
                    whole = unicodedata.normalize("NFC", chars[near].translate(_DOTTED) + _ACCENTS[found[0]])
                    if len(whole) == 1:
                        chars[near], chars[at] = whole, _NOTHING
                    break
        self._text = "".join(chars)

    def _level(self, one: int, two: int) -> bool:
        height = self._boxes[4 * two + 1] - self._boxes[4 * two + 3]
        return abs(self._origins[2 * one + 1] - self._origins[2 * two + 1]) < abs(height) / 2

    def _order_ligatures(self) -> None:
        """Put lam in front of alef if one glyph is both: pdfium reverses the characters of Arabic lines."""
        for found in _ALEF_LAM.finditer(self._text):
            one, two = 4 * found.start(), 4 * found.start() + 4
            if self._boxes[one : one + 4] == self._boxes[two : two + 4]:
                first = found.start()
                self._text = f"{self._text[:first]}{found[0][::-1]}{self._text[first + 2 :]}"

    def words(self) -> list[Word]:
        """Return the words in the order of the content."""
        words, end = list[Word](), 0
        for token in _TOKEN.finditer(self._text):
            start = token.start()
            gap = self._text[end:start]
            end = token.end()
            pieces = [piece for piece in self._pieces(start, end) if piece.text]
            if not pieces:
                continue
            if gap == "\r\n" and words and words[-1].glued and self._continues(words, pieces[0]):
                pieces[0].glued = True
            elif gap == " " and words and self._is_tracked(words[-1], pieces[0], start - 1):
                first = pieces.pop(0)
                words[-1].text += first.text
                words[-1].x0, words[-1].x1 = _hull(words[-1], first)
            words += pieces
        return words

    def illegible(self) -> tuple[str, ...]:
        """Return the words with characters that the file does not map to letters. Single symbols are not words."""
        return tuple(
            word[0] for word in _ILLEGIBLE.finditer(self._text) if self._is_illegible(word.start(), word.end())
        )

    def _is_illegible(self, start: int, end: int) -> bool:
        """Return whether a word lacks letters or the sign of its number. A mark in front of a word does not count."""
        unknown = [
            at
            for at in range(start, end)
            if _SUSPECT.match(self._text[at])
            and (_WITHOUT_MEANING.match(self._text[at]) or library.is_unmapped(self._handle, at))
        ]
        if not unknown or end - start == 1:
            return False
        return len(unknown) > 1 or unknown[0] > start or bool(_NUMBER.fullmatch(self._text, start + 1, end))

    def _is_tracked(self, last: Word, piece: Word, space: int) -> bool:
        """Return whether a space that pdfium inserted between two objects is as narrow as those between letters."""
        if self._objects[space] is not None or last.style.angle or piece.style.angle:
            return False
        size, gap = max(last.style.size, piece.style.size), piece.x0 - last.x1
        at = space - 1 if len(last.text) > 1 else space + 2
        if not 0 < at < len(self._objects) or self._objects[at] != self._objects[at - 1] or gap > _TRACKED * size:
            return False
        letters = self._boxes[4 * at] - self._boxes[4 * at - 2]
        return letters > _TRACKED / 8 * size and _BACK * size < gap <= letters * 1.2 and last.y == piece.y

    def _continues(self, words: Sequence[Word], piece: Word) -> bool:
        """Return whether a piece follows a raised number on the line of the word in front of the number."""
        host = next(word for word in reversed(words) if not word.glued)
        size = max(host.style.size, piece.style.size)
        near = _BACK * size <= piece.x0 - words[-1].x1 <= _GLUED * size
        return near and abs(host.y - piece.y) <= _LEVEL * size and host.style.angle == piece.style.angle == 0

    def _pieces(self, start: int, end: int) -> list[Word]:
        """Divide a token where its text objects are apart."""
        objects = self._objects
        if gaps := self._spaces(start, end):
            return [piece for one, two in pairwise((start, *gaps, end)) for piece in self._pieces(one, two)]
        if objects[start] == objects[end - 1]:
            return [self._word(start, end)]
        pieces, first = list[Word](), start
        for at in range(start + 1, end + 1):
            if at == end or objects[at] != objects[at - 1]:
                self._add(pieces, self._word(first, at))
                first = at
        return pieces

    def _spaces(self, start: int, end: int) -> list[int]:
        """Return the characters after a gap as wide as a space, unless most letters of the word are apart."""
        boxes = self._boxes
        gaps = list(map(sub, boxes[4 * start + 4 : 4 * end : 4], boxes[4 * start + 2 : 4 * end - 2 : 4]))
        if not gaps or max(gaps) < 1 or self._style(start).angle:
            return []
        limit = max(1.0, _SPACE * self._style(start).size)
        found = [
            start + 1 + at
            for at, gap in enumerate(gaps)
            if gap > limit and self._text[start + at].isalpha() and self._text[start + at + 1].isalpha()
        ]
        found = [at for at in found if self._objects[at] == self._objects[at - 1] and self._level(at, at - 1)]
        return found if len(found) * 3 <= len(gaps) and min(gaps) > -limit * 3 else []

    def _add(self, pieces: list[Word], piece: Word) -> None:
        last = pieces[-1] if pieces else None
        if last is None or last.style.angle != piece.style.angle or _is_mixed(last.text[-1:], piece.text[:1]):
            pieces.append(piece)
            return
        size = max(last.style.size, piece.style.size)
        gap, rise = max(piece.x0 - last.x1, last.x0 - piece.x1), abs(piece.y - last.y)
        if rise <= _LEVEL * size and _BACK * size <= gap <= _GLUED * size:
            style = last.style if last.style.size >= piece.style.size else piece.style
            pieces[-1] = Word(last.text + piece.text, *_hull(last, piece), last.y, style, last.index, glued=last.glued)
            return
        smaller = min(last.style.size, piece.style.size) <= _SMALLER * size
        piece.glued = smaller and rise <= _RAISED * size and _BACK * size <= gap <= _RAISED_GAP * size
        pieces.append(piece)

    def _word(self, start: int, end: int) -> Word:
        style = self._style(start)
        text = self._part(start, end)
        if not style.angle and end - start > 1 and self._runs_down(start, end, style.size):
            style = replace(style, angle=270)
        if style.angle:
            return self._turned_word(text, start, end, style)
        boxes, last = self._boxes, 4 * (end - 1)
        x0, x1 = boxes[4 * start], boxes[last + 2]
        if x1 < x0 or boxes[last] < x0:  # written from the right
            x0, x1 = min(x0, boxes[last]), max(x1, boxes[4 * start + 2])
        return Word(text, x0, x1, self._origins[2 * start + 1], style, start)

    def _part(self, start: int, end: int) -> str:
        """Return characters, of which pdfium counts those beyond U+FFFF twice, as the halves of UTF-16."""
        text = self._text[start:end].replace("\x02", "-").replace(_NOTHING, "")
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if self._halves else text

    def _runs_down(self, start: int, end: int, size: float) -> bool:
        """Return whether upright characters are below each other, as in vertical writing."""
        fall = self._origins[2 * start + 1] - self._origins[2 * end - 1]
        return fall > size * (end - start - 1) / 2 and bool(UNSPACED.match(self._text[start]))

    def _turned_word(self, text: str, start: int, end: int, style: Style) -> Word:
        """Return a word of a line that is not horizontal, with its position after the line was turned."""
        angle = radians(style.angle)
        cosine, sine = cos(angle), sin(angle)
        corners = [
            (x, y)
            for at in (start, end - 1)
            for x in (self._boxes[4 * at], self._boxes[4 * at + 2])
            for y in (self._boxes[4 * at + 1], self._boxes[4 * at + 3])
        ]
        along = [x * cosine + y * sine for x, y in corners]
        origin_x, origin_y = self._origins[2 * start], self._origins[2 * start + 1]
        return Word(text, min(along), max(along), origin_y * cosine - origin_x * sine, style, start)

    def _style(self, at: int) -> Style:
        item = self._objects[at]
        if item not in self._styles:
            style = self._fonts.style(self._page, at, item or 0)
            if not style.angle and self._height(at) > _DRAWN * style.size:
                style = replace(style, size=round(self._drawn_size(item or 0), 2))
            self._styles[item] = style
        return self._styles[item]

    def _height(self, at: int) -> float:
        return self._boxes[4 * at + 1] - self._boxes[4 * at + 3]

    def _drawn_size(self, item: int) -> float:
        """Return the size of a font whose glyphs are drawings in any unit, as TeX's bitmaps are."""
        heights = self._fonts.heights
        if not self._has_heights:
            self._has_heights = True
            fonts = {one: library.font_of(one) for one in set(self._objects) if one}
            for at, one in enumerate(self._objects):
                if one:
                    font = fonts[one]
                    heights[font] = max(heights.get(font, 0.0), self._height(at))
        return heights.get(library.font_of(item), 1.0)


def _is_mixed(one: str, two: str) -> bool:
    """Return whether two letters are written in different directions."""
    return one.isalpha() and two.isalpha() and bool(_RTL.match(one)) != bool(_RTL.match(two))


def _hull(one: Word, two: Word) -> tuple[float, float]:
    return min(one.x0, two.x0), max(one.x1, two.x1)


def _vertical(words: list[Word]) -> list[Word]:
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


def keeps_no_hyphen(before: str, after: str) -> bool:
    """Return whether a hyphen at the end of a line only divides a word.

    Args:
        before: the characters in front of the hyphen.
        after: the first characters of the next line.
    """
    return before[-1:].isalpha() and "-" not in before and after[:1].islower()
