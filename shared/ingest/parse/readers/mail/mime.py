"""The parts of an Internet message: headers, boundaries and transfer encodings, with all the faults of real mail.

The parser of the standard library recurses on nested parts, and reads line by line.
"""

from __future__ import annotations

import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from urllib.parse import unquote_to_bytes

from shared.ingest.parse.readers.charsets import decode_text

MAX_DEPTH = 25
"""Parts that are nested deeper are not read."""

MAX_PARTS = 5_000
"""A message with more parts is not mail; later parts are not read."""

FULL_LINE = 60
"""Programs write lines of base64 with 60, 64, 72 or 76 letters."""

MOST_JUNK = 0.9
"""Base64 with blanks has at least this share of its own letters; other text with blanks is not encoded."""

_HEADER_BYTES = 64 * 1024
_HEADER = re.compile(rb"([!-9;-~]{1,200})[ \t]*:[ \t]*")
_FOLD = re.compile(r"\r?\n|\r")
_WORD = re.compile(r"=\?([^?*\s]{0,60})(?:\*[^?\s]{0,40})?\?([bBqQ])\?(.{0,4000}?)\?=", re.DOTALL)
_GAP = re.compile(r"(\?=)\s+(?==\?)")
_PARAMETER = re.compile(r';\s*([^\s=;"]{1,80})\s*=\s*(?:"((?:[^"\\]|\\.)*)"?|([^;]*))', re.DOTALL)
_GUESSED_BOUNDARY = re.compile(
    rb"^--([^\s-][^\r\n]{0,200}|-{2,}[^\s-][^\r\n]{0,200}?)[ \t]*\r?\n[A-Za-z-]{3,40}:", re.MULTILINE
)
_BASE64_LINE = re.compile(rb"[A-Za-z0-9+/_-]+={0,2}")
_NOT_BASE64 = re.compile(rb"[^A-Za-z0-9+/=]")


@dataclass(slots=True)
class MimePart:
    """A part of a message, or a message.

    Args:
        headers: raw values by lower-case name, the first of each name.
        body: bytes after the headers.
        kind: media type in lower case, without parameters.
        parts: the parts of a multipart.
        recoded: whether the message was decoded to UTF-8 as a whole, so that declared charsets are wrong.
    """

    headers: dict[str, bytes]
    body: bytes
    kind: str = "text/plain"
    parameters: dict[str, str] = field(default_factory=dict)
    parts: list[MimePart] = field(default_factory=list)
    recoded: bool = False

    @property
    def disposition(self) -> str:
        return self.header("content-disposition").partition(";")[0].strip().lower()

    @property
    def filename(self) -> str:
        """The name of an attachment, without folders; empty if it has none."""
        disposition = parameters(self.header("content-disposition", decoded=False))
        name = disposition.get("filename") or self.parameters.get("name") or ""
        return " ".join(re.split(r"[/\\]", decode_words(name))[-1].split())[:200]

    @property
    def charset(self) -> str | None:
        return self.parameters.get("charset")

    def header(self, name: str, *, decoded: bool = True) -> str:
        raw = self.headers.get(name, b"")
        text = raw.decode("ascii") if raw.isascii() else _header_text(raw, "utf-8" if self.recoded else self.charset)
        return " ".join(decode_words(text).split()) if decoded else _FOLD.sub("", text)

    @property
    def content(self) -> bytes:
        """The body without its transfer encoding."""
        return decode_body(self.body, self.encoding)

    @property
    def encoding(self) -> str:
        return re.sub(r'[\s"]', "", self.header("content-transfer-encoding").partition(";")[0]).lower()

    @property
    def text(self) -> str:
        """The body as text."""
        literal = self.encoding not in ("base64", "quoted-printable")
        return decode_text(self.content, "utf-8" if self.recoded and literal else self.charset)


def _header_text(raw: bytes, charset: str | None) -> str:
    """Return a header with bytes beyond ASCII: UTF-8 (RFC 6532), else in the charset of the body."""
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError:
        return decode_text(raw, charset)


def parse(message: bytes, *, recoded: bool = False) -> tuple[MimePart, bool]:
    """Return a message with all of its parts, and whether all parts could be read."""
    root = _split(message, "text/plain", recoded=recoded)
    waiting, count, complete = [(root, 0)], 1, True
    while waiting:
        part, depth = waiting.pop()
        if not part.kind.startswith("multipart/"):
            continue
        if depth >= MAX_DEPTH:
            complete = False
            continue
        inside = "message/rfc822" if part.kind == "multipart/digest" else "text/plain"
        for piece in _pieces(part):
            if count >= MAX_PARTS:
                complete = False
                break
            part.parts.append(_split(piece, inside, recoded=recoded))
            count += 1
        if not part.parts:
            part.kind = "text/plain"
        waiting += [(child, depth + 1) for child in part.parts]
    return root, complete


