"""From a question to the chunks that answer it."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import UUID

from qdrant_client import models

from shared.embedding import Embedder, Vectors, estimated_tokens
from shared.index import Hit, Index, visible
from shared.ledger.records import Collection
from shared.retrieval.budget import fit
from shared.retrieval.conditions import condition_of
from shared.retrieval.folding import Match, fold

Channel = Literal["questions", "text"]
CHANNELS: tuple[Channel, ...] = ("questions", "text")
_QUESTIONS_PER_CHUNK = 10  # the most that are written; where a chunk has more, the search is widened


@dataclass(frozen=True, slots=True)
class Query:
    """What is looked for. `filter` is a caller's filter over metadata, checked on use."""

    question: str
    top_k: int = 10
    min_score: float | None = None
    max_tokens: int = 12_000
    filter: Mapping[str, Any] | None = None
    document_ids: Sequence[UUID] | None = None
    channels: Sequence[Channel] = CHANNELS


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


@dataclass(slots=True)
class Retrieval:
    """Distinct chunks, best first, and what it took to find them: milliseconds by stage."""

    chunks: list[RetrievedChunk] = field(default_factory=list)
    matched_questions: int = 0
    unique_chunks: int = 0
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
        with retrieval.timed("embed"):
            vector = (await self._embedder.embed([query.question]))[0]
        where = visible(collection.tenant)
        where.must = [*(where.must or []), *conditions]
        with retrieval.timed("search"):
            matches = await self._matches(collection.index_name, vector, where, query, retrieval)
            payloads = await self._index.fetch(collection.index_name, [m.chunk_id for m in matches]) if matches else {}
        found = [_chunk(match, payloads[match.chunk_id]) for match in matches if match.chunk_id in payloads]
        retrieval.chunks = fit(found, lambda chunk: chunk.tokens, query.max_tokens)
        return retrieval

    async def _matches(
        self, index_name: str, vector: Vectors, where: models.Filter, query: Query, retrieval: Retrieval
    ) -> list[Match]:
        """Search and fold, wider until there are `top_k` distinct chunks or nothing more to find."""
        limit = query.top_k * _QUESTIONS_PER_CHUNK
        while True:
            requests = [_request(channel, vector, where, limit, query) for channel in query.channels]
            answered = await self._index.search(index_name, requests)
            if answered is None:
                return []
            hits: dict[str, list[Hit]] = dict(zip(query.channels, answered, strict=True))
            questions = hits.get("questions", [])
            # Only a chunk behind top_k others can be missing from what was searched so far, and then it is not needed.
            if len(questions) < limit or len({hit.payload["chunk_id"] for hit in questions}) >= query.top_k:
                matches = fold(questions, hits.get("text", []))
                retrieval.matched_questions = len(questions)
                retrieval.unique_chunks = len(matches)
                return matches[: query.top_k]
            limit *= 4


def _conditions(query: Query) -> list[models.Condition]:
    conditions = condition_of(query.filter) if query.filter is not None else []
    if query.document_ids is not None:
        ids = [str(document_id) for document_id in query.document_ids]
        conditions.append(models.FieldCondition(key="document_id", match=models.MatchAny(any=ids)))
    return conditions


def _request(channel: Channel, vector: Vectors, where: models.Filter, limit: int, query: Query) -> models.QueryRequest:
    questions = channel == "questions"
    return models.QueryRequest(
        query=vector.tolist(),
        using="question" if questions else "text",
        filter=where,
        # A chunk has one text, so top_k are enough; of its questions many may stand in front of the next chunk's.
        limit=limit if questions else query.top_k,
        score_threshold=query.min_score,
        with_payload=["chunk_id", "question"] if questions else False,
    )


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
    )
