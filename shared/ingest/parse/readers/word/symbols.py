"""Characters of symbol fonts, which a file states by their position in the font."""

from __future__ import annotations

_FIRST, _LAST = 0xF000, 0xF0FF

_SYMBOL_LOW = " !∀#∃%&∋()∗+,−./0123456789:;<=>?≅ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ{|}∼"  # noqa: RUF001
_SYMBOL_HIGH = "€ϒ′≤⁄∞ƒ♣♦♥♠↔←↑→↓°±″≥×∝∂•÷≠≡≈…⏐⎯↵ℵℑℜ℘⊗⊕∅∩∪⊃⊇⊄⊂⊆∈∉∠∇®©™∏√⋅¬∧∨⇔⇐⇑⇒⇓◊〈®©™∑⎛⎜⎝⎡⎢⎣⎧⎨⎩⎪ 〉∫⌠⎮⌡⎞⎟⎠⎤⎥⎦⎫⎬⎭"  # noqa: RUF001
_SYMBOL = {
    **dict(enumerate(_SYMBOL_LOW, 0x20)),
    **dict(enumerate(_SYMBOL_HIGH, 0xA0)),
}
_WINGDINGS = {
    0x21: "✏", 0x22: "✂", 0x28: "☎", 0x2A: "✉", 0x36: "⌛", 0x3F: "✍", 0x45: "☜", 0x46: "☞", 0x4A: "☺", 0x4C: "☹",
    0x6C: "●", 0x6D: "❍", 0x6E: "■", 0x6F: "□", 0x71: "❑", 0x72: "❒", 0x73: "⬧", 0x74: "⧫", 0x75: "◆", 0x76: "❖",
    0x77: "⬥", 0x78: "☒", 0x9F: "•", 0xA1: "○", 0xA7: "▪", 0xA8: "☐", 0xAB: "★", 0xD8: "➢", 0xDF: "←", 0xE0: "→",
    0xE1: "↑", 0xE2: "↓", 0xE7: "←", 0xE8: "→", 0xE9: "↑", 0xEA: "↓", 0xEF: "⇦", 0xF0: "⇨", 0xF1: "⇧", 0xF2: "⇩",
    0xF3: "⬄", 0xFB: "✗", 0xFC: "✓", 0xFD: "☒", 0xFE: "☑",
    **{0x80 + digit: "⓪①②③④⑤⑥⑦⑧⑨⑩"[digit] for digit in range(11)},
    **{0x8B + digit: "⓿❶❷❸❹❺❻❼❽❾❿"[digit] for digit in range(11)},
}  # fmt: skip
_WINGDINGS_2 = {0x4F: "✗", 0x50: "✓", 0x51: "☒", 0x52: "☑", 0x53: "☒", 0x54: "☒", 0x97: "●", 0xA3: "☐", 0xA2: "■"}
_WINGDINGS_3 = {0x66: "←", 0x67: "→", 0x68: "↑", 0x69: "↓", 0x7D: "▶", 0x7C: "◀", 0x70: "▲", 0x71: "▼"}
_WEBDINGS = {0x61: "✓", 0x63: "□", 0x67: "■", 0x72: "✗", 0x34: "▶"}
_FONTS = {
    "symbol": _SYMBOL,
    "wingdings": _WINGDINGS,
    "wingdings 2": _WINGDINGS_2,
    "wingdings 3": _WINGDINGS_3,
    "webdings": _WEBDINGS,
}
_UNKNOWN = "▪"


def symbol(font: str, code: int) -> str:
    """Return the character at a position of a font; a small square if a symbol is not known."""
    known = _FONTS.get(font.strip().lower())
    if known is not None and (code < 0x100 or _FIRST <= code <= _LAST):  # noqa: PLR2004 - one byte
        return known.get(code & 0xFF, _UNKNOWN)
    if 0xE000 <= code <= 0xF8FF:  # noqa: PLR2004 - Unicode's private area: its meaning depends on the font
        return _UNKNOWN
    return chr(code) if 0x20 <= code < 0x110000 and not 0xD800 <= code < 0xE000 else ""  # noqa: PLR2004


def without_private(text: str, font: str) -> str:
    """Return text whose private characters, positions of a symbol font, are replaced by their symbols."""
    return "".join(symbol(font or "symbol", ord(char)) if _FIRST <= ord(char) <= _LAST else char for char in text)
