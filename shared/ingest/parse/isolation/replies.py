"""Validation of a child's reply. The author of a file may control its child, so a reply is untrusted input.

A reply is checked while it arrives: first its head, then each part with chunks. Reading ends at the first wrong value,
so a reply uses little more memory than the largest allowed document.
"""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from shared.confined.process import InvalidReply
from shared.confined.protocol import DETAIL_CHARS, REASON_CHARS
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.completeness import (
    LOCATION_CHARS,
    MOST_LOSSES,
    MOST_SAMPLE_WORDS,
    MOST_UNREAD,
    SAMPLE_WORD_CHARS,
    UNREAD_CHARS,
    Completeness,
    Loss,
)
from shared.domain.corpus.document_fields import MOST_KEY_BYTES
from shared.domain.stages.pages import MAX_PICTURE_BYTES, PageText
from shared.ingest.parse.document import PagesToRead, ParsedDocument
from shared.ingest.parse.isolation.protocol import ParseReplyOutcome
from shared.ingest.parse.scans.limits import MAX_ILLUSTRATION_BYTES
from shared.ingest.parse.web.facts import MOST_LINKS, PageFacts, Rules

MAX_PART_BYTES = 2_000_000
"""The size of a part: the child starts another one after a million bytes, and no chunk has that many."""

_JPEG = b"\xff\xd8\xff"
_HEAD_BYTES = 131_072
_BYTES_PER_SLOT = 12  # of the index of a chunk, for each ready-made question, and of a page's number
_BYTES_PER_ESCAPE = 6  # of a character of a page's text
_PICTURE_CHARS = MAX_PICTURE_BYTES * 4 // 3 + 4  # in Base64

BYTES_PER_CHAR = 16
"""A reply may have this many for each character of text: JSON escapes, repeated table headers and overlaps included."""

_REPEATED = 8  # times that a character may be in chunks; overlaps and table headers need up to four
_MEDIA_TYPE_CHARS = 200
_FAULT_CHARS = 200
_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

_Count = Annotated[int, Field(ge=0, le=2**53)]
_Title = Annotated[str, Field(max_length=200)]
_Page = Annotated[int, Field(ge=1, le=10_000_000)]
_Confidence = Annotated[float, Field(ge=0, le=100)]
_Language = Annotated[str, Field(pattern="^[a-z]{2}$")]

_LINE = "^[^\\x00-\\x1f\\x7f]*$"
"""A text that can be printed anywhere: no control character."""

_Loss = tuple[
    Annotated[str, Field(max_length=LOCATION_CHARS, pattern=_LINE)],
    Annotated[int, Field(ge=1, le=2**53)],
    Annotated[
        list[Annotated[str, Field(min_length=1, max_length=SAMPLE_WORD_CHARS, pattern=_LINE)]],
        Field(max_length=MOST_SAMPLE_WORDS, fail_fast=True),
    ],
]
# The fields of a `Completeness`.
_Completeness = tuple[
    Annotated[float, Field(ge=0, le=1)] | None,
    Annotated[list[_Loss], Field(max_length=MOST_LOSSES, fail_fast=True)],
    Annotated[
        list[Annotated[str, Field(min_length=1, max_length=UNREAD_CHARS, pattern=_LINE)]],
        Field(max_length=MOST_UNREAD, fail_fast=True),
    ],
]


class _Section(TypedDict):
    __pydantic_config__ = _STRICT  # type: ignore[misc] # pydantic's name for the options of a dictionary

    start: _Count
    end: _Count


# The fields of a chunk, in the order of `CONTENT_FIELDS`, with the file of a picture instead of its hash.
_Chunk = tuple[
    str,
    tuple[_Count, _Count],
    Annotated[list[_Title], Field(max_length=6, fail_fast=True)],
    _Title | None,
    _Page | None,
    _Section | None,
    _Language | None,
    Annotated[int, Field(ge=0, le=100)] | None,
    str | None,
]
_Address = Annotated[str, Field(max_length=MOST_KEY_BYTES, pattern="^https?://[!-~]+$")]
# The hash of a page's text, its rules (index, follow), its canonical address, and its links.
_FACTS = TypeAdapter(
    tuple[
        Annotated[str, Field(pattern="^[0-9a-f]{32}$")] | None,
        bool,
        bool,
        _Address | None,
        Annotated[list[_Address], Field(max_length=MOST_LINKS, fail_fast=True)],
    ],
    config=ConfigDict(strict=True),
)
_CHUNKS = TypeAdapter(Annotated[list[_Chunk], Field(min_length=1, fail_fast=True)], config=ConfigDict(strict=True))


