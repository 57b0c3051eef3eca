"""From a question to the chunks that answer it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from qdrant_client import models

from shared.bm25 import query_vector
from shared.embedding import Embedder, estimated_tokens
from shared.index import Index, visible
from shared.ledger.records import Collection, Weights
from shared.retrieval.budget import fit
from shared.retrieval.channels import Found, Sought, found_of, full_bm25, limit_of, request_of
from shared.retrieval.conditions import condition_of
from shared.retrieval.diversity import CANDIDATES, diversified
from shared.retrieval.fusion import Match, Place, fuse
from shared.retrieval.query import Channel, Query

_SIZE_SECONDS = 60.0  # the size of a collection counts by its logarithm


@dataclass(frozen=True, slots=True)
class RetrievedChunk:
    """A chunk as it stands in Qdrant, and why it was found."""

    chunk_id: str
    score: float
    matched_question: str | None
    text: str
    document_id: str
    external_id: str
    title: str | None
    filename: str | None
    heading_path: tuple[str, ...]
    page: int | None
    span: tuple[int, int]
    metadata: Mapping[str, Any]
    tokens: int
    channels: Mapping[Channel, Place]


@dataclass(slots=True)
class Retrieval:
    """Distinct chunks, best first, and what it took to find them: milliseconds by stage."""

    chunks: list[RetrievedChunk] = field(default_factory=list)
    matched_questions: int = 0
    unique_chunks: int = 0
    weights: Weights = field(default_factory=Weights)
    milliseconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = (time.perf_counter() - started) * 1000
            self.milliseconds[stage] = round(self.milliseconds.get(stage, 0.0) + elapsed, 2)


class Retriever:
    def __init__(self, embedder: Embedder, index: Index) -> None:
        self._embedder = embedder
        self._index = index
        self._sizes: dict[str, tuple[float, int]] = {}

    async def retrieve(self, collection: Collection | None, query: Query) -> Retrieval:
        """Find the chunks that answer a question, of one collection; None, or one that is empty, has none.

        Returns:
            `top_k` distinct chunks, never fewer while more exist that pass the filter and `min_score` and fit the token
            budget.

        Raises:
            InvalidInput: the filter is not one.
            Transient: the embedding provider or Qdrant is not available.
        """
        retrieval = Retrieval()
        conditions = _conditions(query)
        if collection is None:
            return retrieval
        retrieval.weights = query.weights or collection.weights
        with retrieval.timed("embed"):
            vector = (await self._embedder.embed([query.question]))[0]
        condition = visible(collection.tenant)
        condition.must = [*(condition.must or []), *conditions]
        where = condition.model_dump(mode="json", exclude_none=True)
        sought = Sought(vector, query_vector(query.question))
        with retrieval.timed("search"):
            found = await self._found(collection.index_name, sought, where, query, retrieval)
        with retrieval.timed("fuse"):
            matches = await self._chosen(collection.index_name, found, query, retrieval)
        with retrieval.timed("fetch"):
            payloads = await self._index.fetch(collection.index_name, [m.chunk_id for m in matches]) if matches else {}
        chunks = [_chunk(match, payloads[match.chunk_id]) for match in matches if match.chunk_id in payloads]
        retrieval.chunks = fit(chunks, lambda chunk: chunk.tokens, query.max_tokens)
        return retrieval

    async def _found(
        self, index_name: str, sought: Sought, where: Mapping[str, Any], query: Query, retrieval: Retrieval
    ) -> dict[Channel, Found]:
        """Search all channels in one request, wider until there are `top_k` distinct chunks or no more to find."""
        channels = [c for c in query.channels if retrieval.weights.of(c) > 0 and (c != "bm25" or sought.terms.indices)]
        full = full_bm25(sought.terms, await self._size(index_name)) if "bm25" in channels else 1.0
        limits = {channel: limit_of(channel, query.top_k) for channel in channels}
        while True:
            requests = [request_of(channel, sought, where, limits[channel]) for channel in channels]
            answered = await self._index.search(index_name, requests) if requests else None
            if answered is None:
                return {}
            hits = dict(zip(channels, answered, strict=True))
            found = {channel: found_of(channel, hits[channel], limits[channel], full) for channel in channels}
            questions = hits.get("questions", [])
            # Only a chunk behind top_k others can be missing from what was searched so far, and then it is not needed.
            if len(questions) < limits.get("questions", 1) or len(found["questions"].scores) >= query.top_k:
                retrieval.matched_questions = len(questions)
                return found
            limits["questions"] *= 4

    async def _size(self, index_name: str) -> int:
        """How many chunks a collection has, as of a minute ago at most."""
        until, size = self._sizes.get(index_name, (0.0, 0))
        if until < time.monotonic():
            size = await self._index.chunks(index_name)
            self._sizes[index_name] = (time.monotonic() + _SIZE_SECONDS, size)
        return size

    async def _chosen(
        self, index_name: str, found: Mapping[Channel, Found], query: Query, retrieval: Retrieval
    ) -> list[Match]:
        matches = fuse(found, query.fusion, retrieval.weights)
        retrieval.unique_chunks = len(matches)
        if query.min_score is not None:
            matches = [match for match in matches if match.score >= query.min_score]
        if not query.diversity or not matches:
            return matches[: query.top_k]
        candidates = matches[: query.top_k * CANDIDATES]
        vectors = await self._index.vectors(index_name, [match.chunk_id for match in candidates])
        return diversified(candidates, vectors, query.top_k, query.diversity)


def _conditions(query: Query) -> list[models.Condition]:
    conditions = condition_of(query.filter) if query.filter is not None else []
    if query.document_ids is not None:
        ids = [str(document_id) for document_id in query.document_ids]
        conditions.append(models.FieldCondition(key="document_id", match=models.MatchAny(any=ids)))
    return conditions


def _chunk(match: Match, payload: Mapping[str, Any]) -> RetrievedChunk:
    text = str(payload["text"])
    return RetrievedChunk(
        chunk_id=match.chunk_id,
        score=match.score,
        matched_question=match.question,
        text=text,
        document_id=payload["document_id"],
        external_id=payload["external_id"],
        title=payload["title"],
        filename=payload["filename"],
        heading_path=tuple(payload["heading_path"]),
        page=payload["page"],
        span=(payload["span"][0], payload["span"][1]),
        metadata=payload["metadata"],
        tokens=estimated_tokens(text),
        channels=match.places,
    )
