"""A document's text, restored from its chunks, so that it can be divided in another way."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.corpus.chunks import ChunkContent
from shared.ingest.parse.document import ExtractedText


def restored(chunks: Sequence[ChunkContent], media_type: str, *, markdown: bool) -> ExtractedText:
    """Return the text of a document from its chunks, in order, with their spans.

    Pages are not restored, because they do not affect the cuts.
    """
    parts: list[str] = []
    at = 0
    for chunk in sorted(chunks, key=lambda chunk: chunk.span):
        parts += chunk.continuing(at)
        at = max(at, chunk.span[1])
    title = chunks[0].title if chunks else None
    return ExtractedText("".join(parts), title, media_type, markdown)
