"""RTF: control words to paragraphs, headings, lists and tables (`rtf_blocks`), and HTML that Outlook packs in it."""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.charsets import codec_of
from shared.ingest.parse.readers.guard import escaped
from shared.ingest.parse.readers.reading import FileReading, Part
from shared.ingest.parse.readers.rtf.blocks import Blocks

_TOKEN = re.compile(
    r"\\(?:([a-zA-Z]{1,32})(-?\d{1,10})? ?|'([0-9a-fA-F]{2})|([^a-zA-Z]))|([{}])|[\r\n\0]+|([^\\{}\r\n\0]+)", re.DOTALL
)
_CHARSETS = {
    77: "mac_roman",
    78: "cp932",
    79: "cp949",
    80: "gb18030",
    81: "cp950",
    128: "cp932",
    129: "cp949",
    130: "johab",
    134: "gb18030",
    136: "cp950",
    161: "cp1253",
    162: "cp1254",
    163: "cp1258",
    177: "cp1255",
    178: "cp1256",
    179: "cp1256",
    180: "cp1256",
    181: "cp1255",
    186: "cp1257",
    204: "cp1251",
    222: "cp874",
    238: "cp1250",
    254: "cp437",
    255: "cp850",
}
_SYMBOL = 2
_GREEK = str.maketrans(
    "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprstufcywV\xb7\xa3\xb3\xb4\xb9\xa5\xb1\xae\xde",
    "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρστυφχψως•≤≥\xd7≠∞±→⇒",
)
_CHARACTERS = {
    "tab": "\t",
    "line": "\n",
    "lbr": "\n",
    "emdash": "\u2014",
    "endash": "\u2013",
    "lquote": "\u2018",
    "rquote": "\u2019",
    "ldblquote": "\u201c",
    "rdblquote": "\u201d",
    "bullet": "\u2022",
    "emspace": "\u2003",
    "enspace": "\u2002",
    "qmspace": "\u2005",
    "softline": "\n",
    "zwj": "\u200d",
    "zwnj": "\u200c",
    "~": "\u00a0",
    "_": "-",
}
_SKIPPED = frozenset(
    [
        "colortbl",
        "pict",
        "nonshppict",
        "objdata",
        "list",
        "listlevel",
        "leveltext",
        "levelnumbers",
        "listname",
        "listpicture",
        "fldtitle",
        "objclass",
        "themedata",
        "colorschememapping",
        "generator",
        "xmlnstbl",
        "latentstyles",
        "datastore",
        "listtable",
        "listoverridetable",
        "revtbl",
        "rsidtbl",
        "filetbl",
        "ftnsep",
        "ftnsepc",
        "ftncn",
        "aftnsep",
        "aftnsepc",
        "aftncn",
        "fldinst",
        "bkmkstart",
        "bkmkend",
        "sp",
        "shprslt",
        "nonesttables",
        "pn",
        "pntxta",
        "pntxtb",
        "atnid",
        "atnref",
        "atndate",
        "atrfstart",
        "atrfend",
        "atnparent",
        "xe",
        "tc",
        "txe",
        "rxe",
        "tcn",
        "private",
        "blipuid",
        "mmathPr",
        "mmathPict",
        "docvar",
        "wgrffmtfilter",
        "pgptbl",
        "mhtmltag",
        "userprops",
        "password",
        "passwordhash",
        "fontemb",
        "falt",
        "panose",
        "template",
        "datafield",
        "formfield",
        "factoidname",
        "protusertbl",
    ]
)
_STARRED = frozenset(
    [
        "shpinst",
        "shptxt",
        "annotation",
        "atnauthor",
        "nesttableprops",
        "ud",
        "htmltag",
        "moMath",
        "moMathPara",
        "mr",
        "mt",
        "mmath",
        "oMath",
        "listtext",
        "pntext",
        "cs",
        "ts",
        "tsrowd",
        "fldrslt",
        "footnote",
        "stylesheet",
        "result",
        "background",
        "dptxbxtext",
    ]
)
"""Groups marked as optional (`*`) that are read; all others are skipped."""

_SHOWN = frozenset(("text", "note", "comment", "marker", "link", "shape"))
"""Groups whose text is text of the document."""

_NAMES = frozenset(("style", "title", "instruction", "author"))
_DESTINATIONS = {
    "fonttbl": "font",
    "stylesheet": "styles",
    "info": "info",
    "title": "title",
    "footnote": "note",
    "annotation": "comment",
    "atnauthor": "author",
    "listtext": "marker",
    "pntext": "marker",
    "shptxt": "shape",
    "dptxbxtext": "shape",
    "upr": "",
} | dict.fromkeys(("header", "headerl", "headerr", "headerf", "footer", "footerl", "footerr", "footerf"), "margin")
"""Groups of another use, and the word for it here."""

