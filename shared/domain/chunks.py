"""The content of a chunk, in the one form in which every stage passes it on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Self


@dataclass(frozen=True, slots=True)
class ChunkContent:
    """A stretch of a document that can be asked about.

    The parser makes a content. The ledger stores it as one JSON value, Qdrant as fields of a payload, and a query
    returns it. No stage between them names a field. A new field needs a default, since stored contents lack it.

    Args:
        text: what is asked about and embedded: `extracted_text[start:end]`. A later piece of a table that had to be cut
            begins with the table's header rows, which lie before its span.
        span: (start, end) in characters of the extracted text.
        heading_path: the headings above the text, outermost first.
        title: the document's title, as the caller gave it or the parser found it.
        page: the page or slide on which the text begins, from 1, where the format has them.
        section: the span of the section around the text, where the document is divided into sections.
        language: of the text, as ISO 639-1 names it (`de`); None: unknown, as that of code.
    """

    text: str
    span: tuple[int, int]
    heading_path: tuple[str, ...] = ()
    title: str | None = None
    page: int | None = None
    section: tuple[int, int] | None = None
    language: str | None = None

    @classmethod
    def whole(cls, text: str, title: str | None = None, heading_path: tuple[str, ...] = ()) -> Self:
        """The content of a chunk that is a whole document."""
        return cls(text, (0, len(text)), heading_path, title)

    @property
    def passage(self) -> str:
        """The text under its title and headings, as models and BM25 read it."""
        heading = " > ".join(part for part in (self.title, *self.heading_path) if part)
        return f"{heading}\n\n{self.text}" if heading else self.text

    def continuing(self, at: int) -> str:
        """The extracted text from a position to the end of this chunk, where the chunks before it end at the position.

        What lies between the spans of two chunks is white space, of which the chunks do not say which: it becomes line
        feeds.
        """
        start, end = self.span
        own = self.text[len(self.text) - (end - start) :]  # without the header that a piece of a table repeats
        return "\n" * (start - at) + own[max(0, at - start) :]

    def with_text(self, text: str, span: tuple[int, int]) -> Self:
        """The content of another stretch: a field that depends on the text is renewed here."""
        return replace(self, text=text, span=span)

    def as_json(self) -> dict[str, Any]:
        """The fields by name, in order, as JSON has them; the section is an object, so that Qdrant can filter by it."""
        section = self.section and {"start": self.section[0], "end": self.section[1]}
        return {name: getattr(self, name) for name in CONTENT_FIELDS} | {"section": section}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """The content that `as_json` wrote; other names are passed over, for a payload holds more than the content."""
        section = values.get("section")
        present = {name: _frozen(values[name]) for name in CONTENT_FIELDS if name in values}
        return cls(**present | {"section": section and (section["start"], section["end"])})


CONTENT_FIELDS = tuple(field.name for field in fields(ChunkContent))


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