def _split(message: bytes, default: str, *, recoded: bool) -> MimePart:
    """Return a part whose own parts are not divided yet."""
    headers, body = _headers(message)
    part = MimePart(headers, body, recoded=recoded)
    stated = part.header("content-type", decoded=False)
    kind = re.sub(r"[\s\"']", "", stated.partition(";")[0]).lower()
    part.kind = kind if kind.count("/") == 1 else {"text": "text/plain", "html": "text/html"}.get(kind, default)
    part.parameters = parameters(stated)
    return part


def _headers(message: bytes) -> tuple[dict[str, bytes], bytes]:
    headers: dict[str, bytes] = {}
    at, name, value = 0, "", list[bytes]()
    while at < len(message):
        end = message.find(b"\n", at)
        end = len(message) if end < 0 else end
        line = message[at:end].rstrip(b"\r")
        if not line:
            at = end + 1
            break
        if line[:1] in b" \t" and name:
            value.append(line)
        elif found := _HEADER.match(line):
            _keep(headers, name, value)
            name, value = found[1].decode("ascii").lower(), [line[found.end() :]]
        elif not headers and not name and line.startswith(b">From "):
            pass
        else:
            break
        at = end + 1
    _keep(headers, name, value)
    return headers, message[at:]


def _keep(headers: dict[str, bytes], name: str, value: list[bytes]) -> None:
    if name and not headers.get(name, b"").strip():
        headers[name] = b"\n".join(value)[:_HEADER_BYTES]


def _pieces(part: MimePart) -> Iterator[bytes]:
    body = decode_body(part.body, part.encoding) if part.encoding in ("base64", "quoted-printable") else part.body
    boundary = part.parameters.get("boundary", "").encode("utf-8", "replace").rstrip()
    lines = list(_delimiters(boundary, body)) if boundary else []
    if not lines and (found := _GUESSED_BOUNDARY.search(body)):
        lines = list(_delimiters(found[1], body))
    if not lines:
        body, part.body = part.body, body
        return
    preamble = body[: lines[0].start()]
    if len(preamble.split()) > 1 and _HEADER.match(preamble.lstrip()) and b"content-type" in preamble.lower():
        yield preamble.lstrip()  # the first delimiter is missing
    for number, line in enumerate(lines):
        if not line[1]:
            end = lines[number + 1].start() if number + 1 < len(lines) else len(body)
            yield body[line.end() : end].removesuffix(b"\n").removesuffix(b"\r")


def _delimiters(boundary: bytes, body: bytes) -> Iterator[re.Match[bytes]]:
    return re.finditer(rb"^--" + re.escape(boundary) + rb"(--)?[ \t]*(?:\r?\n|\r?\Z)", body, re.MULTILINE)


def parameters(value: str) -> dict[str, str]:
    """Return the parameters of a header's value; parameters of RFC 2231 are joined and decoded."""
    plain: dict[str, str] = {}
    pieces: dict[str, dict[int, tuple[bool, str]]] = {}
    for name, quoted, bare in _PARAMETER.findall(value):
        text = re.sub(r"\\(.)", r"\1", quoted) if quoted else bare.strip()
        key, *rest = name.lower().split("*")
        if not rest:
            plain.setdefault(key, text)
            continue
        numbers = [int(number) for number in rest if number.isdecimal() and len(number) < 4]  # noqa: PLR2004
        pieces.setdefault(key, {}).setdefault(numbers[0] if numbers else 0, (name.endswith("*"), text))
    return plain | {key: _joined(numbered) for key, numbered in pieces.items()}


def _joined(pieces: dict[int, tuple[bool, str]]) -> str:
    data, charset = b"", "utf-8"
    for number, (encoded, text) in sorted(pieces.items()):
        rest = text
        if encoded and number == min(pieces) and text.count("'") >= 2:  # noqa: PLR2004 - charset'language'value
            charset, _, rest = text.split("'", 2)
        data += unquote_to_bytes(rest) if encoded else rest.encode("utf-8", "surrogateescape")
    return decode_text(data, charset)


def decode_words(text: str) -> str:
    """Return a header's value with its encoded words (RFC 2047) decoded.

    The bytes of neighbouring words in one charset are joined first, because programs cut between the bytes of a letter.
    """
    if "=?" not in text:
        return text
    text = _GAP.sub(r"\1", _FOLD.sub("", text))
    out, at, waiting, charset = list[str](), 0, b"", ""
    for word in _WORD.finditer(text):
        data = _word_bytes(word[3], word[2])
        if waiting and (word.start() > at or word[1].lower() != charset):
            out.append(decode_text(waiting, charset))
            waiting = b""
        out.append(text[at : word.start()])
        waiting, charset, at = waiting + data, word[1].lower(), word.end()
    return "".join((*out, decode_text(waiting, charset) if waiting else "", text[at:]))


def _word_bytes(encoded: str, encoding: str) -> bytes:
    data = encoded.encode("utf-8", "surrogateescape")
    return decode_base64(data) if encoding in "bB" else binascii.a2b_qp(data.replace(b" ", b"_"), header=True)


