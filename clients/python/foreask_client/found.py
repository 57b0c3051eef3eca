"""The results of a search, for the retrievers of other frameworks."""

from __future__ import annotations

import warnings

from foreask_client.models import FoundChunk, Json, Retrieval

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


def chunks_of(found: Retrieval) -> list[FoundChunk]:
    """Return the chunks of a result.

    A notice becomes a warning of Python, because the lists of other frameworks have no room for it: it says why nothing
    was found, or that no document has a field of the filter.
    """
    if found.metadata.notice:
        warnings.warn(found.metadata.notice, stacklevel=3)
    return found.chunks


def metadata_of(chunk: FoundChunk) -> Json:
    """Return the document's metadata and the chunk's position and score, which replace fields of the same name."""
    return chunk.metadata | chunk.model_dump(include=_FIELDS)
