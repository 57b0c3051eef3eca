"""Pages without a text layer: scans, and frames of pictures. Their texts are read by OCR, and each is read once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from uuid import UUID

from shared.domain.work import DocumentToParse, Lease

PAGE_DPI = 200
"""Resolution at which pages are read; it is part of their keys."""

MAX_PICTURE_BYTES = 300_000
"""Maximum size of a page's picture; a page of text has 30,000 to 80,000 bytes."""


MOST_OF_A_CLAIM = 8
"""Maximum number of pages of a claim, so that other workers read the other pages of a document."""


@dataclass(frozen=True, slots=True)
class PageLimits:
    """The maximum number of pages that are read for a tenant on a day in UTC; None: unlimited.

    Args:
        of_tenants: limits of tenants that have their own.
        of_others: limit of every other tenant.
    """

    of_tenants: Mapping[str, int | None] = field(default_factory=dict)
    of_others: int | None = None

    @property
    def exist(self) -> bool:
        return any(limit is not None for limit in (*self.of_tenants.values(), self.of_others))

    def of(self, tenant: str) -> int | None:
        return self.of_tenants.get(tenant, self.of_others)


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
class PagesOutcome:
    """The pages of a parsed document without texts: it is parsed again when they have been read.

    Args:
        document: the document.
        pages: its pages without texts.
        languages: languages in which they are read.
    """

    document: DocumentToParse
    pages: Sequence[NewPage]
    languages: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PageOutcome:
    """A page that has been read; without `text`, its text exists already."""

    page: PageToRead
    text: PageText | None


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
