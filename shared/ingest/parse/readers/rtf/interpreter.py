"""Interpreter of RTF's control words: a scanner over tokens, with a stack of groups instead of recursion.

Text is added to the blocks of the file (`blocks`), and without markup to `raw`, which the loss guard reads.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass

from shared.ingest.parse.readers.rtf.blocks import Blocks
from shared.ingest.parse.readers.rtf.control_words import (
    CELL_ENDS,
    CHARACTERS,
    DESTINATIONS,
    MEANINGFUL,
    NAMES,
    PARAGRAPH_ENDS,
    ROW_WORDS,
    SHOWN,
    SKIPPED,
    STARRED,
)
from shared.ingest.parse.readers.rtf.fonts import RtfFonts, greek

_TOKEN = re.compile(
    r"\\(?:([a-zA-Z]{1,32})(-?\d{1,10})? ?|'([0-9a-fA-F]{2})|([^a-zA-Z]))|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)", re.DOTALL
)
_WORD, _NUMBER, _BYTE, _SYMBOL, _BRACE, _LETTERS = range(1, 7)  # groups of a token; the last one is its kind
_WORDS = (_WORD, _NUMBER)
_STYLES = ("styles", "style")
_BRACES = re.compile(r"\\[\\{}]|[{}]")
_LINK = re.compile(r'HYPERLINK\s+(?:\\[a-z]\s+)*"?([^"\s]{4,2000})')
_STYLE_HEADING = re.compile(
    r"(?:heading|überschrift|titre|título|nadpis|заголовок|rubrik|otsikko|nagłówek)\s*([1-9])", re.IGNORECASE
)


@dataclass(slots=True)
class _RtfGroup:
    """The state that a group of RTF inherits."""

    into: str = "text"
    font: int = -1
    wide_font: int = -1
    wide: bool = False
    fallback: int = 1
    deleted: bool = False
    plain_rtf: bool = False

    def inherited(self) -> _RtfGroup:
        return _RtfGroup(self.into, self.font, self.wide_font, self.wide, self.fallback, self.deleted, self.plain_rtf)


@dataclass(slots=True)
class _Style:
    number: int = 0
    level: int = 0


class Interpreter:
    """Reads one file.

    Args:
        content: the file.
        packed: whether the HTML that is packed in it is read, which `page` has afterwards, and not its own text.
    """

    def __init__(self, content: bytes, *, packed: bool = False) -> None:
        self.blocks = Blocks()
        self.raw: list[str] = []
        self.page: list[str] = []
        self.margins: list[str] = []
        self._text = content.decode("latin-1")
        self._has_binaries = b"\\bin" in content
        self._packed = packed
        self._names: dict[str, str] = {}
        self._fonts = RtfFonts()
        self._levels: dict[int, int] = {}
        self._style = _Style()
        self._group = _RtfGroup()
        self._stack: list[_RtfGroup] = []
        self._waiting = bytearray()
        self._skip = 0
        self._starred = False
        self._high = 0

    @property
    def title(self) -> str | None:
        return " ".join(self._names.get("title", "").split()) or None

    def run(self) -> None:
        """Read the whole file; groups left open at its end are closed."""
        text, at, match = self._text, 0, _TOKEN.match
        while found := match(text, at):
            at = found.end()
            kind = found.lastindex
            if kind == _LETTERS:
                self._letters(found[_LETTERS])
            elif kind in _WORDS:
                if found[_WORD] in MEANINGFUL or self._skip or self._starred or self._group.into in _STYLES:
                    at = self._control(found, at)
            elif kind == _BRACE:
                self._brace(found[_BRACE])
            elif kind == _BYTE:
                self._byte(int(found[_BYTE], 16))
            elif kind == _SYMBOL:
                self._symbol(found[_SYMBOL])
        self._flush()
        self.blocks.finish()

    def _control(self, found: re.Match[str], at: int) -> int:
        """Read a control word, and return the index after it and the data that it skips."""
        word, number = found[_WORD], found[_NUMBER]
        value = int(number) if number else None
        if word == "bin":
            return at + max(0, value or 0)
        self._word(word, value)
        if self._group.into or word == "upr" or self._has_binaries:
            return at
        return self._end_of_group(at)

    def _end_of_group(self, at: int) -> int:
        """Return the index of the brace that closes the group, in which nothing is read: most of some files."""
        depth = 1
        for brace in _BRACES.finditer(self._text, at):
            depth += {"{": 1, "}": -1}.get(brace[0], 0)
            if not depth:
                return brace.start()
        return len(self._text)

    # Text

    def _letters(self, letters: str) -> None:
        if self._skip:
            used = min(self._skip, len(letters))
            self._skip -= used
            letters = letters[used:]
        self._starred = False
        if letters and self._group.into:
            self._waiting += letters.encode("latin-1")

    def _byte(self, value: int) -> None:
        self._starred = False
        if self._skip:
            self._skip -= 1
        elif self._group.into:
            self._waiting.append(value)

    def _flush(self) -> None:
        if not self._waiting:
            return
        data, group = bytes(self._waiting), self._group
        self._waiting.clear()
        number = group.wide_font if group.wide and group.wide_font >= 0 else group.font
        is_name = group.into not in ("text", "html")
        self._add(self._fonts.text(data, number, is_body=group.into == "text", is_name=is_name))

    def _unicode(self, value: int) -> None:
        self._flush()
        code = value & 0xFFFF if value < 0x10000 else value  # noqa: PLR2004 - the end of 16 bits
        self._skip = self._group.fallback
        if 0xD800 <= code < 0xDC00:  # noqa: PLR2004 - the first half of a pair
            self._high = code
            return
        if 0xDC00 <= code < 0xE000:  # noqa: PLR2004 - the second half
            if self._high:
                self._add(chr(0x10000 + ((self._high - 0xD800) << 10) + code - 0xDC00))
            self._high = 0
            return
        if 0xF020 <= code <= 0xF0FF:  # noqa: PLR2004 - a letter of a symbol font
            self._add(greek(chr(code & 0xFF)))
        elif 0 < code < 0x110000:  # noqa: PLR2004 - the end of Unicode
            self._add(chr(code))

    def _add(self, text: str) -> None:
        group = self._group
        into = group.into
        if into == "font":
            self._fonts.add_name(text)
        elif into in NAMES:
            self._names[into] = (self._names.get(into, "") + text)[:4096]
        elif group.deleted:
            return
        elif self._packed:
            self._page_text(text)
        elif into == "margin":
            self.margins.append(text)
        elif into in SHOWN:
            self.raw.append(text)
            self.blocks.text(text)

    def _page_text(self, text: str) -> None:
        if self._group.into == "html":
            self.page.append(text)
        elif self._group.into == "text" and not self._group.plain_rtf:
            self.page.append(html.escape(text, quote=False))

    def _break(self, mark: str = "\n") -> None:
        self._flush()
        if self._group.into in SHOWN:
            self.raw.append(mark)
        elif self._group.into == "margin":
            self.margins.append(mark)

    # Groups

    def _brace(self, brace: str) -> None:
        self._flush()
        self._skip = 0
        self._starred = False
        if brace == "{":
            self._stack.append(self._group)
            self._group = self._group.inherited()
        elif self._stack:
            closed, self._group = self._group, self._stack.pop()
            if closed.into != self._group.into:
                self._closed(closed.into)

    def _closed(self, into: str) -> None:
        if into == "style":
            self._end_style()
        elif into in ("note", "comment", "marker", "link"):
            self.raw.append("\n" if into in ("note", "comment") else " ")
            self.blocks.close(into)
        elif into == "shape":
            self.raw.append("\n")
            self.blocks.end_paragraph()

    def _end_style(self) -> None:
        style, self._style = self._style, _Style()
        name = self._names.pop("style", "").strip(" ;")
        if found := _STYLE_HEADING.match(name):
            self._levels[style.number] = int(found[1])
        elif name.lower() in ("title", "titel", "titre"):
            self._levels[style.number] = 1
        elif style.level:
            self._levels[style.number] = style.level

    def _symbol(self, symbol: str) -> None:
        if symbol == "*":
            self._starred = True
            return
        if self._skip and symbol not in "\r\n":
            self._skip -= 1
            return
        if symbol in "{}\\":
            if self._group.into:
                self._waiting += symbol.encode()
        elif symbol in "\r\n":
            self._word("par", None)
        elif symbol in CHARACTERS:
            self._flush()
            self._add(CHARACTERS[symbol])
        elif symbol == "|" or symbol in "-:":
            return

    # Control words

    def _word(self, word: str, value: int | None) -> None:
        starred, self._starred = self._starred, False
        if word == "u":
            if self._group.into and value is not None:
                self._unicode(value)
            else:
                self._skip = self._group.fallback if self._group.into else 0
            return
        if self._skip:
            self._skip -= 1
            return
        into = self._group.into
        if word in SKIPPED or (starred and word not in STARRED):
            self._flush()
            self._open_skipped(word)
        elif word == "uc":
            self._group.fallback = max(0, min(value or 0, 100)) if value is not None else 1
        elif word == "ud":  # the same text in Unicode
            self._flush()
            self._group.into = self._stack[-2].into if len(self._stack) > 1 else "text"
        elif not into:
            return
        elif word in CHARACTERS:
            self._flush()
            self._add(CHARACTERS[word])
        else:
            self._flush()
            if not (self._destination(word) or self._paragraph(word, value)):
                self._formatting(word, value)

    def _open_skipped(self, word: str) -> None:
        if word == "fldinst" and self._group.into in ("text", "note", "comment", "link"):
            self._group.into = "instruction"
            self._names.pop("instruction", None)
        elif self._group.into != "html" or word == "mhtmltag":
            self._group.into = ""

    def _destination(self, word: str) -> bool:
        group, blocks = self._group, self.blocks
        if group.into == "info" and word != "title":
            return True
        if word == "title" and group.into != "info":
            return False
        if word == "fldrslt":
            found = _LINK.search(self._names.pop("instruction", ""))
            if found and group.into == "text":
                group.into = "link"
                blocks.open_link(found[1])
        elif word == "htmltag":
            group.into = "html" if self._packed else ""
        elif word in DESTINATIONS:
            group.into = DESTINATIONS[word]
            self._open(group.into)
        else:
            return False
        return True

    def _open(self, into: str) -> None:
        blocks = self.blocks
        if into == "note":
            blocks.open_note()
        elif into == "comment":
            blocks.open_comment(self._names.pop("author", "").strip())
        elif into == "marker":
            blocks.open_marker()
        elif into == "shape":
            blocks.end_paragraph()

    def _paragraph(self, word: str, value: int | None) -> bool:
        into = self._group.into
        if word in PARAGRAPH_ENDS:
            self._end_paragraph()
        elif into not in ("text", "shape", "link", "marker"):
            return False
        elif word in CELL_ENDS:
            self._break()
            ends_row, nested = CELL_ENDS[word]
            (self.blocks.end_row if ends_row else self.blocks.end_cell)(nested=nested)
        else:
            return self._define(word, value)
        return True

    def _end_paragraph(self) -> None:
        into = self._group.into
        self._break()
        if self._packed:
            if into == "html" or (into == "text" and not self._group.plain_rtf):
                self.page.append("\n")
        elif into in ("text", "shape"):
            self.blocks.end_paragraph()
        elif into in ("note", "comment", "link"):
            self.blocks.text("\n")

    def _define(self, word: str, value: int | None) -> bool:
        blocks = self.blocks
        if word in ROW_WORDS:
            ROW_WORDS[word](blocks)
        elif word == "itap":
            blocks.in_table = bool(value)
        elif word == "outlinelevel":
            blocks.level = _level(value)
        elif word == "ilvl":
            blocks.depth = max(0, min(value or 0, 8))
        elif word == "s":
            blocks.style_level = self._levels.get(value or 0, 0)
        else:
            return False
        return True

    def _formatting(self, word: str, value: int | None) -> None:
        group = self._group
        if group.into in _STYLES:
            self._define_style(word, value)
        elif group.into == "font":
            self._fonts.define(word, value)
        elif word == "f":
            if group.wide:
                group.wide_font = value or 0
            else:
                group.font = value or 0
        elif word == "af" and group.wide:
            group.wide_font = value or 0
        elif word in ("loch", "hich", "dbch"):
            group.wide = word == "dbch"
        elif word == "plain":
            group.font, group.wide, group.deleted = -1, False, False
        elif word == "deleted":
            group.deleted = value != 0
        elif word == "htmlrtf":
            group.plain_rtf = value != 0
        else:
            self._fonts.set_default(word, value)

    def _define_style(self, word: str, value: int | None) -> None:
        self._group.into = "style"
        if word in ("s", "cs", "ts", "ds"):
            self._style.number = value or 0 if word == "s" else -1
        elif word == "outlinelevel":
            self._style.level = _level(value)


def _level(value: int | None) -> int:
    """Return the level of a heading by its outline level; 0 for body text."""
    return value + 1 if value is not None and 0 <= value < 9 else 0  # noqa: PLR2004 - 9 is body text
