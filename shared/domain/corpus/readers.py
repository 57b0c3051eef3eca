"""Versions of the readers of files: a better reader reaches documents that an older one has read.

Change the number of a format when its reader returns another text for some files. Documents whose reader is not named
here are outdated: they are listed and counted until they are read again. Formats without a reader of their own, such
as Markdown and source code, are never outdated.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

from shared.domain.states import DocumentState

_OFFICE = "application/vnd.openxmlformats-officedocument."
_ODF = "application/vnd.oasis.opendocument."

READERS: Mapping[str, str] = {
    "application/pdf": "pdf 4",
    _OFFICE + "wordprocessingml.document": "docx 3",
    _OFFICE + "spreadsheetml.sheet": "xlsx 2",
    _OFFICE + "presentationml.presentation": "pptx 3",
    _ODF + "text": "odt 3",
    _ODF + "presentation": "odp 3",
    _ODF + "spreadsheet": "ods 1",
    "application/epub+zip": "epub 2",
    "application/msword": "doc 3",
    "application/vnd.ms-excel": "xls 2",
    "application/vnd.ms-powerpoint": "ppt 2",
    "application/vnd.ms-outlook": "msg 2",
    "application/rtf": "rtf 2",
    "message/rfc822": "eml 2",
    "application/mbox": "mbox 2",
    "application/x-ipynb+json": "ipynb 2",
    "text/html": "html 3",
    "application/rss+xml": "feed 1",
    "application/xml": "xml 1",
    "application/json": "json 1",
    "text/csv": "csv 1",
    "text/tab-separated-values": "tsv 1",
    "text/x-rst": "rst 2",
    "text/x-org": "org 2",
    "application/x-latex": "latex 2",
}
"""The reader of each format, with its version, by the detected media type."""

_PLAIN = "plain"
FAILED = f"failed {sha256(','.join(sorted(READERS.values())).encode()).hexdigest()[:8]}"
"""The reader of a file that none could read: every change of a reader may help."""

CURRENT = (*READERS.values(), _PLAIN, FAILED)

_READ = (DocumentState.READY, DocumentState.DEGRADED, DocumentState.FAILED)


def reader_of(media_type: str) -> str:
    """Return the reader of files of a type, as documents store it."""
    return READERS.get(media_type, _PLAIN)


def is_outdated(state: DocumentState, reader: str | None) -> bool:
    """Return whether another reader than today's has read a document that is not in progress.

    Args:
        state: the state of the document.
        reader: its stored reader; None if a release without versions has read it.
    """
    return state in _READ and reader not in CURRENT