_PARAGRAPH_ENDS = frozenset(("par", "sect", "page", "column"))
_CELL_ENDS = {"cell": (False, False), "nestcell": (False, True), "row": (True, False), "nestrow": (True, True)}
_ROW_WORDS: Mapping[str, Callable[[Blocks], None]] = {
    "trowd": Blocks.start_row,
    "cellx": Blocks.define_cell,
    "clvmrg": lambda blocks: blocks.merge(vertical=True),
    "clmrg": lambda blocks: blocks.merge(vertical=False),
    "pard": Blocks.reset,
    "intbl": Blocks.enter_table,
}
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
class _Font:
    charset: int | None = None
    codepage: str | None = None
    name: str = ""


@dataclass(slots=True)
class _Style:
    number: int = 0
    level: int = 0


def read(content: bytes) -> FileReading:
    """Return the text of an RTF file."""
    if not content.lstrip().startswith(b"{\\rt"):
        raise Unreadable("the RTF file is damaged and cannot be read; create or download it again")
    reader = _Rtf(content)
    reader.run()
    title = reader.title
    if not (text := reader.blocks.markdown()):  # forms have all of their text in the header
        return FileReading((Part(escaped("".join(reader.margins).strip())),), title)
    return FileReading((Part(text, "".join(reader.raw)),), title)


def packed_html(content: bytes) -> str | None:
    """Return the HTML that Outlook has packed into RTF (MS-OXRTFEX); None if the RTF contains none."""
    if b"\\fromhtml" not in content[:4096]:
        return None
    reader = _Rtf(content, packed=True)
    reader.run()
    return "".join(reader.page)


