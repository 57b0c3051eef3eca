"""Decoding of bytes that are text."""

from __future__ import annotations

import codecs
import re
from collections.abc import Collection

import charset_normalizer

from shared.domain.errors import Unreadable
from shared.domain.text.words import most_stop_words

SAMPLE_BYTES = 4096
BINARY_SHARE = 0.1
"""Maximum share of control characters in a text; damaged texts contain a few."""

FEW_BYTES = 2
"""So few control characters prove nothing, even in a short file."""

WIDE_SHARE = 0.4
"""Every other byte of UTF-16 text in a European language is NUL, and of this many at the least."""

GUESSED_BYTES = 1 << 16
"""So many bytes identify the encoding as well as the whole file does."""

LEAST_BYTES = 16
"""Fewer bytes beyond ASCII are words in several encodings."""

_LATIN = ("cp1252", "cp1250", "cp1254", "cp1257", "iso8859_2", "cp1258")
"""The encodings of Latin letters, the commonest first: the detector confuses them, and the commonest words do not."""

_LEGACY = (
    *_LATIN,
    *("cp1251", "cp1253", "cp1255", "cp1256", "cp874", "iso8859_5", "iso8859_7", "koi8_r", "koi8_u", "cp866"),
    *("gb18030", "big5", "cp932", "euc_jp", "cp949", "iso2022_jp"),
)
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_NO_CHARSETS = ("punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined")
"""Text codecs of Python that no file is written in; decoding by the first takes quadratic time."""

_PADDING = bytes(16)  # UTF-16 and UTF-32 start with up to three
_CONTROLS = bytes(code for code in range(32) if code not in b"\t\n\v\f\r\x1b") + b"\x7f"
_BEYOND_ASCII = bytes(range(0x80, 0x100))
_SEQUENCE_STARTS = bytes(range(0xC2, 0x100))  # of UTF-8
_DECLARED = re.compile(rb"""(?:charset|encoding)\s{0,3}=\s{0,3}["']?([A-Za-z0-9_.:-]{2,40})""")


def unpadded(data: bytes) -> bytes:
    """Return the content of a file without NUL at its start, which a log has that was emptied while it was open."""
    return data.lstrip(b"\0") if data.startswith(_PADDING) else data


def is_text(sample: bytes) -> bool:
    """Return whether the first bytes of a file are probably text, in any encoding."""
    if _mark(sample) or _wide(sample):
        return True
    return _count(sample, _CONTROLS) <= max(FEW_BYTES, len(sample) * BINARY_SHARE)


def decode(data: bytes, *, charset: str | None = None) -> str:
    """Return the text of a file: by its byte order mark, else UTF-8, else the declared charset, else a guess.

    Line ends become line feeds, NUL characters are removed, and invalid bytes become U+FFFD, because text with a few
    damaged characters is still useful.

    Args:
        data: content of the file.
        charset: charset declared by the sender; it has precedence over a page's own `charset=` or `encoding=`.

    Raises:
        Unreadable: it is not text.
    """
    data = unpadded(data)
    if not is_text(data[:SAMPLE_BYTES]):
        raise Unreadable("the file is not text and has no supported format; convert it to PDF, DOCX or text")
    return clean(_decode(data, charset))


def _count(data: bytes, codes: bytes) -> int:
    """Return how many bytes of data are one of these codes."""
    return len(data) - len(data.translate(None, codes))


def unicode_codec(data: bytes) -> str | None:
    """Return the codec of text with a byte order mark, or in UTF-16 without one; None for other text."""
    return _mark(data) or _wide(data[:SAMPLE_BYTES])


def clean(text: str) -> str:
    """Return text as parsing expects it: a line feed ends a line, and every character is valid."""
    text = text.removeprefix("\ufeff")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    text = text.replace("\0", "")
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def _decode(data: bytes, charset: str | None) -> str:
    if encoding := unicode_codec(data):
        return data.decode(encoding, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        return _decode_other(data, charset)


def _decode_other(data: bytes, charset: str | None) -> str:
    declared = _DECLARED.search(data[:1024])
    for name in (charset, declared and declared[1].decode("ascii")):
        if name and (encoding := _codec(name)):
            return data.decode(encoding, "replace")
    lenient = data.decode("utf-8", "replace")
    beyond_ascii = _count(data[: 1 << 20], _SEQUENCE_STARTS)
    damaged = lenient[: 1 << 20].count("\ufffd")
    if damaged * 2 < beyond_ascii:
        return lenient
    return data.decode(_guessed(data), "replace")


def _guessed(data: bytes) -> str:
    """Return the encoding in which the bytes form words; an encoding of Latin letters if they are few."""
    sample = data[:GUESSED_BYTES]
    sample = sample[: sample.rfind(b"\n") + 1] or sample  # cut between characters
    possible: Collection[str] = _LATIN
    if _count(sample, _BEYOND_ASCII) >= LEAST_BYTES:
        guesses = charset_normalizer.from_bytes(sample, cp_isolation=list(_LEGACY))
        if (best := guesses.best()) and best.encoding not in _LATIN:
            return best.encoding
        possible = {encoding for guess in guesses for encoding in guess.could_be_from_charset}
    likely = [encoding for encoding in _LATIN if encoding in possible] or _LATIN
    return max(likely, key=lambda encoding: most_stop_words(sample.decode(encoding, "replace")))


def _codec(name: str) -> str | None:
    """Return the codec of a declared charset, if it is a text codec other than UTF-8, which was tried already."""
    try:
        codec = codecs.lookup(name)
    except LookupError:
        return None
    is_charset = codec._is_text_encoding and codec.name.replace("-", "_") not in _NO_CHARSETS  # noqa: SLF001 - no public way
    return codec.name if is_charset and codec.name != "utf-8" else None


def _mark(data: bytes) -> str | None:
    return next((encoding for mark, encoding in _MARKS if data.startswith(mark)), None)


def _wide(sample: bytes) -> str | None:
    """Return the codec of UTF-16 text without a byte order mark; None for other text."""
    half = len(sample) // 2
    if half < 2:  # noqa: PLR2004 - two characters prove nothing
        return None
    if sample[1::2].count(0) >= half * WIDE_SHARE > sample[::2].count(0):
        return "utf-16-le"
    return "utf-16-be" if sample[::2].count(0) >= half * WIDE_SHARE > sample[1::2].count(0) else None
