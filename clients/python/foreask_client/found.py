"""Metadata of a found chunk, for the retrievers of other frameworks."""

from __future__ import annotations

from foreask_client.models import FoundChunk, Json

_FIELDS = {
    "chunk_id",
    "document_id",
    "external_id",
    "title",
    "filename",
    "heading_path",
    "page",
    "score",
    "matched_question",
}


def metadata_of(chunk: FoundChunk) -> Json:
    """Return the document's metadata and the chunk's position and score, which replace fields of the same name."""
    return chunk.metadata | chunk.model_dump(include=_FIELDS)
