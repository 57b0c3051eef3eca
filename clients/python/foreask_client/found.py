"""What retrievers of other frameworks tell of a chunk that was found."""

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
    """Return the document's metadata with where the chunk stands and why it was found, the latter for equal names."""
    return chunk.metadata | chunk.model_dump(include=_FIELDS)
