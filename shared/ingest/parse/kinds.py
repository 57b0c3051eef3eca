"""The kind of a file: by its content first, then by the declared type, then by its name."""

from __future__ import annotations

import re
import zipfile
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from io import BytesIO
from pathlib import PurePath
from typing import Literal

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.compound import CompoundFile
from shared.ingest.parse.text import is_text, unpadded

Route = Literal["read", "delimited", "text", "code", "html", "feed", "converted", "picture"]

HEAD_BYTES = 64 * 1024
MAX_ENTRIES = 20_000
MAX_UNPACKED_BYTES = 512 * 1024 * 1024
"""An archive is rejected if its directory declares more; the sandbox enforces its limits if the directory is wrong."""

_TEXTUAL = ("text", "code", "converted", "delimited")
_OFFICE = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."


@dataclass(frozen=True, slots=True)
class FileKind:
    """A kind of file.

    Args:
        media_type: type that is reported and passed to the extractor.
        name: name for people.
        route: `read` has a module in `readers`, `delimited` is a table in a text, `text` is Markdown or plain, `code`
            has no markup, `converted` is text that the extractor converts to Markdown, `native` is not text, `picture`
            has pages that OCR reads.
    """

    media_type: str
    name: str
    route: Route


PDF = FileKind("application/pdf", "PDF", "read")
DOCX = FileKind(_OFFICE + "wordprocessingml.document", "Word document", "read")
XLSX = FileKind(_OFFICE + "spreadsheetml.sheet", "Excel workbook", "read")
PPTX = FileKind(_OFFICE + "presentationml.presentation", "PowerPoint presentation", "read")
ODT = FileKind(_ODF + "text", "OpenDocument text", "read")
ODP = FileKind(_ODF + "presentation", "OpenDocument presentation", "read")
ODS = FileKind(_ODF + "spreadsheet", "OpenDocument spreadsheet", "read")
EPUB = FileKind("application/epub+zip", "EPUB", "read")
DOC = FileKind("application/msword", "Word 97 document", "read")
XLS = FileKind("application/vnd.ms-excel", "Excel 97 workbook", "read")
PPT = FileKind("application/vnd.ms-powerpoint", "PowerPoint 97 presentation", "read")
MSG = FileKind("application/vnd.ms-outlook", "Outlook message", "read")
RTF = FileKind("application/rtf", "RTF", "read")
EML = FileKind("message/rfc822", "e-mail", "read")
MBOX = FileKind("application/mbox", "mailbox", "read")
IPYNB = FileKind("application/x-ipynb+json", "notebook", "read")
HTML = FileKind("text/html", "HTML", "html")
FEED = FileKind("application/rss+xml", "feed", "feed")
XML = FileKind("application/xml", "XML", "read")
JSON = FileKind("application/json", "JSON", "converted")
CSV = FileKind("text/csv", "CSV", "delimited")
TSV = FileKind("text/tab-separated-values", "TSV", "delimited")
RST = FileKind("text/x-rst", "reStructuredText", "converted")
ORG = FileKind("text/x-org", "Org", "converted")
LATEX = FileKind("application/x-latex", "LaTeX", "converted")
MARKDOWN = FileKind("text/markdown", "Markdown", "text")
TEXT = FileKind("text/plain", "text", "text")
CODE = FileKind("text/x-source", "source code", "code")

_PNG = FileKind("image/png", "PNG", "picture")
_JPEG = FileKind("image/jpeg", "JPEG", "picture")
_GIF = FileKind("image/gif", "GIF", "picture")
_TIFF = FileKind("image/tiff", "TIFF", "picture")
_BMP = FileKind("image/bmp", "BMP", "picture")
_WEBP = FileKind("image/webp", "WebP", "picture")

