"""Searches by one kind of vector, as bodies of Qdrant's `/points/query`.

The client's typed models are bypassed: a model for each of hundreds of hits costs more than the search.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.vectors import Vectors
from shared.text.bm25 import SparseVector
from shared.vectors.filters import SearchFilter, section_points

Search = Mapping[str, Any]

_SECTION_CHUNKS = 1000  # more than fit into the longest section
_QUESTION_PAYLOAD = ["chunk_id", "question", "source"]
_SECTION_PAYLOAD = ["text", "ordinal", "span", "heading_path", "page"]


def question_search(vector: Vectors, where: SearchFilter, limit: int) -> Search:
    """Search question points by a vector, shape `(dimensions,)`; the hits name their chunk, text and source."""
    return _search(vector.tolist(), "question", where, limit, _QUESTION_PAYLOAD)


def text_search(vector: Vectors, where: SearchFilter, limit: int) -> Search:
    """Search chunk points by a vector, shape `(dimensions,)`; the hits are chunk ids without payload."""
    return _search(vector.tolist(), "text", where, limit)


def bm25_search(terms: SparseVector, where: SearchFilter, limit: int) -> Search:
    """Search chunk points by terms; the hits are chunk ids without payload."""
    return _search({"indices": terms.indices, "values": terms.values}, "bm25", where, limit)


def section_search(tenant: str, document_id: str, version: int, start: int, end: int) -> Search:
    """List the chunks of a section, in no order, with the payload from which its text is joined."""
    where = section_points(tenant, document_id, version, start, end)
    return {"filter": where, "limit": _SECTION_CHUNKS, "with_payload": _SECTION_PAYLOAD}


def _search(query: object, using: str, where: SearchFilter, limit: int, payload: Sequence[str] = ()) -> Search:
    with_payload = list(payload) or False
    return {"query": query, "using": using, "filter": where, "limit": limit, "with_payload": with_payload}
