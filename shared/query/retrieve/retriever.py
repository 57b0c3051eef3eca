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

from shared.domain.records import Collection, Weights
from shared.domain.usage import Usage
from shared.domain.vectors import Vectors
from shared.providers.embedding import Embedder, pack
from shared.providers.reranking import Reranker
from shared.providers.tokens import Estimate, TokenCounter
from shared.query.retrieve.assembly import DistinctChunks, ordered, within_budget, without_overlaps
from shared.query.retrieve.baseline import rescale
from shared.query.retrieve.channels import ChannelHits, ChannelQuery, merged
from shared.query.retrieve.chunks import RetrievedChunk, chunk_of
from shared.query.retrieve.diversity import CANDIDATES, diversified
from shared.query.retrieve.fusion import Match, fuse
from shared.query.retrieve.ordering import favoured, on_one_scale, passage_of, reranked
from shared.query.retrieve.query import Channel, Query
from shared.query.retrieve.searching import Searcher
from shared.query.retrieve.units import CHILDREN, sections_of, windows_of
from shared.query.rewrite import BadRewriting, Rewriter, RewrittenQuestion, rewrite
from shared.query.time_budget import SkippedStep, within
from shared.text.bm25 import query_vector
from shared.vectors.filters import condition_of
from shared.vectors.index import Index, visible

_FAVOURED = 50  # chunks whose texts are searched for the names in a question
_TOGETHER, _TOGETHER_TOKENS = 64, 8_000  # questions in one request for embeddings


STAGES = (
    *("rewrite", "embed", "search", "fuse", "fetch", "rerank", "diversity", "sections", "sentences", "return"),
    *("assemble", "record", "answer"),
)


@dataclass(slots=True)
class Retrieval:
    """Distinct chunks, best first, and what it took to find them: tokens, and milliseconds by stage.

    `did` says of each stage what it did, `skipped` of each that failed or took too long why it was done without.
    """

    chunks: list[RetrievedChunk] = field(default_factory=list)
    matched_questions: int = 0
    unique_chunks: int = 0
    weights: Weights = field(default_factory=Weights)
    rewritten: RewrittenQuestion | None = None
    usage: Usage = field(default_factory=Usage)
    did: dict[str, str] = field(default_factory=dict)
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


@dataclass(slots=True)
class _Search:
    """One query under way."""

    collection: Collection
    query: Query
    where: Mapping[str, Any]
    retrieval: Retrieval
    vector: Vectors | None = None
    payloads: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def index_name(self) -> str:
        return self.collection.index_name