_SUFFIXES = (
    (PDF, "pdf"),
    (DOCX, "docx docm dotx"),
    (XLSX, "xlsx xlsm xltx xltm"),
    (PPTX, "pptx pptm ppsx ppsm potx potm"),
    (ODT, "odt ott fodt"),
    (ODP, "odp otp fodp"),
    (ODS, "ods ots"),
    (EPUB, "epub"),
    (DOC, "doc"),
    (XLS, "xls"),
    (PPT, "ppt"),
    (MSG, "msg"),
    (RTF, "rtf"),
    (EML, "eml mht mhtml"),
    (MBOX, "mbox mbx"),
    (IPYNB, "ipynb"),
    (HTML, "html htm xhtml"),
    (FEED, "rss atom"),
    (XML, "xml"),
    (JSON, "json"),
    (CSV, "csv"),
    (TSV, "tsv tab"),
    (RST, "rst"),
    (ORG, "org"),
    (LATEX, "tex"),
    (MARKDOWN, "md markdown mdx"),
    (TEXT, "txt text log"),
    (CODE, "jsonl ndjson yaml yml toml ini cfg conf sql css sh bat py js ts jsx tsx java c h cc cpp hpp cs go rs rb"),
    (CODE, "php swift kt scala r jl lua pl hs ex erl clj proto"),
)
_BY_SUFFIX = {suffix: kind for kind, suffixes in _SUFFIXES for suffix in suffixes.split()}
_BY_MEDIA_TYPE = {
    **{kind.media_type: kind for kind, _ in _SUFFIXES},
    "text/rtf": RTF,
    "multipart/related": EML,
    "application/x-mimearchive": EML,
    "application/xhtml+xml": HTML,
    "application/atom+xml": FEED,
    "text/xml": XML,
    "text/x-markdown": MARKDOWN,
    "application/x-ndjson": CODE,
    "application/yaml": CODE,
    "text/x-python": CODE,
}
_PICTURES = {
    b"\x89PNG": _PNG,
    b"\xff\xd8\xff": _JPEG,
    b"GIF8": _GIF,
    b"II*\0": _TIFF,
    b"MM\0*": _TIFF,
    b"BM": _BMP,
}
_ARCHIVES = {b"\x1f\x8b": "gzip", b"7z\xbc\xaf": "7-Zip", b"Rar!": "RAR", b"BZh": "bzip2", b"\xfd7zXZ": "xz"}
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE_STREAMS = (
    ("WordDocument", DOC),
    ("PowerPoint Document", PPT),
    *((name, XLS) for name in ("Workbook", "WORKBOOK", "Book", "BOOK")),
    ("__properties_version1.0", MSG),
)
_ZIP_FOLDERS = (("word/", DOCX), ("xl/", XLSX), ("ppt/", PPTX))
_ZIP_TYPES = {kind.media_type: kind for kind in (ODT, ODP, ODS, EPUB)}
_ODF_BODY = re.compile(rb"<office:(text|presentation|spreadsheet)[\s>]")
_ODF_BODY_BYTES = 4 * 1024 * 1024  # of the content, whose styles are in front of its body
_UNREADABLE_PART = (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, RuntimeError)
_MAIL_HEADER = re.compile(
    r"(?:From|To|Subject|Date|Received|Return-Path|Message-ID|MIME-Version|Delivered-To):", re.IGNORECASE
)
_MAIL_MUST = re.compile(r"^(?:From|Message-ID|MIME-Version):", re.IGNORECASE | re.MULTILINE)
_MAILBOX_LINE = re.compile(r"From [^\n]{0,200}\d\d:\d\d[^\n]{0,80}\n(?:[!-9;-~]{1,80}:|>From )")
_MARKUP = re.compile(r"<(\?xml|!doctype html|html|head|body|rss|feed|rdf:RDF)\b", re.IGNORECASE)
_FLAT_TYPES = {kind.media_type: kind for kind in (ODT, ODP)}
_FLAT = re.compile(r"<office:document\s[^>]{0,8000}office:mimetype=[\"']([\w./-]{1,99})")


def is_text_file(filename: str) -> bool:
    """Return whether a file of this name is plain text."""
    kind = _BY_SUFFIX.get(PurePath(filename).suffix[1:].lower())
    return kind is not None and kind.route in ("text", "code")