class ReplyHead(BaseModel):
    """A reply without its chunks.

    Args:
        document: title, length of the text, media type, for each ready-made question the index of its chunk, the
            fields of its completeness, and no chunks: these follow in `parts` messages.
        pages: number of pages, the numbers of those to be read by OCR, ascending, and the media type.
        text: the text of a page, its number of words, and their mean confidence.
        picture: the page as a WebP in Base64.
        facts: whether the facts of a page of the web follow, before the chunks.
    """

    model_config = _STRICT

    outcome: ParseReplyOutcome
    reason: Annotated[str, Field(max_length=REASON_CHARS)]
    detail: Annotated[str, Field(max_length=DETAIL_CHARS)]
    document: (
        tuple[
            _Title | None,
            _Count,
            Annotated[str, Field(max_length=_MEDIA_TYPE_CHARS)],
            Annotated[list[_Count], Field(fail_fast=True)],
            _Completeness,
            tuple[()],
        ]
        | None
    )
    pages: (
        tuple[
            _Page,
            Annotated[list[_Page], Field(min_length=1, fail_fast=True)],
            Annotated[str, Field(max_length=_MEDIA_TYPE_CHARS)],
        ]
        | None
    )
    text: tuple[str, _Count, _Confidence] | None
    picture: Annotated[str, Field(max_length=_PICTURE_CHARS)] = ""
    facts: bool = False
    parts: _Count
    resident_bytes: _Count
    cpu_seconds: Annotated[float, Field(ge=0)]
    native_files: _Count


@dataclass(frozen=True, slots=True)
class ReplyLimits:
    """The largest reply to a request.

    Args:
        chunks: number of chunks.
        text_chars: characters of the text.
        chunk_chars: characters of a chunk's text.
        questions: number of ready-made questions; each is assigned to a chunk.
        pages: number of pages to be read by OCR; 0: a reply may have none.
        read: numbers of the pages that have been read already.
        page_chars: characters of a page's text; 0: no page is being read.
        pictures: number of chunks that are pictures.
        facts: whether the file is a page of the web.
    """

    chunks: int
    text_chars: int
    chunk_chars: int
    questions: int
    pages: int = 0
    read: frozenset[int] = frozenset()
    page_chars: int = 0
    pictures: int = 0
    facts: bool = False

    @property
    def head_bytes(self) -> int:
        slots = self.questions + self.pages
        picture = _PICTURE_CHARS if self.page_chars else 0
        return _HEAD_BYTES + slots * _BYTES_PER_SLOT + self.page_chars * _BYTES_PER_ESCAPE + picture

    @property
    def parts_bytes(self) -> int:
        """The size of all parts."""
        return self.text_chars * BYTES_PER_CHAR + _HEAD_BYTES + self.pictures * MAX_PART_BYTES


def read_head(body: bytes, limits: ReplyLimits) -> ReplyHead:
    """Return the first message of a reply.

    Raises:
        InvalidReply: it has a value that no child sends.
    """
    try:
        head = ReplyHead.model_validate_json(body)
    except ValidationError as error:
        raise _invalid(error) from None
    document = head.document
    _require_facts(head, limits)
    if (document is None) == (head.outcome == "document") or (document is None and head.parts):
        raise InvalidReply("the document does not fit the outcome")
    if document and limits.page_chars:
        raise InvalidReply("a document instead of the text of a page")
    if (head.pages is None) == (head.outcome == "pages") or (head.text is None) == (head.outcome == "text"):
        raise InvalidReply("the pages do not fit the outcome")
    if "\0" in head.reason or (document and ("\0" in (document[0] or "") or "\0" in document[2])):
        raise InvalidReply("a text contains a NUL")
    if document and document[1] > limits.text_chars:
        raise InvalidReply("the text is longer than allowed")
    if head.pages:
        _require_pages(*head.pages, limits)
    if (head.text or head.picture) and not (limits.page_chars and head.text):
        raise InvalidReply("the text of a page that was not requested")
    if head.text:
        _require_text(*head.text, limits)
    return head


def _require_facts(head: ReplyHead, limits: ReplyLimits) -> None:
    needed = head.outcome == "hidden" or (limits.facts and head.outcome == "document")
    if (head.facts and not limits.facts) or (needed and not head.facts):
        raise InvalidReply("the facts of a page do not fit the request")


def _require_pages(page_count: int, numbers: list[int], media_type: str, limits: ReplyLimits) -> None:
    """Check pages that must be read: a page that has been read already would be asked for again without end."""
    if len(numbers) > limits.pages or numbers[-1] > page_count:
        raise InvalidReply("there are more pages than allowed")
    if any(first >= second for first, second in pairwise(numbers)) or not limits.read.isdisjoint(numbers):
        raise InvalidReply("the pages are not ascending, or have been read")
    if "\0" in media_type:
        raise InvalidReply("a text contains a NUL")


def _require_text(text: str, words: int, confidence: float, limits: ReplyLimits) -> None:
    if len(text) > limits.page_chars:
        raise InvalidReply("the text is longer than allowed")
    if "\0" in text:
        raise InvalidReply("a text contains a NUL")
    if words > len(text) or (not words and (text or confidence)):
        raise InvalidReply("the words do not fit the text")


def pages_of(head: ReplyHead) -> PagesToRead | PageText | None:
    """Return the pages to be read, or the text of a page, that a reply has instead of a document.

    Raises:
        InvalidReply: the page has a picture that no child sends.
    """
    if head.pages:
        page_count, numbers, media_type = head.pages
        return PagesToRead(page_count, tuple(numbers), media_type)
    return PageText(*head.text, _picture(head.picture)) if head.text else None


