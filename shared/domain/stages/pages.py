"""Pages without a text layer: scans, and frames of pictures. Their texts are read by OCR, and each is read once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from shared.domain.retry import Dead
from shared.domain.stages.attempts import FailedAttempt, Outcome
from shared.domain.stages.parsing import DocumentToParse
from shared.domain.stages.work import Lease

PAGE_DPI = 200
"""Resolution at which pages are read; it is part of their keys."""

MAX_PICTURE_BYTES = 300_000
"""Maximum size of a page's picture; a page of text has 30,000 to 80,000 bytes."""


MOST_OF_A_CLAIM = 8
"""Maximum number of pages of a claim, so that other workers read the other pages of a document."""


@dataclass(frozen=True, slots=True)
class OcrData:
    """An OCR engine that can be used.

    Args:
        engine: its name and version.
        data: version or hash of its language data.
        languages: its languages, in the engine's own codes, such as `eng`.
    """

    engine: str
    data: str
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a page.

    Args:
        text: its text; empty if the page has no words.
        words: number of words.
        confidence: mean confidence of the words, 0 to 100; 0 without words.
        picture: the page as a WebP for people; empty if it is unknown.
    """

    text: str
    words: int
    confidence: float
    picture: bytes = field(default=b"", repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class NewPage:
    """A page to be read; `key` is the key of its text."""

    number: int
    key: bytes


@dataclass(frozen=True, slots=True)
class PageToRead:
    """A claimed page.

    Args:
        lease: its claim, with the id of its row.
        document_id: id of its document's row.
        upload: name of the stored file.
        number: number of the page in the file, from 1.
        key: key of its text.
        languages: languages of OCR.
        has_text: whether its text exists already, because another document has the same page.
        traceparent: span of the request that submitted its version; None if tracing was off.
    """

    lease: Lease
    document_id: UUID
    tenant: str
    collection_id: UUID
    upload: str
    number: int
    key: bytes
    languages: tuple[str, ...]
    attempts: int
    lost_leases: int
    has_text: bool = False
    traceparent: str | None = None


@dataclass(frozen=True, slots=True)
class PagesOutcome(Outcome):
    """The pages of a parsed document without texts: it is parsed again when they have been read.

    Args:
        document: the document.
        pages: its pages without texts.
        languages: languages in which they are read.
    """

    document: DocumentToParse
    pages: Sequence[NewPage]
    languages: tuple[str, ...]

    def refused(self, reason: str) -> FailedAttempt:
        return FailedAttempt(self.document.lease, Dead(reason))


@dataclass(frozen=True, slots=True)
class PageOutcome(Outcome):
    """A page that has been read; without `text`, its text exists already."""

    page: PageToRead
    text: PageText | None

    def refused(self, reason: str) -> FailedAttempt:
        return FailedAttempt(self.page.lease, Dead(reason))


def page_key(
    tenant: str, file_hash: bytes, number: int, *, engine: str, data: str, languages: Sequence[str], dpi: int = PAGE_DPI
) -> bytes:
    """Return the key of a page's text, a SHA-256: equal keys mean equal texts.

    Args:
        tenant: its owner; tenants share no texts.
        file_hash: SHA-256 of the file.
        number: number of the page in the file, from 1.
        engine: name and version of the OCR engine.
        data: version of the language data.
        languages: languages of OCR, whose order matters to engines.
        dpi: resolution.
    """
    parts = (tenant, file_hash.hex(), str(number), engine, data, "+".join(languages), str(dpi))
    digest = sha256()
    for part in parts:
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(8, "big") + encoded)
    return digest.digest()