def is_code(filename: str | None, media_type: str | None) -> bool:
    """Return whether text of this name and media type has no markup."""
    kind = _BY_MEDIA_TYPE.get(media_type or "") or _BY_SUFFIX.get(PurePath(filename or "").suffix[1:].lower())
    return kind is CODE


def is_plain(head: bytes, *, filename: str | None, media_type: str | None) -> bool:
    """Return whether a file with these first bytes is plain text, which no library reads."""
    try:
        kind = detect(head, filename=filename, media_type=media_type)
    except Unreadable:
        return False
    return kind.route in ("text", "code")


def detect(content: bytes, *, filename: str | None, media_type: str | None, pictures: bool = False) -> FileKind:
    """Return the kind of a file.

    Args:
        content: content of the file.
        filename: name given by the sender.
        media_type: type declared by the sender, with optional parameters.
        pictures: whether a picture is a readable file.

    Raises:
        Unreadable: empty, encrypted, a picture that is not readable, an archive, too damaged, or of an unknown kind.
    """
    if not content:
        raise Unreadable("the file is empty")
    head = unpadded(content)[:HEAD_BYTES]
    suffix = PurePath(filename or "").suffix.removeprefix(".").lower()
    if pictures and (kind := _picture(head)):
        return kind
    if kind := _by_magic(content, head):
        return kind
    stated = _BY_MEDIA_TYPE.get((media_type or "").partition(";")[0].strip().lower())
    if not is_text(head[:4096]):
        raise Unreadable(_unknown(suffix))
    return _textual(_preview(head), stated, _BY_SUFFIX.get(suffix))


def _by_magic(content: bytes, head: bytes) -> FileKind | None:
    if b"%PDF-" in head[:1024]:
        return PDF
    if head.startswith(b"{\\rtf"):
        return RTF
    if head.startswith((b"PK\x03\x04", b"PK\x05\x06")):
        return _zipped(content)
    if head.startswith(_OLE):
        return _compound(content)
    _refuse(head)
    return None


def _refuse(head: bytes) -> None:
    if picture := _picture(head):
        raise Unreadable(f"the file is a picture ({picture.name}); run OCR on it first")
    for magic, name in _ARCHIVES.items():
        if head.startswith(magic) and not is_text(head[:4096]):
            raise Unreadable(f"the file is a {name} archive; unpack it and add the files in it")


def _picture(head: bytes) -> FileKind | None:
    if head.startswith(b"RIFF") and head[8:12] == b"WEBP":
        return _WEBP
    named = next((kind for magic, kind in _PICTURES.items() if head.startswith(magic)), None)
    # Compressed pixels may have as few control characters as text, but no text has a NUL in its first words.
    return named if b"\0" in head[:16] or not is_text(head[:4096]) else None


def _zipped(content: bytes) -> FileKind:
    try:
        with zipfile.ZipFile(BytesIO(content)) as archive:
            entries = archive.infolist()
            _refuse_bomb(entries)
            return _inside(archive, [entry.filename for entry in entries])
    except (zipfile.BadZipFile, NotImplementedError, EOFError, ValueError, KeyError) as error:
        raise Unreadable("the file is damaged: its archive cannot be opened; create or download it again") from error


def _refuse_bomb(entries: list[zipfile.ZipInfo]) -> None:
    unpacked = sum(entry.file_size for entry in entries)
    if unpacked > MAX_UNPACKED_BYTES or len(entries) > MAX_ENTRIES:
        raise Unreadable(
            f"the file is too large when unpacked: {len(entries):,} parts, {unpacked / 2**20:,.0f} MB; divide it"
        )