def _picture(encoded: str) -> bytes:
    """Return the bytes of a picture. Browsers decode it as WebP only: a header forbids them to guess its type."""
    try:
        picture = b64decode(encoded, validate=True)
    except ValueError as error:
        raise InvalidReply("the picture is not in Base64") from error
    if picture and not (picture.startswith(b"RIFF") and picture[8:12] == b"WEBP"):
        raise InvalidReply("the picture is not a WebP")
    return picture


def read_facts(body: bytes, head: ReplyHead) -> tuple[PageFacts, str]:
    """Return the facts of a page of the web, and the hash of its text, which is empty if it has none.

    Raises:
        InvalidReply: it has a value that no child sends.
    """
    try:
        text_hash, index, follow, canonical, links = _FACTS.validate_json(body)
    except ValidationError as error:
        raise _invalid(error) from None
    if (text_hash is None) == (head.outcome == "document"):
        raise InvalidReply("the hash does not fit the outcome")
    return PageFacts(tuple(links), canonical, Rules(index, follow)), text_hash or ""


class ReplyChunks:
    """The chunks of a reply, part by part."""

    def __init__(self, head: ReplyHead, limits: ReplyLimits) -> None:
        self._document = head.document
        self._limits = limits
        self._chunks: list[ChunkContent] = []
        self._chars = 0
        self._pictures: dict[str, bytes] = {}

    def add(self, body: bytes) -> None:
        """Add a part.

        Raises:
            InvalidReply: a chunk has a value that no child sends, or there are more chunks or texts than allowed.
        """
        try:
            rows = _CHUNKS.validate_json(body)
        except ValidationError as error:
            raise _invalid(error) from None
        if len(self._chunks) + len(rows) > self._limits.chunks:
            raise InvalidReply("there are more chunks than allowed")
        self._chunks += [self._content(*row) for row in rows]

    def _content(  # noqa: PLR0917 - the fields of a chunk
        self,
        text: str,
        span: tuple[int, int],
        headings: list[str],
        title: str | None,
        page: int | None,
        section: _Section | None,
        language: str | None,
        confidence: int | None,
        picture: str | None,
    ) -> ChunkContent:
        self._chars += len(text)
        self._require_span(*span)
        if span[1] - span[0] > len(text):
            raise InvalidReply("a span is longer than its text")
        if section:
            self._require_span(section["start"], section["end"])
        if len(text) > self._limits.chunk_chars or self._chars > self._text_chars * _REPEATED:
            raise InvalidReply("the texts of the chunks are longer than allowed")
        if "\0" in text or (title and "\0" in title) or any("\0" in heading for heading in headings):
            raise InvalidReply("a text contains a NUL")
        bounds = section and (section["start"], section["end"])
        if picture is None:
            return ChunkContent(text, span, tuple(headings), title, page, bounds, language, confidence)
        if text:
            raise InvalidReply("a picture with a text")
        return ChunkContent("", span, tuple(headings), title, page, bounds, language, None, self._hash_of(picture))

    def _hash_of(self, encoded: str) -> str:
        """Store a picture, and return its hash: descriptions are found under it, so no child may choose it."""
        try:
            jpeg = b64decode(encoded, validate=True)
        except ValueError:
            raise InvalidReply("a picture that is not Base64") from None
        if not jpeg.startswith(_JPEG) or len(jpeg) > MAX_ILLUSTRATION_BYTES:
            raise InvalidReply("a picture that is too large or not a JPEG file")
        digest = sha256(jpeg).hexdigest()
        if digest in self._pictures or len(self._pictures) == self._limits.pictures:
            raise InvalidReply("a picture twice, or more pictures than allowed")
        self._pictures[digest] = jpeg
        return digest

    def _require_span(self, start: int, end: int) -> None:
        if not start <= end <= self._text_chars:
            raise InvalidReply("a span is outside the text")

    @property
    def _text_chars(self) -> int:
        return self._document[1] if self._document else 0

    def document(self) -> ParsedDocument:
        """Return the document, after its last part.

        Raises:
            InvalidReply: a ready-made question has no chunk.
        """
        if self._document is None:
            raise InvalidReply("there is no document")
        title, text_chars, media_type, indexes, (coverage, losses, unread), _ = self._document
        count = len(self._chunks)
        if count and (len(indexes) != self._limits.questions or any(index >= count for index in indexes)):
            raise InvalidReply("a question has no chunk")
        lost = tuple(Loss(location, missing, tuple(sample)) for location, missing, sample in losses)
        return ParsedDocument(
            title,
            text_chars,
            media_type,
            tuple(self._chunks),
            tuple(indexes) if count else (),
            self._pictures,
            Completeness(coverage, lost, tuple(unread)),
        )


def _invalid(error: ValidationError) -> InvalidReply:
    """Name the first wrong part without its value, because values are texts of documents."""
    first: Any = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(part)[:_FAULT_CHARS] for part in first["loc"])
    return InvalidReply(f"{where}: {first['type']}"[:_FAULT_CHARS])