class Retriever:
    """Finds chunks.

    Args:
        embedder: embeds questions, and sentences where those are returned.
        index: where the chunks are.
        rewriter: without one no question is rewritten.
        reranker: without one nothing is reranked.
        tokens: counts what is returned.
    """

    def __init__(
        self,
        embedder: Embedder,
        index: Index,
        rewriter: Rewriter | None = None,
        reranker: Reranker | None = None,
        tokens: TokenCounter | None = None,
    ) -> None:
        self._embedder = embedder
        self._index = index
        self._searcher = Searcher(index)
        self._rewriter = rewriter
        self._reranker = reranker
        self._tokens = tokens or Estimate()

    async def retrieve(self, collection: Collection | None, query: Query) -> Retrieval:
        """Find the chunks that answer a question, of one collection; None, or one that is empty, has none.

        Returns:
            `top_k` distinct units, never fewer while more exist that pass the filter and `min_score` and fit the token
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
        search = _Search(collection, query, _where(collection, conditions), retrieval)
        rewriting = asyncio.ensure_future(self._rewritten(search))
        try:
            found = await self._direct(search)
            otherwise = [rescale(hits, collection.baseline) for hits in await rewriting]
            found = merged(rescale(found, collection.baseline), otherwise)
        finally:
            rewriting.cancel()
        matches = await self._refined(_fused(found, search), search)
        matches = await self._spread(matches, search)
        chunks = await self._returned(matches, search)
        with retrieval.timed("assemble"):
            retrieval.chunks = self._assembled(chunks, search)
        return retrieval

    async def channels(
        self,
        collection: Collection,
        questions: Sequence[str],
        baseline: float,
        without: Sequence[Sequence[str]] | None = None,
    ) -> list[dict[Channel, ChannelHits]]:
        """What each channel finds for each question, whatever the collection's calibration is.

        What users have accepted is not searched. The background is that of the embedding model; `without` has the ids
        of points that each question must not find.

        Raises:
            Transient: the embedding provider or Qdrant is not available.
        """
        found: list[dict[Channel, ChannelHits]] = []
        for part in pack(questions, max_inputs=_TOGETHER, max_tokens=_TOGETHER_TOKENS):
            asked = [questions[i] for i in part]
            for question, vector in zip(asked, await self._embedder.embed(asked), strict=True):
                sought = ChannelQuery(vector, query_vector(question))
                where = _where(collection, [_apart_from(without[len(found)] if without else [])])
                query, name = Query(question), collection.index_name
                found.append(rescale(await self._searcher.search(name, sought, where, query, Weights()), baseline))
        return found

    async def _direct(self, search: _Search) -> dict[Channel, ChannelHits]:
        question, retrieval = search.query.question, search.retrieval
        with retrieval.timed("embed"):
            search.vector = (await self._embedder.embed([question]))[0]
        retrieval.did["embed"] = "the question"
        sought = ChannelQuery(search.vector, query_vector(question))
        with retrieval.timed("search"):
            found = await self._searcher.search(
                search.index_name, sought, search.where, search.query, retrieval.weights
            )
        if "questions" in found:
            retrieval.matched_questions = found["questions"].points
        retrieval.did["search"] = "chunks by channel: " + (
            ", ".join(f"{channel} {len(hits.scores)}" for channel, hits in found.items()) or "none"
        )
        return found

    async def _rewritten(self, search: _Search) -> Sequence[Mapping[Channel, ChannelHits]]:
        """What the rewritten question finds; nothing where that fails or takes too long."""
        query, retrieval = search.query, search.retrieval
        if not query.rewriting:
            return []
        if self._rewriter is None:
            retrieval.skipped["rewrite"] = "no language model is configured that can rewrite a question"
            return []
        with retrieval.timed("rewrite"):
            working = self._found_otherwise(self._rewriter, search)
            found = await within(query.rewrite_budget or self._rewriter.budget, working)
        if isinstance(found, SkippedStep):
            retrieval.skipped["rewrite"] = found.reason
            retrieval.did.pop("rewrite", None)
            retrieval.rewritten = None
            return []
        return found

    async def _found_otherwise(self, rewriter: Rewriter, search: _Search) -> Sequence[Mapping[Channel, ChannelHits]]:
        """Rewrite the question, then embed all its new texts in one request and search them in another."""
        query, retrieval = search.query, search.retrieval
        try:
            rewritten = await rewrite(rewriter.model_for(search.collection.tenant), query.question, query.rewriting)
        except BadRewriting as error:
            retrieval.usage += error.usage
            raise
        retrieval.usage += rewritten.usage
        retrieval.rewritten = rewritten
        texts = rewritten.texts
        retrieval.did["rewrite"] = f"one call, {len(texts)} more {'text' if len(texts) == 1 else 'texts'} searched"
        if not texts:
            return []
        vectors = await self._embedder.embed(texts)
        soughts = [ChannelQuery(vector, query_vector(text)) for vector, text in zip(vectors, texts, strict=True)]
        return await self._searcher.search_all(search.index_name, soughts, search.where, query, retrieval.weights)

    async def _refined(self, matches: list[Match], search: _Search) -> list[Match]:
        """Order the best by what their texts say."""
        query, retrieval = search.query, search.retrieval
        reranker = self._reranker if query.rerank else None
        entities = retrieval.rewritten.entities if retrieval.rewritten else ()
        if not matches or not (reranker or entities):
            return matches
        await self._fetch(matches[: max(query.top_k, reranker.candidates if reranker else _FAVOURED)], search)
        matches = favoured(matches, search.payloads, entities)
        if reranker is None:
            return matches
        with retrieval.timed("rerank"):
            return await _reranked(reranker, matches, search)

    async def _spread(self, matches: list[Match], search: _Search) -> list[Match]:
        """Put chunks that are unlike those before them in front, where that is asked for."""
        query = search.query
        if not query.diversity or not matches:
            return matches
        with search.retrieval.timed("diversity"):
            candidates = matches[: query.top_k * CANDIDATES]
            vectors = await self._index.vectors(search.index_name, [match.chunk_id for match in candidates])
            known = {match.chunk_id: match for match in candidates}
            chosen = diversified(on_one_scale(candidates), vectors, query.top_k, query.diversity)
        front = [known.pop(match.chunk_id) for match in chosen]
        search.retrieval.did["diversity"] = f"{len(front)} chosen of {len(candidates)}"
        return [*front, *known.values(), *matches[len(candidates) :]]

    async def _returned(self, matches: Sequence[Match], search: _Search) -> list[RetrievedChunk]:
        """What is returned for the matches, each text once."""
        query, retrieval = search.query, search.retrieval
        distinct = DistinctChunks(query.top_k)
        step, at = query.top_k * (CHILDREN if query.unit == "section" else 1), 0
        while at < len(matches) and not distinct.full:
            distinct.add(await self._units(matches[at : at + step], search))
            at += step
        chunks = distinct.chunks
        if query.unit == "sentences" and chunks and search.vector is not None:
            with retrieval.timed("sentences"):
                chunks = await windows_of(self._embedder, search.vector, chunks, query.window)
        retrieval.did["return"] = (
            f"{len(chunks)} by {query.unit}, of the first {min(at, len(matches))} chunks,"
            f" {distinct.duplicates} with the text of another"
        )
        return chunks

    async def _units(self, matches: Sequence[Match], search: _Search) -> list[RetrievedChunk]:
        await self._fetch(matches, search)
        payloads = search.payloads
        chunks = [chunk_of(match, payloads[match.chunk_id]) for match in matches if match.chunk_id in payloads]
        if search.query.unit != "section":
            return chunks
        with search.retrieval.timed("sections"):
            return await sections_of(self._index, search.index_name, search.collection.tenant, chunks, payloads)

    async def _fetch(self, matches: Sequence[Match], search: _Search) -> None:
        missing = [match.chunk_id for match in matches if match.chunk_id not in search.payloads]
        if missing:
            with search.retrieval.timed("fetch"):
                search.payloads |= await self._index.fetch(search.index_name, missing)
            search.retrieval.did["fetch"] = f"{len(search.payloads)} chunks"

    def _assembled(self, chunks: Sequence[RetrievedChunk], search: _Search) -> list[RetrievedChunk]:
        query = search.query
        cut = without_overlaps(chunks)
        fitting = within_budget(cut, self._tokens, query.max_tokens)
        whole = {chunk.chunk_id: chunk.span for chunk in chunks}
        shorter = sum(whole[chunk.chunk_id] != chunk.span for chunk in cut) + len(chunks) - len(cut)
        search.retrieval.did["assemble"] = (
            f"{shorter} cut where another has the same text, {len(cut) - len(fitting)} over the budget;"
            f" {sum(chunk.tokens for chunk in fitting)} tokens, {'counted' if self._tokens.exact else 'estimated'}"
        )
        return ordered(fitting, query.order)


def _fused(found: Mapping[Channel, ChannelHits], search: _Search) -> list[Match]:
    query, retrieval = search.query, search.retrieval
    with retrieval.timed("fuse"):
        matches = fuse(found, query.fusion, retrieval.weights)
    retrieval.unique_chunks = len(matches)
    if query.min_score is not None:
        matches = [match for match in matches if match.score >= query.min_score]
    below = retrieval.unique_chunks - len(matches)
    retrieval.did["fuse"] = f"{retrieval.unique_chunks} chunks by {query.fusion}, {below} below min_score"
    return matches


async def _reranked(reranker: Reranker, matches: list[Match], search: _Search) -> list[Match]:
    judged = [match.chunk_id for match in matches if match.chunk_id in search.payloads][: reranker.candidates]
    passages = [passage_of(search.payloads[chunk_id]) for chunk_id in judged]
    scores = await within(reranker.budget, reranker.score(search.query.question, passages))
    if isinstance(scores, SkippedStep):
        search.retrieval.skipped["rerank"] = scores.reason
        return matches
    search.retrieval.did["rerank"] = f"{len(judged)} chunks judged"
    return reranked(matches, dict(zip(judged, scores, strict=True)))


def _where(collection: Collection, conditions: Sequence[models.Condition]) -> Mapping[str, Any]:
    """The filter of a search, as Qdrant's REST API takes it."""
    condition = visible(collection.tenant)
    condition.must = [*(condition.must or []), *conditions]
    return condition.model_dump(mode="json", exclude_none=True)


def _apart_from(points: Sequence[str]) -> models.Condition:
    """Without these points and without users' questions, which would be found by themselves."""
    of_users = models.FieldCondition(key="source", match=models.MatchValue(value="user"))
    return models.Filter(must_not=[models.HasIdCondition(has_id=list(points)), of_users])


def _conditions(query: Query) -> list[models.Condition]:
    conditions = condition_of(query.filter) if query.filter is not None else []
    if query.document_ids is not None:
        ids = [str(document_id) for document_id in query.document_ids]
        conditions.append(models.FieldCondition(key="document_id", match=models.MatchAny(any=ids)))
    return conditions
