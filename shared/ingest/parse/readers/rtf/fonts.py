"""Fonts of an RTF file: the charset in which the text of each is written, and symbol fonts."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ingest.parse.readers.charsets import codec_of

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
"""Charsets of fonts (`fcharset`), as Python calls them."""

_SYMBOL = 2
_GREEK = str.maketrans(
    "ABGDEZHQIKLMNXOPRSTUFCYWabgdezhqiklmnxoprstufcywV\xb7\xa3\xb3\xb4\xb9\xa5\xb1\xae\xde",
    "ΑΒΓΔΕΖΗΘΙΚΛΜΝΞΟΠΡΣΤΥΦΧΨΩαβγδεζηθικλμνξοπρστυφχψως•≤≥\xd7≠∞±→⇒",
)
_PROGRAM_CODECS = {"mac": "mac_roman", "pc": "cp437", "pca": "cp850"}


@dataclass(slots=True)
class _Font:
    charset: int | None = None
    codepage: str | None = None
    name: str = ""


class RtfFonts:
    """The fonts of a file, and its code page."""

    def __init__(self) -> None:
        self._codec = "cp1252"
        self._default = 0
        self._fonts: dict[int, _Font] = {}
        self._codecs: dict[int, str] = {}  # of fonts with text
        self._defined = -1

    def define(self, word: str, value: int | None) -> None:
        """Read a control word of the table of fonts."""
        if word == "f":
            self._defined = value or 0
            self._fonts[self._defined] = _Font()
        elif self._defined in self._fonts:
            font = self._fonts[self._defined]
            if word == "fcharset":
                font.charset = value
            elif word == "cpg" and value:
                font.codepage = codec_of(f"cp{value}")

    def add_name(self, text: str) -> None:
        """Append text to the name of the font that was defined last."""
        if self._defined >= 0:
            self._fonts[self._defined].name += text

    def set_default(self, word: str, value: int | None) -> None:
        """Read a control word that states the code page or the default font of the file."""
        if word == "ansicpg":
            self._codec = codec_of(f"cp{value}") or self._codec
        elif word == "deff":
            self._default = value or 0
        elif word in _PROGRAM_CODECS:
            self._codec = _PROGRAM_CODECS[word]

    def text(self, data: bytes, number: int, *, is_body: bool, is_name: bool) -> str:
        """Return the text of bytes that are written in a font.

        Args:
            data: bytes between control words.
            number: number of the font; negative for the default one.
            is_body: whether they are text of the body, which a symbol font shows as symbols.
            is_name: whether they are a name in a table, which has the code page of the file unless the font is known.
        """
        number = self._default if number < 0 else number
        font = self._fonts.get(number)
        if is_body and font and font.charset == _SYMBOL and "symbol" in font.name.lower():
            return greek(data.decode("latin-1"))
        if data.isascii():
            return data.decode("ascii")
        return self._decoded(data, self._codec if is_name and font is None else self._codec_of(number))

    def _decoded(self, data: bytes, codec: str) -> str:
        for name in dict.fromkeys((codec, self._codec)):
            try:
                return data.decode(name)
            except UnicodeDecodeError:
                continue
        return data.decode(codec, "replace")

    def _codec_of(self, number: int) -> str:
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


def greek(text: str) -> str:
    """Return the letters that a symbol font shows for characters."""
    return text.translate(_GREEK)
