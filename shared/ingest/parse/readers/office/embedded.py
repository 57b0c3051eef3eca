"""Documents in Office files: parts of the package, or objects in Microsoft's compound file (MS-OLEDS, section 2)."""

from __future__ import annotations

import struct
from posixpath import basename

from shared.domain.errors import Unreadable
from shared.ingest.parse.readers.attachments import AttachedFile
from shared.ingest.parse.readers.compound import CompoundFile, Folder

_OLE = b"\xd0\xcf\x11\xe0"
_FILES = (b"PK", b"%PDF", b"{\\rtf", _OLE)
"""The first bytes of files that Office embeds as they are."""

_DOCUMENTS = ("WordDocument", "Workbook", "WORKBOOK", "Book", "BOOK", "PowerPoint Document", "__properties_version1.0")
"""Streams of objects that are documents themselves, as files of Office 97 are."""

_WHOLE_FILES = ("Package", "CONTENTS")
"""Streams that are a whole file: of a newer Office, and of Adobe Reader."""

_NATIVE = "\x01Ole10Native"
_MOST_NAME_BYTES = 1_000


def embedded_file(path: str, content: bytes, label: str = "") -> AttachedFile | None:
    """Return a document that is embedded in an Office file; None for other objects, such as equations and pictures.

    Args:
        path: path of its part.
        content: content of the part.
        label: kind of the document for people, which names it if its part has a name of a program.
    """
    name = basename(path)
    if not content.startswith(_OLE):
        return AttachedFile(name, content) if content.startswith(_FILES) else None
    title = f"Embedded {label or 'file'}"
    try:
        file = CompoundFile(content, label)
    except Unreadable:
        return None
    for stream in _WHOLE_FILES:
        if (data := file.read(file.root, stream)).startswith(_FILES):
            return AttachedFile(title, data)
    if _NATIVE in file.root.streams:
        return _native(file, title)
    return AttachedFile(title, content) if _is_document(file.root) else None


def _is_document(root: Folder) -> bool:
    return any(stream in root.streams for stream in _DOCUMENTS)


def _native(file: CompoundFile, title: str) -> AttachedFile | None:
    """Return a file that is shown by its icon; None if it is damaged."""
    data = file.read(file.root, _NATIVE)
    try:
        at = 6
        end = data.index(b"\0", at, at + _MOST_NAME_BYTES)
        name = data[at:end].decode("cp1252", "replace")
        at = data.index(b"\0", end + 1, end + 1 + _MOST_NAME_BYTES) + 5
        at += 4 + struct.unpack_from("<I", data, at)[0]
        length = struct.unpack_from("<I", data, at)[0]
    except (ValueError, struct.error):
        return None
    return AttachedFile(" ".join(name.split()) or title, data[at + 4 : at + 4 + length])
