"""Reader of Outlook messages: properties of MS-OXMSG in a compound file.

Read: the headers that people see, the richest form of the text (HTML, RTF of MS-OXRTFEX, plain), and attachments. Of
appointments and contacts, the properties that people see are read. Not read: transport headers and categories.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers import rtf
from shared.ingest.parse.readers.attachments import AttachedFile, Attachments, summed
from shared.ingest.parse.readers.charsets import codec_of_page, decode_text
from shared.ingest.parse.readers.compound import CompoundFile, Folder
from shared.ingest.parse.readers.mail import letter
from shared.ingest.parse.readers.mail.letter import Body, Letter
from shared.ingest.parse.readers.reading import FileReading

MAX_EMBEDDED = 10
"""A message in as many messages is not read."""

MAX_FOLDERS = 5_000
"""Recipients and attachments of a message; further ones are not read."""

_PROPERTIES = "__properties_version1.0"
_ATTACHED_FILE, _ATTACHED_MESSAGE = 1, 5
_REFERENCES = (2, 3, 4)
_LOCALES = {0x04: 950, 0x0804: 936, 0x1004: 936, 0x11: 932, 0x12: 949, 0x19: 1251, 0x22: 1251, 0x02: 1251, 0x23: 1251}
_LOCALES |= {0x05: 1250, 0x0E: 1250, 0x15: 1250, 0x18: 1250, 0x1A: 1250, 0x1B: 1250, 0x24: 1250, 0x1C: 1250}
_LOCALES |= {
    0x08: 1253,
    0x1F: 1254,
    0x0D: 1255,
    0x01: 1256,
    0x29: 1256,
    0x25: 1257,
    0x26: 1257,
    0x27: 1257,
    0x1E: 874,
    0x2A: 1258,
}
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".bmp", ".emf", ".wmf", ".svg", ".webp")
_CONTACT = (
    (0x3A16, "Company"),
    (0x3A18, "Department"),
    (0x3A17, "Job title"),
    (0x3A08, "Business phone"),
    (0x3A1C, "Mobile phone"),
    (0x3A09, "Home phone"),
    (0x3A24, "Business fax"),
    (0x3A15, "Postal address"),
    (0x3A51, "Web page"),
)
_NAMED = (
    (0x8083, "E-mail"),
    (0x8093, "E-mail"),
    (0x80A3, "E-mail"),
    (0x820D, "Start"),
    (0x820E, "End"),
    (0x8208, "Location"),
    (0x8105, "Due"),
)


def read(content: bytes, attachments: Attachments) -> FileReading:
    """Return an Outlook message with its attachments and embedded messages."""
    compound = CompoundFile(content, "Outlook message")
    file = _File(compound, attachments, _names(compound))
    message = _letter(file, compound.root, header=32)
    parts, unread = letter.rendered(message, attachments)
    return FileReading(tuple(parts), message.subject or None, summed(unread))


@dataclass(frozen=True, slots=True)
class _File:
    compound: CompoundFile
    attachments: Attachments
    names: dict[int, int]


@dataclass(slots=True)
class _Properties:
    """The properties of a message, a recipient or an attachment, by number."""

    file: CompoundFile
    folder: Folder
    fixed: dict[int, tuple[int, bytes]]
    page: int | None = None

    def data(self, number: int, kind: int) -> bytes:
        return self.file.read(self.folder, f"__substg1.0_{number:04X}{kind:04X}")

    def has(self, number: int, kind: int) -> bool:
        return f"__substg1.0_{number:04X}{kind:04X}" in self.folder.streams

    def text(self, number: int) -> str:
        if self.has(number, 0x1F):
            return self.data(number, 0x1F).decode("utf-16-le", "replace").replace("\0", "").replace("\r\n", "\n")
        if self.has(number, 0x1E):
            return decode_text(self.data(number, 0x1E), codec_of_page(self.page)).replace("\0", "")
        return ""

    def line(self, number: int) -> str:
        return " ".join(self.text(number).split())

    def number(self, number: int) -> int | None:
        kind, value = self.fixed.get(number, (0, b""))
        return struct.unpack_from("<i", value)[0] if kind in (0x2, 0x3, 0xB) else None

    def time(self, number: int) -> str:
        kind, value = self.fixed.get(number, (0, b""))
        if kind != 0x40:  # noqa: PLR2004 - a time
            return ""
        try:
            moment = datetime(1601, 1, 1, tzinfo=UTC) + timedelta(microseconds=struct.unpack("<Q", value)[0] // 10)
        except OverflowError:
            return ""
        return f"{moment:%a, %d %b %Y %H:%M} UTC"


def _properties(file: CompoundFile, folder: Folder, header: int, page: int | None = None) -> _Properties:
    data = file.read(folder, _PROPERTIES)[header:]
    fixed = {}
    for kind, number, _, value in struct.iter_unpack("<HHI8s", data[: len(data) // 16 * 16]):
        fixed[number] = (kind, value)
    return _Properties(file, folder, fixed, page)


def _page(message: _Properties) -> int | None:
    """Return the code page of the texts that are not Unicode."""
    locale = message.number(0x3FF1)
    by_locale = _LOCALES.get(locale, _LOCALES.get(locale & 0xFF)) if locale else None
    for page in (message.number(0x3FFD), by_locale, message.number(0x3FDE)):
        if page and page not in (20127, 65000, 65001, 1200) and codec_of_page(page):
            return page
    return None


def _letter(file: _File, folder: Folder, *, header: int, depth: int = 0) -> Letter:
    message = _properties(file.compound, folder, header)
    message.page = _page(message)
    found = Letter(message.line(0x0037))
    found.facts = _facts(message)
    kind = message.line(0x001A).lower()
    if details := _details(message, file.names, contact="contact" in kind):
        found.bodies.append(Body("\n".join(details), "\n".join(details)))
    found.bodies += _bodies(message, file.attachments, found.unread)
    if "rpmsg" in kind:
        found.unread.append("the text of the message is encrypted (rights management); add a decrypted copy")
    shown = _html(message)
    for name in sorted(folder.folders)[:MAX_FOLDERS]:
        if name.startswith("__attach_version1.0_"):
            attached = _properties(file.compound, folder.folders[name], 8, message.page)
            _take(found, attached, file, depth, shown)
    return found


def _facts(message: _Properties) -> list[tuple[str, str]]:
    sender = _person(message.line(0x0C1A) or message.line(0x0042), message.line(0x5D01) or message.line(0x0C1F))
    by_kind: dict[int, list[str]] = {1: [], 2: []}
    for name in sorted(message.folder.folders)[:MAX_FOLDERS]:
        if name.startswith("__recip_version1.0_"):
            recipient = _properties(message.file, message.folder.folders[name], 8, message.page)
            person = _person(recipient.line(0x3001), recipient.line(0x39FE) or recipient.line(0x3003))
            by_kind.setdefault(recipient.number(0x0C15) or 1, []).append(person)
    return [
        ("From", sender),
        ("To", letter.people(", ".join(filter(None, by_kind[1])) or message.line(0x0E04))),
        ("Cc", letter.people(", ".join(filter(None, by_kind[2])) or message.line(0x0E03))),
        ("Date", message.time(0x0039) or message.time(0x0E06)),
    ]


def _person(name: str, address: str) -> str:
    name, address = name.strip("' "), address.strip("' ")
    if "@" not in address or address == name:
        return name
    return f"{name} <{address}>" if name else address


def _details(message: _Properties, names: dict[int, int], *, contact: bool) -> list[str]:
    lines = [f"{label}: {message.line(number)}" for number, label in _CONTACT if contact and message.line(number)]
    for number, label in _NAMED:
        if own := names.get(number):
            value = message.time(own) or message.line(own)
            if value and (number >= 0x8105 or contact):  # noqa: PLR2004 - addresses only of contacts
                lines.append(f"{label}: {value}")
    return list(dict.fromkeys(lines))


def _bodies(message: _Properties, attachments: Attachments, unread: list[str]) -> list[Body]:
    plain, html = message.text(0x1000), _html(message)
    forms = [[letter.text_body(plain, unread)]] if plain.strip() else []
    if not html and message.has(0x1009, 0x102):
        packed = unpacked_rtf(message.data(0x1009, 0x102))
        html = rtf.packed_html(packed) or ""
        if not html and packed:
            forms += _rtf_bodies(packed)
    if html.strip():
        forms.append([letter.html_body(html, attachments)])
    return letter.best(forms)


def _rtf_bodies(content: bytes) -> list[list[Body]]:
    try:
        parts = rtf.read(content).parts
    except Unreadable:
        return []
    return [[Body(part.markdown, part.plain or part.markdown) for part in parts]]


def _html(message: _Properties) -> str:
    if message.has(0x1013, 0x102) or message.has(0x1013, 0x1E):
        data = message.data(0x1013, 0x102) or message.data(0x1013, 0x1E)
        internet = message.number(0x3FDE)
        return decode_text(data.rstrip(b"\0"), codec_of_page(internet) if internet else None)
    return message.text(0x1013)


def _take(found: Letter, attached: _Properties, file: _File, depth: int, shown: str) -> None:
    name = attached.line(0x3707) or attached.line(0x3704) or attached.line(0x3001)
    method = attached.number(0x3705)
    inner = attached.folder.folders.get("__substg1.0_3701000D")
    if inner is not None and (method == _ATTACHED_MESSAGE or _PROPERTIES in inner.streams):
        if depth >= MAX_EMBEDDED:
            found.unread.append(f'the attached message "{name}" was not read: it is nested too deep')
            return
        embedded = _letter(file, inner, header=24, depth=depth + 1)
        embedded.subject = embedded.subject or name
        found.forwarded.append(embedded)
    elif method in _REFERENCES:
        found.unread.append(f'the attachment "{name}" was not read: it is stored elsewhere')
    elif attached.has(0x3701, 0x102):
        _take_file(found, attached, name, shown)


def _take_file(found: Letter, file: _Properties, name: str, shown: str) -> None:
    media_type = file.line(0x370E).lower()
    content = file.data(0x3701, 0x102)
    if media_type == "multipart/signed":
        media_type, name = "message/rfc822", ""
    elif "pkcs7-mime" in media_type or name.lower() == "smime.p7m":
        content, media_type, name = b"Content-Type: application/pkcs7-mime\n\n" + content, "message/rfc822", ""
    picture = media_type.startswith("image/") or name.lower().endswith(_PICTURES)
    content_id = file.line(0x3712)
    inline = bool(file.number(0x7FFE)) or bool((file.number(0x3714) or 0) & 4)
    inline = inline or bool(content_id and f"cid:{content_id}" in shown)
    if media_type in ("application/octet-stream", "text/plain", ""):
        media_type = ""
    found.files.append(AttachedFile(name, content, media_type or None, decoration=picture and inline))


def _names(file: CompoundFile) -> dict[int, int]:
    """Return the numbers of named properties in this file, by their numbers in MS-OXPROPS."""
    folder = file.root.folders.get("__nameid_version1.0")
    entries = file.read(folder, "__substg1.0_00030102") if folder else b""
    found = {}
    for name, flags, index in struct.iter_unpack("<IHH", entries[: len(entries) // 8 * 8]):
        if not flags & 1:
            found[name] = 0x8000 + index
    return found


_DICTIONARY = (
    rb"{\rtf1\ansi\mac\deff0\deftab720{\fonttbl;}{\f0\fnil \froman \fswiss \fmodern \fscript \fdecor MS "
    rb"Sans SerifSymbolArialTimes New RomanCourier{\colortbl\red0\green0\blue0"
    b"\r\n"
    rb"\par \pard\plain\f0\fs20\b\i\u\tab\tx"
)
_WINDOW = 4096


def unpacked_rtf(data: bytes) -> bytes:
    """Return RTF without its compression (MS-OXRTFCP); a damaged end is cut."""
    if len(data) < 16:  # noqa: PLR2004 - the header
        return b""
    size, magic = struct.unpack_from("<II", data, 4)
    if magic == 0x414C454D:  # noqa: PLR2004 - "MELA": not compressed
        return data[16 : 16 + size]
    out, at, start = bytearray(_DICTIONARY), 16, len(_DICTIONARY)
    while at < len(data):
        control = data[at]
        at += 1
        for bit in range(8):
            if at >= len(data):
                break
            if not control >> bit & 1:
                out.append(data[at])
                at += 1
                continue
            reference = int.from_bytes(data[at : at + 2], "big")
            at += 2
            offset, length = reference >> 4, (reference & 15) + 2
            distance = (len(out) - offset) % _WINDOW
            if distance == 0:
                return bytes(out[start:])
            _repeat(out, distance, length)
    return bytes(out[start:])


def _repeat(out: bytearray, distance: int, length: int) -> None:
    for _ in range(length):
        out.append(out[-distance] if distance <= len(out) else 0x20)
