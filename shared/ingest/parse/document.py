"""The result of parsing a file: a document of chunks, or pages to be read first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.completeness import Completeness, Loss
from shared.domain.stages.pages import PageText


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file's text as chunks, in order.

    Args:
        text_chars: number of characters of the extracted text.
        question_indexes: for each ready-made question of the document, in order, the index of the answering chunk.
        pictures: JPEG files of the chunks that are pictures, by `ChunkContent.picture`.
        completeness: whether all words of the file are in the chunks; bounded.
    """

    title: str | None
    text_chars: int
    media_type: str
    chunks: tuple[ChunkContent, ...]
    question_indexes: tuple[int, ...] = ()
    pictures: Mapping[str, bytes] = field(default_factory=dict)
    completeness: Completeness = Completeness()


@dataclass(frozen=True, slots=True)
class Reading:
    """The use of OCR for a file.

    Args:
        texts: the texts of pages that have been read, by number from 1; empty for a page that cannot be read.
    """

    texts: Mapping[int, PageText]


@dataclass(frozen=True, slots=True)
class PagesToRead:
    """A file with pages that must be read before it can be divided.

    Args:
        page_count: number of all pages.
        numbers: numbers of the pages whose texts are missing, from 1, ascending.
    """

    page_count: int
    numbers: tuple[int, ...]
    media_type: str


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """A file's text before it is divided.

    Args:
        markdown: whether characters such as `#` and `|` are markup; in source code they are not.
        page_starts: for each page in order, (offset in `text`, page number).
        read_pages: the pages whose text was read by OCR, by number.
        coverage: share of the words of the file that are in `text`; None if the reader cannot count them.
        losses: parts of the file that still miss words.
        unread: sentences that name the parts that were not read, each with the reason.
        apart: whether a chunk never contains two pages.
    """

    text: str
    title: str | None
    media_type: str
    markdown: bool = True
    page_starts: tuple[tuple[int, int], ...] = ()
    read_pages: Mapping[int, PageText] = field(default_factory=dict)
    coverage: float | None = None
    losses: tuple[Loss, ...] = ()
    unread: tuple[str, ...] = ()
    apart: bool = False

    @property
    def completeness(self) -> Completeness:
        return Completeness(self.coverage, self.losses, self.unread)