def decode_body(body: bytes, encoding: str) -> bytes:
    """Return a body without its transfer encoding. A body that is not encoded as declared is returned as it is."""
    if encoding == "base64":
        return _base64_body(body)
    if encoding == "quoted-printable":
        return binascii.a2b_qp(re.sub(rb"=[ \t]+(\r?\n)", rb"=\1", body))
    if encoding in ("x-uuencode", "uuencode", "x-uue", "uue"):
        found = uuencoded(body)
        return found[2] if found else body
    return body


def _base64_body(body: bytes) -> bytes:
    """Return decoded base64. A list server appends its footer as plain text after the encoded lines: it is kept."""
    lines = [line.strip() for line in body.split(b"\n")]
    encoded = [bool(_BASE64_LINE.fullmatch(line)) for line in lines]
    if not _starts_encoded(lines, encoded):
        compact = _NOT_BASE64.sub(b"", body)
        return body if b" " in body.strip() and len(compact) < len(body) * MOST_JUNK else decode_base64(compact)
    tail = _footer_start(lines, encoded)
    footer = b"\n".join(lines[tail:]).strip()
    return decode_base64(b"".join(lines[:tail])) + (b"\n\n" + footer if footer else b"")


def _starts_encoded(lines: list[bytes], encoded: list[bool]) -> bool:
    first = next((index for index, line in enumerate(lines) if line), 0)
    if not encoded[first]:
        return False
    length = sum(len(line) for line, is_encoded in zip(lines, encoded, strict=True) if is_encoded)
    return lines[first].endswith(b"=") or len(lines[first]) >= FULL_LINE or 2 * length >= sum(map(len, lines))


def _footer_start(lines: list[bytes], encoded: list[bool]) -> int:
    """Return the index of the first line that is text; the number of lines if all are encoded."""
    wordy = next((index for index, line in enumerate(lines) if b" " in line and not encoded[index]), len(lines))
    if wordy == len(lines):
        return wordy
    end = next((index for index in range(wordy) if lines[index].endswith(b"=") and encoded[index]), None)
    return next((index for index in range(end + 1, wordy) if lines[index]), wordy) if end is not None else wordy


def decode_base64(data: bytes) -> bytes:
    """Return decoded base64, which may contain other characters, several ends, or no end."""
    if b"-" in data or (b"_" in data and b"+" not in data and b"/" not in data):
        data = data.replace(b"-", b"+").replace(b"_", b"/")
    out = bytearray()
    for piece in re.split(rb"=+", _NOT_BASE64.sub(b"", data)):
        whole = piece[: len(piece) - 1] if len(piece) % 4 == 1 else piece
        out += binascii.a2b_base64(whole + b"=" * (-len(whole) % 4))
    return bytes(out)


_UU_BEGIN = re.compile(rb"^begin(?:-base64)? [0-7]{3,4} ([^\r\n]{1,200}?)[ \t]*\r?\n(?=[ -`]{1,64}\r?\n)", re.MULTILINE)


def uuencoded(body: bytes, start: int = 0) -> tuple[int, str, bytes, int] | None:
    """Return the next uuencoded file of a body: its start, name, content and end; None if there is none."""
    begin = _UU_BEGIN.search(body, start)
    if not begin:
        return None
    out, at = bytearray(), begin.end()
    while at < len(body):
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end
        line = body[at:end].rstrip(b"\r")
        if line.strip() in (b"end", b"===="):
            at = end + 1
            break
        if line and not 32 <= line[0] <= 96:  # noqa: PLR2004 - the letters of the code
            break
        out += _uu_line(line) if line else b""
        at = end + 1
    return begin.start(), decode_text(begin[1], None), bytes(out), min(at, len(body))


def _uu_line(line: bytes) -> bytes:
    try:
        return binascii.a2b_uu(line)
    except binascii.Error:
        length = (((line[0] - 32) & 63) * 4 + 5) // 3
        try:
            return binascii.a2b_uu(line[:length].ljust(length))
        except binascii.Error:
            return b""


def signed_content(der: bytes) -> bytes | None:
    """Return the message inside a signed one of S/MIME: the octet strings of its content (RFC 5652); None if encrypted.

    The tags are read one after the other, without recursion: a constructed value is opened, a primitive one is skipped.
    """
    if der.find(_SIGNED_DATA, 0, 64) < 0:
        return None
    out, at, inside = bytearray(), 0, False
    while at < len(der) - 1:
        tag, length = der[at], der[at + 1]
        at += 2
        if length & 0x80:
            count = length & 0x7F
            length = int.from_bytes(der[at : at + count], "big") if count <= 4 else 0  # noqa: PLR2004 - 4 GB
            at += count
        if tag & 0x20 or not tag:
            if out and tag:  # certificates or signatures follow
                break
            continue
        value = der[at : at + length]
        at += length
        inside = inside or (tag == 6 and value == _DATA)  # noqa: PLR2004 - an object identifier
        if tag == 4 and inside:  # noqa: PLR2004 - an octet string
            out += value
    return bytes(out) or None


_DATA = bytes.fromhex("2a864886f70d010701")
_SIGNED_DATA = bytes.fromhex("2a864886f70d010702")
