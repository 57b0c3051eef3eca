"""The content of a chunk, in the form used by all stages, and the context that a model writes for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self

from shared.domain.stored import known_fields

MOST_CHARS = 20_000_000
"""No white space is restored after this position: a parser accepts no longer text, unless it is tuned."""

SURE_CONFIDENCE = 60
"""No questions are generated for a text that OCR read with less mean confidence."""

_LINE_FEEDS = "\n" * 65_536


@dataclass(frozen=True, slots=True)
class ChunkContent:
    """A contiguous part of a document's text.

    The parser creates it. The ledger stores it as one JSON value, Qdrant as payload fields, and a query returns
    it; no stage in between names a field. A new field needs a default, because stored contents lack it.

    Args:
        text: the text that is generated from and embedded: `extracted_text[start:end]`. A later piece of a cut table
            starts with the table's header rows, which are before its span.
        span: (start, end) in characters of the extracted text.
        heading_path: headings above the text, outermost first.
        title: title of the document, from the caller or the parser.
        page: page or slide on which the text starts, from 1, if the format has pages.
        section: span of the section around the text, if the document has sections.
        language: language of the text in ISO 639-1 (`de`); None if unknown, as for code.
        confidence: mean confidence of the words on its pages that were read by OCR, 0 to 100; None if none was.
        picture: SHA-256 of a picture in the document, in hexadecimal digits. The text of its chunk is written by a
            vision model, and is empty until then; None for all other chunks.
    """

    text: str
    span: tuple[int, int]
    heading_path: tuple[str, ...] = ()
    title: str | None = None
    page: int | None = None
    section: tuple[int, int] | None = None
    language: str | None = None
    confidence: int | None = None
    picture: str | None = None

    @property
    def is_undescribed(self) -> bool:
        """Whether it is a picture without a text."""
        return self.picture is not None and not self.text

    @property
    def uncertain(self) -> bool:
        """Whether OCR probably misread so many words that questions about them would mislead."""
        return self.confidence is not None and self.confidence < SURE_CONFIDENCE

    @classmethod
    def whole(cls, text: str, title: str | None = None, heading_path: tuple[str, ...] = ()) -> Self:
        """Return the content of a chunk that covers an entire document."""
        return cls(text, (0, len(text)), heading_path, title)

    @property
    def passage(self) -> str:
        """The text under its title and headings, as models and BM25 read it."""
        heading = " > ".join(part for part in (self.title, *self.heading_path) if part)
        return f"{heading}\n\n{self.text}" if heading else self.text

    def continuing(self, at: int) -> Iterator[str]:
        """Yield the extracted text from a position, the end of the previous chunks, to the end of this chunk.

        The text between the spans of two chunks is white space of unknown kind: it becomes line feeds, in small pieces.
        All chunks of a document together have at most `MOST_CHARS` of them, even if their spans are wrong.
        """
        start, end = self.span
        own = self.text[len(self.text) - (end - start) :]  # without the header that a piece of a table repeats
        gap = max(min(start, MOST_CHARS) - at, min(start - at, len("\n\n")))
        while gap > 0:
            yield _LINE_FEEDS[:gap]
            gap -= len(_LINE_FEEDS)
        yield own[max(0, at - start) :]

    def with_text(self, text: str, span: tuple[int, int]) -> Self:
        """Return a copy with another text and span, which are all fields that depend on the text."""
        return replace(self, text=text, span=span)

    def as_json(self) -> dict[str, Any]:
        """Return the fields by name as JSON values; the section is an object, so that Qdrant can filter by it.

        Only pictures have the field `picture`.
        """
        section = self.section and {"start": self.section[0], "end": self.section[1]}
        values = {name: getattr(self, name) for name in CONTENT_FIELDS} | {"section": section}
        if self.picture is None:
            del values["picture"]
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the content that `as_json` wrote; other names of a payload are ignored."""
        section = values.get("section")
        present = {name: _frozen(values[name]) for name in CONTENT_FIELDS if name in values}
        return cls(**present | {"section": section and (section["start"], section["end"])})


CONTENT_FIELDS = tuple(field.name for field in fields(ChunkContent))


@dataclass(frozen=True, slots=True)
class ChunkContext:
    """The line of context and the search terms that a model wrote for a chunk.

    The chunk's text is embedded and indexed with them; answers and citations contain the text only.

    Args:
        line: one line about the setting of the text; empty if the model wrote none.
        terms: words of users that the text lacks.
    """

    line: str = ""
    terms: tuple[str, ...] = ()

    def around(self, text: str) -> str:
        """Return the line, a text and the terms as one text."""
        return "\n\n".join(part for part in (self.line, text, ", ".join(self.terms)) if part)

    def as_json(self) -> dict[str, Any]:
        return {"line": self.line, "terms": self.terms}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        known = known_fields(values, cls.__dataclass_fields__)
        return cls(**{name: _frozen(value) for name, value in known.items()})


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
