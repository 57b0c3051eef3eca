"""Searches by one kind of vector, as bodies of Qdrant's `/points/query`.

The client's typed models are bypassed, because a model for each of hundreds of hits costs more than the search. The
hits of a channel have no payload, which would take an eighth of the request: their ids contain the ids of their chunks
(`shared.domain.corpus.ids`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.corpus.index_location import IndexLocation
from shared.domain.text.bm25 import SparseVector
from shared.domain.vectors import Vectors
from shared.vectors.schema.filters import Filter, VisiblePoints, nothing, section_points

Search = Mapping[str, Any]

_SECTION_CHUNKS = 1000  # more than fit into the longest section
# versions of a chunk that may be visible for a moment: two during an edit, more if none was ever finished
_VERSIONS = 8
# Scores by quantized vectors (int8) would be off by up to 0.006, and scores are compared with an absolute scale. A
# search of a graph keeps 128 candidates: of 20,800 real sentences the first hundred are 97.8 % of the exact ones, with
# Qdrant's own hundred 96.5 %, at the same cost; of the first ten it is 99.8 % in both cases.
SEARCH_PARAMS = {"quantization": {"rescore": True}, "hnsw_ef": 128}
_SECTION_PAYLOAD = ["text", "ordinal", "span", "heading_path", "page"]


def question_search(vector: Vectors, where: VisiblePoints, limit: int) -> Search:
    """Search questions by a vector, shape `(dimensions,)`; the hits are ids and scores."""
    return _search(vector, "dense", where.questions, limit)


def text_search(vector: Vectors, where: VisiblePoints, limit: int) -> Search:
    """Search texts by a vector, shape `(dimensions,)`; the hits are ids and scores."""
    return _search(vector, "dense", where.texts, limit)


def bm25_search(terms: SparseVector, where: VisiblePoints, limit: int) -> Search:
    """Search texts by terms; the hits are ids and scores.

    The rarity of a word is measured in the collection's own texts: other tenants' writes change no score.
    """
    query = {"indices": terms.indices, "values": terms.values}
    return _search(query, "bm25", where.texts, limit) | {"params": {"idf": {"corpus": where.corpus}}}


def chunk_search(where: VisiblePoints, chunks: Sequence[str], *, text_vectors: bool = False) -> Search:
    """List the texts of chunks in every visible version, in no order.

    The hits have their payload, or with `text_vectors` the vector of their text.
    """
    of_chunks = {"key": "chunk_id", "match": {"any": list(chunks)}}
    selected = {**where.texts, "must": [*where.texts["must"], of_chunks]}
    listed = {"filter": selected, "limit": _VERSIONS * len(chunks)}
    return listed | ({"with_vector": ["dense"]} if text_vectors else {"with_payload": True})


def question_listing(where: VisiblePoints, limit: int) -> Search:
    """List questions, unordered, each with its text and document."""
    return {"filter": where.questions, "limit": limit, "with_payload": ["question", "source"]}


def exactly(search: Search) -> Search:
    """Return the same search without a graph and quantized vectors, which costs no more for few points."""
    return {**search, "params": {"exact": True}}


def probe() -> Search:
    """Return a search without results, which is the cheapest query."""
    return {"filter": nothing(), "limit": 1}


def section_search(location: IndexLocation, document_id: str, version: int, start: int, end: int) -> Search:
    """List the chunks of a section, unordered, with the payload for joining its text."""
    where = section_points(location, document_id, version, start, end)
    return {"filter": where, "limit": _SECTION_CHUNKS, "with_payload": _SECTION_PAYLOAD}


def _search(query: object, using: str, where: Filter, limit: int) -> dict[str, Any]:
    return {"query": query, "using": using, "filter": where, "limit": limit, "params": SEARCH_PARAMS}
