"""Decoding of text with a declared charset that may be an alias, too narrow, or wrong."""

from __future__ import annotations

import codecs
import re

from shared.domain.errors import Unreadable
from shared.ingest.parse.text import clean
from shared.ingest.parse.text import decode as decode_guessed

MOST_DAMAGED = 0.01
"""A declared charset is right if it leaves at most this share of the characters undecoded."""

MANY_BYTES = 12
"""So many bytes beyond ASCII are valid UTF-8 by chance in one of a million texts of another charset."""

_WIDER = {
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
    "johab": "johab",
    "shift_jis": "cp932",
    "big5": "cp950",
    "latin_1": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "ascii": "utf-8",
}
"""Programs declare the smaller charset and write the larger one."""

_ALIASES = {
    "ks_c_5601-1987": "cp949",
    "ks_c_5601": "cp949",
    "ksc5601": "cp949",
    "ks_c_5601-1989": "cp949",
    "windows-949": "cp949",
    "windows-874": "cp874",
    "windows-932": "cp932",
    "windows-936": "gb18030",
    "windows-950": "cp950",
    "windows-31j": "cp932",
    "tis-620": "cp874",
    "iso-8859-11": "cp874",
    "x-sjis": "cp932",
    "x-gbk": "gb18030",
    "gb_2312-80": "gb18030",
    "cn-gb": "gb18030",
    "cn-big5": "cp950",
    "x-big5": "cp950",
    "x-euc-jp": "euc_jp",
    "x-euc-kr": "cp949",
    "unicode-1-1-utf-7": "utf-7",
    "unicode-1-1-utf-8": "utf-8",
    "utf8mb4": "utf-8",
    "iso-8859-8-i": "iso8859-8",
    "iso-8859-8-e": "iso8859-8",
    "iso-8859-6-i": "iso8859-6",
    "iso-8859-6-e": "iso8859-6",
    "koi8": "koi8-r",
    "koi": "koi8-r",
    "x-koi8-r": "koi8-r",
    "macintosh": "mac-roman",
    "x-mac-roman": "mac-roman",
    "x-mac-cyrillic": "mac-cyrillic",
    "x-mac-greek": "mac-greek",
    "x-mac-turkish": "mac-turkish",
    "x-mac-ce": "mac-latin2",
    "x-mac-centraleurroman": "mac-latin2",
    "unicode": "utf-16",
    "iso-10646-ucs-2": "utf-16",
    "iso-10646-ucs-4": "utf-32",
}
_VARIANTS = {
    "iso2022_jp": ("iso2022_jp_ext", "iso2022_jp_2004", "iso2022_jp_2"),
    "cp950": ("big5hkscs",),
    "cp932": ("shift_jis_2004",),
    "euc_jp": ("euc_jis_2004",),
}
_OFTEN_WRONG = re.compile(r"cp125\d|iso8859-\d+|cp874|koi8-[ru]|mac-roman")
_NO_CHARSETS = frozenset(
    ("idna", "punycode", "undefined", "unicode_escape", "raw_unicode_escape", "raw-unicode-escape")
)
_STATEFUL = re.compile(r"iso2022|hz|utf-?(?:7|16|32)|cp(?:037|273|424|500|875|1026|1140)$")
_ODD = re.compile(r"[^a-z0-9._+-]")


def decode_text(data: bytes, charset: str | None) -> str:
    """Return the text of bytes with this declared charset; a declaration that cannot be right is ignored."""
    codec = codec_of(charset)
    if codec is None or codec == "utf-8":
        return _guess(data)
    if not _STATEFUL.match(codec) and (data.isascii() or (_is_doubtful(codec, data) and _is_utf8(data))):
        return clean(data.decode("utf-8"))
    if codec.startswith(("utf-16", "utf-32")):  # the line end of the mail may follow
        data = data[: len(data) // (int(codec[4:6]) // 8) * (int(codec[4:6]) // 8)]
    if codec in ("utf-16", "utf-32"):
        return _wide(data, codec)
    for name in (codec, *_VARIANTS.get(codec, ())):
        try:
            return clean(data.decode(name))
        except (UnicodeError, ValueError):
            continue
    text = data.decode(codec, "replace")
    if _is_utf8(data) or text.count("\ufffd") > max(1, len(text) * MOST_DAMAGED):
        guessed = _guess(data)
        text = guessed if guessed.count("\ufffd") < text.count("\ufffd") else text
    return clean(text)


def codec_of(charset: str | None) -> str | None:
    """Return the codec of a declared charset; None if it is unknown, or not a charset."""
    name = _ODD.sub("", (charset or "").strip().lower())[:40]
    if re.fullmatch(r"(?:cp|win|windows|ibm|ms)[-_]?\d{3,5}", name):
        number = re.sub(r"\D", "", name)
        name = _ALIASES.get(f"windows-{number}", f"cp{number.lstrip('0') if number != '037' else number}")
    try:
        codec = codecs.lookup(_ALIASES.get(name, name)) if name else None
    except (LookupError, ValueError):
        return None
    if codec is None or codec.name in _NO_CHARSETS or not codec._is_text_encoding:  # noqa: SLF001 - no public way
        return None
    return _WIDER.get(codec.name, codec.name)


def _is_doubtful(codec: str, data: bytes) -> bool:
    """Return whether bytes that are valid UTF-8 are more probably UTF-8 than text of the declared charset.

    Single-byte charsets decode any bytes. A few letters of an East Asian charset may be valid UTF-8 by chance.
    """
    return bool(_OFTEN_WRONG.fullmatch(codec)) or sum(byte >= 0x80 for byte in data[:4096]) >= MANY_BYTES  # noqa: PLR2004


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _wide(data: bytes, codec: str) -> str:
    """Return UTF-16 or UTF-32: by its byte order mark, else with the byte order that gives fewer odd characters."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)):
        return clean(data.decode(codec, "replace"))
    texts = [data.decode(f"{codec}-{order}", "replace") for order in ("be", "le")]
    return clean(min(texts, key=_unprintable))


def _unprintable(text: str) -> int:
    sample = text[:4096]
    return sum(not char.isprintable() and char not in "\n\r\t" for char in sample) - sum(map(str.isascii, sample))


def _guess(data: bytes) -> str:
    try:
        return clean(data.decode("utf-8"))
    except UnicodeDecodeError:
        pass
    try:
        return decode_guessed(data)
    except Unreadable:
        return clean(data.decode("cp1252", "replace"))


_PAGES = {
    20127: "ascii",
    20866: "koi8-r",
    21866: "koi8-u",
    10000: "mac-roman",
    10006: "mac-greek",
    10007: "mac-cyrillic",
    10029: "mac-latin2",
    10081: "mac-turkish",
    20932: "euc_jp",
    50220: "iso2022_jp",
    50221: "iso2022_jp",
    50222: "iso2022_jp",
    50225: "iso2022_kr",
    51932: "euc_jp",
    51936: "gb18030",
    51949: "cp949",
    52936: "hz",
    54936: "gb18030",
    65000: "utf-7",
    65001: "utf-8",
    1200: "utf-16-le",
    1201: "utf-16-be",
}


def codec_of_page(page: int | None) -> str | None:
    """Return the codec of a Windows code page; None if it is unknown."""
    if page is None:
        return None
    if 28591 <= page <= 28606:  # noqa: PLR2004 - ISO 8859-1 to 16
        return codec_of(f"iso8859-{page - 28590}")
    return codec_of(_PAGES.get(page, f"cp{page}"))