def _inside(archive: zipfile.ZipFile, names: list[str]) -> FileKind:
    declared = _head(archive, names, "mimetype", 200).decode("ascii", "replace").strip()
    if kind := _ZIP_TYPES.get(declared.removesuffix("-template")):
        return kind
    plain_names = [name.replace("\\", "/").lstrip("/").lower() for name in names]
    for folder, kind in _ZIP_FOLDERS:
        if any(name.startswith(folder) for name in plain_names):
            return kind
    if "META-INF/container.xml" in names:
        return EPUB
    # A few OpenDocument files lack their type, or it is damaged.
    if body := _ODF_BODY.search(_head(archive, names, "content.xml", _ODF_BODY_BYTES)):
        return _ZIP_TYPES[_ODF + body[1].decode()]
    raise Unreadable("the file is a ZIP archive, not a document; unpack it and add the files in it")


def _head(archive: zipfile.ZipFile, names: list[str], name: str, size: int) -> bytes:
    """Return the first bytes of a part; none if it is missing or damaged."""
    if name not in names:
        return b""
    try:
        with archive.open(name) as part:
            return part.read(size)
    except _UNREADABLE_PART:
        return b""


def _compound(content: bytes) -> FileKind:
    """Return the kind of a Microsoft compound file, by the streams of its top folder.

    Folders below it belong to embedded files: a workbook may contain a Word document. Only if the directory is damaged
    or names no kind, the names are searched for in the whole file.
    """
    try:
        streams = CompoundFile(content, "").root.streams
    except Unreadable:
        streams = {}
    if kind := _by_streams(streams.__contains__):
        return kind
    if kind := _by_streams(lambda stream: (stream + "\0").encode("utf-16-le") in content):
        return kind
    raise Unreadable("the file has Microsoft's old format, but is not a Word, Excel, PowerPoint or Outlook file")


def _by_streams(has: Callable[[str], bool]) -> FileKind | None:
    if has("EncryptedPackage"):
        raise Unreadable("the file is protected with a password; remove the password and add it again")
    return next((kind for stream, kind in _OLE_STREAMS if has(stream)), None)


def _textual(preview: str, stated: FileKind | None, named: FileKind | None) -> FileKind:
    found = _by_shape(preview, {stated, named})
    if found:
        return found
    for kind in (stated, named):
        if kind in (EML, MBOX, HTML, XML) or (kind and kind.route in _TEXTUAL and kind is not TEXT):
            return kind
    for kind in (stated, named):
        if kind and kind.route == "read":
            raise Unreadable(f"the file is named a {kind.name} but lacks its header: it is damaged or misnamed")
    return TEXT


def _by_shape(preview: str, claims: Iterable[FileKind | None]) -> FileKind | None:
    start = preview.lstrip()
    if IPYNB in claims or (start.startswith("{") and '"nbformat"' in preview and '"cells"' in preview):
        return IPYNB if start.startswith("{") else None
    if (flat := _FLAT.search(start)) and (kind := _FLAT_TYPES.get(flat[1].removesuffix("-template"))):
        return kind
    if markup := _MARKUP.match(start):
        return _marked_up(markup[1].lower(), start[:2048].lower())
    if _MAILBOX_LINE.match(start):
        return EML if EML in claims else MBOX
    if _MAIL_HEADER.match(start) and (EML in claims or _MAIL_MUST.search(start[:4096].partition("\n\n")[0])):
        return EML
    return None


def _marked_up(tag: str, start: str) -> FileKind:
    if tag in ("rss", "feed", "rdf:rdf") or "<rss" in start or "<feed" in start:
        return FEED
    return XML if tag == "?xml" and "<html" not in start else HTML


def _preview(head: bytes) -> str:
    """Return a prefix of the text that suffices to recognise markup and headers in any encoding."""
    return head[:8192].replace(b"\0", b"").decode("latin-1").lstrip("\xef\xbb\xbf\xff\xfe")


def _unknown(suffix: str) -> str:
    called = f"of the kind .{suffix}" if suffix and suffix not in _BY_SUFFIX else "of no known kind, or damaged"
    return f"the file is {called} and cannot be read; convert it to PDF, DOCX, HTML, Markdown or text"