@dataclass(slots=True)
class _Rtf:
    content: bytes
    packed: bool = False
    blocks: Blocks = field(default_factory=Blocks)
    raw: list[str] = field(default_factory=list)
    page: list[str] = field(default_factory=list)
    margins: list[str] = field(default_factory=list)
    _names: dict[str, str] = field(default_factory=dict)
    _codec: str = "cp1252"
    _fonts: dict[int, _Font] = field(default_factory=dict)
    _codecs: dict[int, str] = field(default_factory=dict)
    _levels: dict[int, int] = field(default_factory=dict)
    _group: _RtfGroup = field(default_factory=_RtfGroup)
    _stack: list[_RtfGroup] = field(default_factory=list)
    _waiting: bytearray = field(default_factory=bytearray)
    _skip: int = 0
    _starred: bool = False
    _high: int = 0
    _default_font: int = 0
    _style: _Style = field(default_factory=_Style)
    _font_number: int = -1

    @property
    def title(self) -> str | None:
        return " ".join(self._names.get("title", "").split()) or None

    def run(self) -> None:
        """Read the whole file; groups left open at its end are closed."""
        text, at = self.content.decode("latin-1"), 0
        match = _TOKEN.match
        while found := match(text, at) or match(text, at + 1):
            at = found.end()
            word, number, byte, symbol, brace, letters = found.groups()
            if letters is not None:
                self._letters(letters)
            elif byte is not None:
                self._byte(int(byte, 16))
            elif brace is not None:
                self._brace(brace)
            elif symbol is not None:
                self._symbol(symbol)
            elif word is not None:
                value = int(number) if number else None
                if word == "bin":
                    at += max(0, value or 0)
                else:
                    self._word(word, value)
        self._flush()
        self.blocks.finish()

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
        number = self._default_font if number < 0 else number
        font = self._fonts.get(number)
        if font and font.charset == _SYMBOL and "symbol" in font.name.lower() and group.into == "text":
            self._text(data.decode("latin-1").translate(_GREEK))
        elif data.isascii():
            self._text(data.decode("ascii"))
        else:
            self._text(self._decoded(data, self._font_codec(number)))

    def _decoded(self, data: bytes, codec: str) -> str:
        for name in dict.fromkeys((codec, self._codec)):
            try:
                return data.decode(name)
            except UnicodeDecodeError:
                continue
        return data.decode(codec, "replace")

    def _font_codec(self, number: int) -> str:
        if self._group.into not in ("text", "html") and number not in self._fonts:
            return self._codec
        if number not in self._codecs:
            self._codecs[number] = self._codec_of_font(self._fonts.get(number))
        return self._codecs[number]

    def _codec_of_font(self, font: _Font | None) -> str:
        if font is None or font.charset in (None, 1):
            return (font and font.codepage) or self._codec
        if font.codepage:
            return font.codepage
        if font.charset in _CHARSETS:
            return _CHARSETS[font.charset]
        # Programs other than Word declare no charset of a font, and write all fonts in the file's code page.
        stated = {_CHARSETS.get(other.charset or 0) for other in self._fonts.values()}
        return "cp1252" if self._codec in stated else self._codec

    def _unicode(self, value: int) -> None:
        self._flush()
        code = value & 0xFFFF if value < 0x10000 else value  # noqa: PLR2004 - the end of 16 bits
        self._skip = self._group.fallback
        if 0xD800 <= code < 0xDC00:  # noqa: PLR2004 - the first half of a pair
            self._high = code
            return
        if 0xDC00 <= code < 0xE000:  # noqa: PLR2004 - the second half
            if self._high:
                self._text(chr(0x10000 + ((self._high - 0xD800) << 10) + code - 0xDC00))
            self._high = 0
            return
        if 0xF020 <= code <= 0xF0FF:  # noqa: PLR2004 - a letter of a symbol font
            self._text(chr(code & 0xFF).translate(_GREEK))
        elif 0 < code < 0x110000:  # noqa: PLR2004 - the end of Unicode
            self._text(chr(code))

    def _text(self, text: str) -> None:
        group = self._group
        into = group.into
        if into == "font" and self._font_number >= 0:
            self._fonts[self._font_number].name += text
        elif into in _NAMES:
            self._names[into] = (self._names.get(into, "") + text)[:4096]
        elif group.deleted:
            return
        elif self.packed:
            self._page_text(text)
        elif into == "margin":
            self.margins.append(text)
        elif into in _SHOWN:
            self.raw.append(text)
            self.blocks.text(text)

    def _page_text(self, text: str) -> None:
        if self._group.into == "html":
            self.page.append(text)
        elif self._group.into == "text" and not self._group.plain_rtf:
            self.page.append(html.escape(text, quote=False))

    def _break(self, mark: str = "\n") -> None:
        self._flush()
        if self._group.into in _SHOWN:
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
        elif symbol in _CHARACTERS:
            self._flush()
            self._text(_CHARACTERS[symbol])
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
        if word in _SKIPPED or (starred and word not in _STARRED):
            self._flush()
            self._open_skipped(word)
        elif word == "uc":
            self._group.fallback = max(0, min(value or 0, 100)) if value is not None else 1
        elif not self._group.into:
            return
        elif word in _CHARACTERS:
            self._flush()
            self._text(_CHARACTERS[word])
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
        elif word == "ud":
            group.into = self._stack[-2].into if len(self._stack) > 1 else "text"
        elif word == "htmltag":
            group.into = "html" if self.packed else ""
        elif word in _DESTINATIONS:
            group.into = _DESTINATIONS[word]
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
        if word in _PARAGRAPH_ENDS:
            self._end_paragraph()
        elif into not in ("text", "shape", "link", "marker"):
            return False
        elif word in _CELL_ENDS:
            self._break()
            ends_row, nested = _CELL_ENDS[word]
            (self.blocks.end_row if ends_row else self.blocks.end_cell)(nested=nested)
        else:
            return self._define(word, value)
        return True

    def _end_paragraph(self) -> None:
        into = self._group.into
        self._break()
        if self.packed:
            if into == "html" or (into == "text" and not self._group.plain_rtf):
                self.page.append("\n")
        elif into in ("text", "shape"):
            self.blocks.end_paragraph()
        elif into in ("note", "comment", "link"):
            self.blocks.text("\n")

    def _define(self, word: str, value: int | None) -> bool:
        blocks = self.blocks
        if word in _ROW_WORDS:
            _ROW_WORDS[word](blocks)
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
        if group.into in ("styles", "style"):
            self._define_style(word, value)
        elif group.into == "font":
            self._define_font(word, value)
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
            self._document(word, value)

    def _document(self, word: str, value: int | None) -> None:
        if word == "ansicpg":
            self._codec = codec_of(f"cp{value}") or self._codec
        elif word == "deff":
            self._default_font = value or 0
        elif word in ("mac", "pc", "pca"):
            self._codec = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}[word]

    def _define_font(self, word: str, value: int | None) -> None:
        if word == "f":
            self._font_number = value or 0
            self._fonts[self._font_number] = _Font()
        elif self._font_number in self._fonts:
            font = self._fonts[self._font_number]
            if word == "fcharset":
                font.charset = value
            elif word == "cpg" and value:
                font.codepage = codec_of(f"cp{value}")

    def _define_style(self, word: str, value: int | None) -> None:
        self._group.into = "style"
        if word in ("s", "cs", "ts", "ds"):
            self._style.number = value or 0 if word == "s" else -1
        elif word == "outlinelevel":
            self._style.level = _level(value)


def _level(value: int | None) -> int:
    """Return the level of a heading by its outline level; 0 for body text."""
    return value + 1 if value is not None and 0 <= value < 9 else 0  # noqa: PLR2004 - 9 is body text
