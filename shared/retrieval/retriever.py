"""From a question to the chunks that answer it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from qdrant_client import models

from shared.bm25 import query_vector
from shared.embedding import Embedder, estimated_tokens, pack
from shared.index import Index, visible
from shared.ledger.records import Collection, Weights
from shared.llm import Usage
from shared.optional import Skipped, within
from shared.reranking import Reranker
from shared.retrieval.budget import fit
from shared.retrieval.channels import Found, Sought, found_of, full_bm25, limit_of, merged, request_of
from shared.retrieval.conditions import condition_of
from shared.retrieval.diversity import CANDIDATES, diversified
from shared.retrieval.fusion import Match, Place, fuse
from shared.retrieval.ordering import favoured, on_one_scale, passage_of, reranked
from shared.retrieval.query import Channel, Query
from shared.rewriting import BadRewriting, Rewriter, Rewritten, rewrite

_FAVOURED = 50  # chunks whose texts are searched for the names in a question
_TOGETHER, _TOGETHER_TOKENS = 64, 8_000  # questions in one request for embeddings
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
    rerank_score: float | None = None


@dataclass(slots=True)
class Retrieval:
    """Distinct chunks, best first, and what it took to find them: tokens, and milliseconds by stage.

    `skipped` says of each stage that failed or took too long why the chunks were found without it.
    """

    chunks: list[RetrievedChunk] = field(default_factory=list)
    matched_questions: int = 0
    unique_chunks: int = 0
    weights: Weights = field(default_factory=Weights)
    rewritten: Rewritten | None = None
    usage: Usage = field(default_factory=Usage)
    skipped: dict[str, str] = field(default_factory=dict)
    milliseconds: dict[str, float] = field(default_factory=dict)
    query_id: UUID | None = None  # what feedback names it by

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        started = time.perf_counter()
        try:
            yield
        finally:
            elapsed = (time.perf_counter() - started) * 1000
            self.milliseconds[stage] = round(self.milliseconds.get(stage, 0.0) + elapsed, 2)


class Retriever:
    """Finds chunks; without a rewriter no question is rewritten, without a reranker nothing is reranked."""

    def __init__(
        self, embedder: Embedder, index: Index, rewriter: Rewriter | None = None, reranker: Reranker | None = None
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._rewriter = rewriter
        self._reranker = reranker
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
        condition = visible(collection.tenant)
        condition.must = [*(condition.must or []), *conditions]
        where = condition.model_dump(mode="json", exclude_none=True)
        rewriting = asyncio.ensure_future(self._rewritten(collection, where, query, retrieval))
        try:
            found = await self._direct(collection.index_name, where, query, retrieval)
            found = merged(found, await rewriting)
        finally:
            rewriting.cancel()
        with retrieval.timed("fuse"):
            matches = self._fused(found, query, retrieval)
        payloads: dict[str, Mapping[str, Any]] = {}
        matches = await self._refined(collection.index_name, matches, payloads, query, retrieval)
        with retrieval.timed("fetch"):
            matches = await self._chosen(collection.index_name, matches, query)
            missing = [match.chunk_id for match in matches if match.chunk_id not in payloads]
            payloads |= await self._index.fetch(collection.index_name, missing) if missing else {}
        chunks = [_chunk(match, payloads[match.chunk_id]) for match in matches if match.chunk_id in payloads]
        retrieval.chunks = fit(chunks, lambda chunk: chunk.tokens, query.max_tokens)
        return retrieval

    async def _direct(
        self, index_name: str, where: Mapping[str, Any], query: Query, retrieval: Retrieval
    ) -> dict[Channel, Found]:
        with retrieval.timed("embed"):
            vector = (await self._embedder.embed([query.question]))[0]
        sought = Sought(vector, query_vector(query.question))
        with retrieval.timed("search"):
            return await self._found(index_name, sought, where, query, retrieval)

    async def _rewritten(
        self, collection: Collection, where: Mapping[str, Any], query: Query, retrieval: Retrieval
    ) -> Sequence[Mapping[Channel, Found]]:
        """What the rewritten question finds; nothing where that fails or takes too long."""
        if not query.rewriting:
            return []
        if self._rewriter is None:
            retrieval.skipped["rewrite"] = "no language model is configured that can rewrite a question"
            return []
        with retrieval.timed("rewrite"):
            working = self._found_otherwise(self._rewriter, collection, where, query, retrieval)
            found = await within(query.rewrite_budget or self._rewriter.budget, working)
        if isinstance(found, Skipped):
            retrieval.skipped["rewrite"] = found.reason
            retrieval.rewritten = None
            return []
        return found

    async def _found_otherwise(
        self,
        rewriter: Rewriter,
        collection: Collection,
        where: Mapping[str, Any],
        query: Query,
        retrieval: Retrieval,
    ) -> Sequence[Mapping[Channel, Found]]:
        """Rewrite the question, then embed all its new texts in one request and search them in another."""
        try:
            rewritten = await rewrite(rewriter.model_for(collection.tenant), query.question, query.rewriting)
        except BadRewriting as error:
            retrieval.usage += error.usage
            raise
        retrieval.usage += rewritten.usage
        retrieval.rewritten = rewritten
        texts = rewritten.texts
        if not texts:
            return []
        vectors = await self._embedder.embed(texts)
        soughts = [Sought(vector, query_vector(text)) for vector, text in zip(vectors, texts, strict=True)]
        searches = [(sought, channel) for sought in soughts for channel in _channels(sought, query, retrieval.weights)]
        limits = {channel: limit_of(channel, query.top_k) for channel in query.channels}
        if not searches:
            return []
        answered = await self._index.search(
            collection.index_name, [request_of(channel, sought, where, limits[channel]) for sought, channel in searches]
        )
        size = await self._size(collection.index_name)
        return [
            {channel: found_of(channel, hits, limits[channel], full_bm25(sought.terms, size))}
            for (sought, channel), hits in zip(searches, answered or [[] for _ in searches], strict=True)
        ]

    async def channels(self, collection: Collection, questions: Sequence[str]) -> list[dict[Channel, Found]]:
        """What each channel finds for each question, whatever the collection's weights are.

        Raises:
            Transient: the embedding provider or Qdrant is not available.
        """
        where = visible(collection.tenant).model_dump(mode="json", exclude_none=True)
        found = []
        for part in pack(questions, max_inputs=_TOGETHER, max_tokens=_TOGETHER_TOKENS):
            asked = [questions[i] for i in part]
            for question, vector in zip(asked, await self._embedder.embed(asked), strict=True):
                query, sought = Query(question, weights=Weights()), Sought(vector, query_vector(question))
                found.append(await self._found(collection.index_name, sought, where, query, Retrieval()))
        return found

    async def _found(
        self, index_name: str, sought: Sought, where: Mapping[str, Any], query: Query, retrieval: Retrieval
    ) -> dict[Channel, Found]:
        """Search all channels in one request, wider until there are `top_k` distinct chunks or no more to find."""
        channels = _channels(sought, query, retrieval.weights)
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

    def _fused(self, found: Mapping[Channel, Found], query: Query, retrieval: Retrieval) -> list[Match]:
        matches = fuse(found, query.fusion, retrieval.weights)
        retrieval.unique_chunks = len(matches)
        if query.min_score is None:
            return matches
        return [match for match in matches if match.score >= query.min_score]

    async def _refined(
        self,
        index_name: str,
        matches: list[Match],
        payloads: dict[str, Mapping[str, Any]],
        query: Query,
        retrieval: Retrieval,
    ) -> list[Match]:
        """Order the best by what their texts say; the payloads that this needs are added to those given."""
        reranker = self._reranker if query.rerank else None
        entities = retrieval.rewritten.entities if retrieval.rewritten else ()
        if not matches or not (reranker or entities):
            return matches
        looked_at = max(query.top_k, reranker.candidates if reranker else _FAVOURED)
        with retrieval.timed("fetch"):
            payloads |= await self._index.fetch(index_name, [match.chunk_id for match in matches[:looked_at]])
        matches = favoured(matches, payloads, entities)
        if reranker is None:
            return matches
        with retrieval.timed("rerank"):
            return await _reranked(reranker, matches, payloads, query.question, retrieval)

    async def _chosen(self, index_name: str, matches: list[Match], query: Query) -> list[Match]:
        if not query.diversity or not matches:
            return matches[: query.top_k]
        candidates = matches[: query.top_k * CANDIDATES]
        vectors = await self._index.vectors(index_name, [match.chunk_id for match in candidates])
        chosen = diversified(on_one_scale(candidates), vectors, query.top_k, query.diversity)
        known = {match.chunk_id: match for match in candidates}
        return [known[match.chunk_id] for match in chosen]


async def _reranked(
    reranker: Reranker,
    matches: list[Match],
    payloads: Mapping[str, Mapping[str, Any]],
    question: str,
    retrieval: Retrieval,
) -> list[Match]:
    judged = [match.chunk_id for match in matches if match.chunk_id in payloads][: reranker.candidates]
    passages = [passage_of(payloads[chunk_id]) for chunk_id in judged]
    scores = await within(reranker.budget, reranker.score(question, passages))
    if isinstance(scores, Skipped):
        retrieval.skipped["rerank"] = scores.reason
        return matches
    return reranked(matches, dict(zip(judged, scores, strict=True)))


def _channels(sought: Sought, query: Query, weights: Weights) -> list[Channel]:
    """The channels that can find something."""
    return [c for c in query.channels if weights.of(c) > 0 and (c != "bm25" or sought.terms.indices)]


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
        rerank_score=match.rerank_score,
    )
