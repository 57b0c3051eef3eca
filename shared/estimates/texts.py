"""A document's text, put together again from its chunks, so that it can be divided in another way."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.chunks import ChunkContent
from shared.ingest.parse.document import ExtractedText


def restored(chunks: Sequence[ChunkContent], media_type: str, *, markdown: bool) -> ExtractedText:
    """The text of a document whose chunks these are, in order, with their spans.

    What lies between the spans of two chunks is white space, of which the chunks do not say which: it becomes line
    feeds. Pages are not restored: they do not matter to where a text is cut.
    """
    parts: list[str] = []
    at = 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.span):
        start, end = chunk.span
        text = chunk.text[len(chunk.text) - (end - start) :]  # without the header that a piece of a table repeats
        parts.append("\n" * (start - at))
        parts.append(text[max(0, at - start) :])
        at = max(at, end)
    title = chunks[0].title if chunks else None
    return ExtractedText("".join(parts), title, media_type, markdown)
