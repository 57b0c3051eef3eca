"""The words of a page in the order of its content, with their places."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import pairwise
from math import cos, radians, sin
from operator import sub
from typing import Any

from shared.ingest.parse.readers.pdf import library
from shared.ingest.parse.readers.pdf.text.characters import ACCENTS, RTL, UNSPACED, Characters
from shared.ingest.parse.readers.pdf.text.styles import Fonts, Style

_GLUED = 0.13  # of the font size: objects with a smaller gap are one word
_TRACKED = 0.4  # of the font size: letters that are spaced are not farther apart
_RAISED = 0.65  # of the font size: the baseline of a raised or lowered number is not farther
_RAISED_GAP = 0.3  # of the font size
_LOWERED = 0.35  # of the font size: the same for a letter of the same size, as in TeX's name
_LEVEL = 0.12  # of the font size: baselines that are not farther are one
_BACK = -0.7  # of the font size: kerning and accents move back less
_SMALLER = 0.92  # of the font size: a raised number is smaller
_COVERED = 0.05  # of the font size
_DRAWN = 3  # times the font size: the size of a font of drawn glyphs counts in another unit
_SLANT = 0.2  # between sine and cosine: near 45 degrees, the width of a character does not follow from its box
_SPACE = 0.17  # of the font size: a wider gap in an object is a space
_BETWEEN_WORDS = re.compile(r"[^\W\d_]\w|[,.;:)][^\W\d_]")
_TOKEN = re.compile(r"[^\s\x02]+\x02?|\x02")


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


class Finder:
    """Finds the words of a page.

    Args:
        text_page: pdfium's handle.
        chars: its characters.
        fonts: the fonts of the document.
    """

    def __init__(self, text_page: Any, chars: Characters, fonts: Fonts) -> None:
        self._chars = chars
        self._text, self._boxes, self._origins, self._objects = chars.text, chars.boxes, chars.origins, chars.objects
        self._page, self._fonts = text_page, fonts
        self._page_address = library.address(text_page)
        self._styles: dict[int | None, Style] = {None: Style(1.0, bold=False, angle=0)}
        self._has_heights = False

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
            if gap == " " and words and self._is_no_space(words[-1], pieces[0], start - 1):
                first = pieces.pop(0)
                words[-1].text += first.text
                words[-1].x0, words[-1].x1 = _hull(words[-1], first)
            words += pieces
        return words

    def _is_no_space(self, last: Word, piece: Word, space: int) -> bool:
        if self._objects[space] is None:
            return self._is_tracked(last, piece, space)
        return self._boxes[4 * space] < last.x1 - 1 and self._is_covered(last, piece, space)

    def _is_covered(self, last: Word, piece: Word, space: int) -> bool:
        """Return whether a space is drawn over the ligature in front of it, as some programs do for its width."""
        if space < 2 or last.style.angle or not self._chars.is_ligature(space - 2) or last.y != piece.y:  # noqa: PLR2004
            return False
        return abs(piece.x0 - last.x1) <= _COVERED * last.style.size

    def _is_tracked(self, last: Word, piece: Word, space: int) -> bool:
        """Return whether a space that pdfium inserted between two objects is as narrow as those between letters."""
        if last.style.angle or piece.style.angle:
            return False
        size, gap = max(last.style.size, piece.style.size), piece.x0 - last.x1
        at = space - 1 if len(last.text) > 1 else space + 2
        if not 0 < at < len(self._objects) or self._objects[at] != self._objects[at - 1] or gap > _TRACKED * size:
            return False
        letters = self._boxes[4 * at] - self._boxes[4 * at - 2]
        return letters > _TRACKED / 8 * size and _BACK * size < gap <= letters * 1.2 and last.y == piece.y

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
            if gap > limit and _BETWEEN_WORDS.match(self._text[start + at : start + at + 2])
        ]
        found = [at for at in found if self._objects[at] == self._objects[at - 1] and self._chars.are_level(at, at - 1)]
        if not found or len(found) * 3 > len(gaps):
            return []
        back = (start + at for at, gap in enumerate(gaps) if gap <= -limit * 3)
        return found if all(map(self._chars.is_ligature, back)) else []

    def _add(self, pieces: list[Word], piece: Word) -> None:
        last = pieces[-1] if pieces else None
        if last is None or last.style.angle != piece.style.angle or _is_mixed(last.text[-1:], piece.text[:1]):
            pieces.append(piece)
            return
        size = max(last.style.size, piece.style.size)
        start = piece.x0 if piece.style.angle else min(piece.x0, self._origins[2 * piece.index])
        gap, rise = max(start - last.x1, last.x0 - piece.x1), abs(piece.y - last.y)
        if rise <= _LEVEL * size and _BACK * size <= gap <= _GLUED * size:
            style = last.style if last.style.size >= piece.style.size else piece.style
            pieces[-1] = Word(last.text + piece.text, *_hull(last, piece), last.y, style, last.index, glued=last.glued)
            return
        smaller = min(last.style.size, piece.style.size) <= _SMALLER * size
        rise_limit, gap_limit = (_RAISED, _RAISED_GAP) if smaller else (_LOWERED, _GLUED)
        is_accent = piece.text in ACCENTS or last.text in ACCENTS
        near = rise <= rise_limit * size and _BACK * size <= gap <= gap_limit * size
        piece.glued = near and (smaller or not is_accent)
        pieces.append(piece)

    def _word(self, start: int, end: int) -> Word:
        style = self._style(start)
        text = self._chars.part(start, end)
        if not style.angle and end - start > 1 and self._runs_down(start, end, style.size):
            style = replace(style, angle=270)
        if style.angle:
            return self._turned_word(text, start, end, style)
        boxes, last = self._boxes, 4 * (end - 1)
        x0, x1 = boxes[4 * start], boxes[last + 2]
        if x1 < x0 or boxes[last] < x0:  # written from the right
            x0, x1 = min(x0, boxes[last]), max(x1, boxes[4 * start + 2])
        return Word(text, x0, x1, self._origins[2 * start + 1], style, start)

    def _runs_down(self, start: int, end: int, size: float) -> bool:
        """Return whether upright characters are below each other, as in vertical writing."""
        fall = self._origins[2 * start + 1] - self._origins[2 * end - 1]
        return fall > size * (end - start - 1) / 2 and bool(UNSPACED.match(self._text[start]))

    def _turned_word(self, text: str, start: int, end: int, style: Style) -> Word:
        """Return a word of a line that is not horizontal, with its position after the line was turned."""
        angle = radians(style.angle)
        cosine, sine = cos(angle), sin(angle)
        origin_x, origin_y = self._origins[2 * start], self._origins[2 * start + 1]
        y = origin_y * cosine - origin_x * sine
        if style.angle % 90:
            last_x, last_y = self._origins[2 * end - 2], self._origins[2 * end - 1]
            x0 = origin_x * cosine + origin_y * sine
            x1 = last_x * cosine + last_y * sine + self._slanted_width(end - 1, abs(cosine), abs(sine), style.size)
            return Word(text, min(x0, x1), max(x0, x1), y, style, start)
        corners = [
            (x, y)
            for at in (start, end - 1)
            for x in (self._boxes[4 * at], self._boxes[4 * at + 2])
            for y in (self._boxes[4 * at + 1], self._boxes[4 * at + 3])
        ]
        along = [x * cosine + y * sine for x, y in corners]
        return Word(text, min(along), max(along), y, style, start)

    def _slanted_width(self, at: int, cosine: float, sine: float, size: float) -> float:
        """Return the width of a character of a slanted line: its box is wider and higher than the character."""
        width = abs(self._boxes[4 * at + 2] - self._boxes[4 * at])
        height = abs(self._chars.height(at))
        if abs(cosine - sine) > _SLANT:
            return max(0.0, (width * cosine - height * sine) / (cosine**2 - sine**2))
        return max(0.0, (width - size * sine) / cosine)

    def _style(self, at: int) -> Style:
        item = self._objects[at]
        if item not in self._styles:
            style = self._fonts.style(self._page, at, item or 0)
            is_large = not style.angle and self._chars.height(at) > _DRAWN * style.size
            if is_large and library.is_bitmap(self._page_address, at):
                style = replace(style, size=round(self._drawn_size(item or 0), 2))
            self._styles[item] = style
        return self._styles[item]

    def _drawn_size(self, item: int) -> float:
        """Return the size of a font whose glyphs are drawings in any unit, as TeX's bitmaps are."""
        heights = self._fonts.heights
        if not self._has_heights:
            self._has_heights = True
            fonts = {one: library.font_of(one) for one in set(self._objects) if one}
            for at, one in enumerate(self._objects):
                if one:
                    font = fonts[one]
                    heights[font] = max(heights.get(font, 0.0), self._chars.height(at))
        return heights.get(library.font_of(item), 1.0)


def _is_mixed(one: str, two: str) -> bool:
    """Return whether two letters are written in different directions."""
    return one.isalpha() and two.isalpha() and bool(RTL.match(one)) != bool(RTL.match(two))


def _hull(one: Word, two: Word) -> tuple[float, float]:
    return min(one.x0, two.x0), max(one.x1, two.x1)
