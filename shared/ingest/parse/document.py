"""What a file becomes: a document of chunks."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChunkingOptions:
    """How a text is divided.

    Args:
        max_chars: no chunk's text is longer.
        overlap_chars: how much of the text before it a chunk repeats, only where a paragraph had to be cut.
        section_max_chars: no section, a run of chunks under the same headings, is longer; None: there are no sections.
    """

    max_chars: int = 2_000
    overlap_chars: int = 100
    section_max_chars: int | None = None

    def __post_init__(self) -> None:
        if self.max_chars < 1 or self.overlap_chars < 0:
            raise ValueError("max_chars must be positive and overlap_chars not negative")
        if self.section_max_chars is not None and self.section_max_chars < self.max_chars:
            raise ValueError("section_max_chars must be max_chars or more")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A stretch of a document that can be asked about.

    Args:
        ordinal: its place in the document, from 0.
        text: what is asked about and embedded: `extracted_text[start:end]`, except that a later piece of a table that
            had to be cut begins with the table's header rows, which lie before its span.
        heading_path: the headings above it, outermost first.
        span: (start, end) in characters of the extracted text.
        page: the page or slide on which it begins, from 1, where the format has them.
        section: the span of the section that it is a part of, where the document is divided into sections.
    """

    ordinal: int
    text: str
    heading_path: tuple[str, ...]
    span: tuple[int, int]
    page: int | None
    section: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """A file's text as chunks; `text_chars` counts the whole extracted text."""

    title: str | None
    text_chars: int
    media_type: str
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class ExtractedText:
    """A file's text before it is divided.

    Args:
        markdown: whether `#`, `|` and the like are structure; in source code they are not.
        page_starts: for each page in order, (offset in `text`, page number).
    """

    text: str
    title: str | None
    media_type: str
    markdown: bool = True
    page_starts: tuple[tuple[int, int], ...] = ()
