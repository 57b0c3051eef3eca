"""Retrieval of the chunks that answer a question."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Protocol
from uuid import UUID

import structlog

from shared.domain.corpus.collections import Baseline, Collection, Weights
from shared.domain.corpus.documents import ShownVersion, Version
from shared.domain.errors import Unavailable
from shared.domain.spending.usage import Usage
from shared.domain.text.bm25 import query_vector
from shared.domain.vectors import Vectors
from shared.process.clock import elapsed_seconds
from shared.providers.embedding import Embedders, pack
from shared.providers.reranking import Reranker
from shared.providers.tokens import EstimatingCounter, TokenCounter
from shared.query.retrieve.assembly import DistinctChunks, ordered, within_budget, without_overlaps
from shared.query.retrieve.chunks import Cosines, RetrievedChunk, chunk_of, origin_of
from shared.query.retrieve.notice import Notice
from shared.query.retrieve.query import Channel, Query
from shared.query.retrieve.question_vectors import QuestionVectors
from shared.query.retrieve.rank_probe import ExpectedChunk, Scopes, expected_ranks, settled
from shared.query.retrieve.replaced import ReplacedVersions
from shared.query.retrieve.scores.channels import ChannelHits, ChannelQuery, merge
from shared.query.retrieve.scores.default_fusion import reference_score, reference_scores
from shared.query.retrieve.scores.diversity import CANDIDATES, diversified
from shared.query.retrieve.scores.fusion import Match, fuse
from shared.query.retrieve.scores.ordering import boosted, on_one_scale, passage_of, reranked
from shared.query.retrieve.scores.scale import rescale
from shared.query.retrieve.searching import Searcher
from shared.query.retrieve.trace import (
    AssemblyFacts,
    DiversityFacts,
    EmbedFacts,
    FetchFacts,
    FusionFacts,
    RerankFacts,
    ReturnFacts,
    RewriteFacts,
    SearchFacts,
    Trace,
)
from shared.query.retrieve.units import CHILDREN, sections_of, windows_of
from shared.query.rewrite import BadRewriting, Rewriter, RewrittenQuestion, rewrite
from shared.query.time_budget import SkippedStep, within
from shared.vectors.hits import ChunkPayloads
from shared.vectors.index import Index
from shared.vectors.schema.filters import (
    VisiblePoints,
    caller_conditions,
    held_out,
    of_chunks,
    only_versions,
    visible_points,
    without_older_versions,
)

_FAVOURED = 50  # chunks whose texts are searched for the names in a question
_MOST_CANDIDATES = 300
_ATTEMPTS = 4  # searches of a query, if a found document is replaced during each
_BATCH_INPUTS, _BATCH_TOKENS = 64, 8_000  # questions in one request for embeddings


_MOST_UNREADABLE = 10_000  # changed documents that a search excludes: 370 kB of each request
_CHECK_BUDGET = timedelta(seconds=1)  # a query takes a tenth of it, and PostgreSQL may be failing over
_CHECK_PAUSE_SECONDS = 5.0  # after a check without an answer, queries do not wait for another one
log = structlog.get_logger()
FindShown = Callable[[AbstractSet[Version], Sequence[str] | None], Awaitable[Mapping[UUID, ShownVersion]]]


class FindUnreadable(Protocol):
    """Returns documents that principals do not read, although Qdrant may still say so: see `Documents`."""

    def __call__(
        self, collection_id: UUID, principals: Sequence[str], /, *, most: int
    ) -> Awaitable[Sequence[UUID]]: ...


class _Changed(Exception):
    """A document changed during a search, or points of other versions displaced chunks."""


@dataclass(slots=True)
class Retrieval:
    """Distinct chunks, best first, with the tokens and the time of the retrieval.

    Args:
        matched_questions: number of question points found for the original question.
        unique_chunks: number of chunks found by any channel.
        candidates: best chunks of all channels, if requested, scored by the query's weights.
        candidate_reference_scores: with candidates, the fifth best score of each channel, or 0.
        floors: with candidates, the highest score that other chunks can have in each channel; half of it counts for a
            chunk that the channel did not find.
        reference_scores: reference score of each channel, above which scores counted more, if the fusion uses it.
        expected: ranks of the expected chunks.
        query_id: id of the query for feedback; None until it has one.
        collection: the searched collection.
        unknown_fields: fields of the query's filter that no document has; see `shared.http.queries.notices`.
        notices: notices about the result, such as why it is empty.
    """

    collection: Collection
    chunks: list[RetrievedChunk] = field(default_factory=list)
    matched_questions: int = 0
    unique_chunks: int = 0
    candidates: Sequence[Match] = ()
    candidate_reference_scores: Mapping[Channel, float] = field(default_factory=dict)
    floors: Mapping[Channel, float] = field(default_factory=dict)
    reference_scores: Mapping[Channel, float] = field(default_factory=dict)
    weights: Weights = field(default_factory=Weights)
    rewritten: RewrittenQuestion | None = None
    usage: Usage = field(default_factory=Usage)
    trace: Trace = field(default_factory=Trace)
    expected: Sequence[ExpectedChunk] = ()
    query_id: UUID | None = None
    unknown_fields: Sequence[str] = ()
    notices: Sequence[Notice] = ()

    @property
    def notice(self) -> str | None:
        """The notices as one text; None without notices."""
        return " ".join(each.sentence for each in self.notices) or None

    def hide_users_questions(self) -> None:
        """Remove the texts of users' questions, which only some keys may read; their origin stays."""
        self.chunks = [
            replace(chunk, matched_question=None) if chunk.matched_question_source == "user" else chunk
            for chunk in self.chunks
        ]
        self.expected = [
            replace(chunk, question_text=None) if chunk.question_source == "user" else chunk for chunk in self.expected
        ]


@dataclass(slots=True)
class _Search:
    """The state of one query: its payloads are read as stages need them.

    Args:
        rewritten: the rewritten texts; None if they are not known yet.
        started: time of the clock before the search.
        shown: versions that queries see of documents of which another version was found; None for a deleted document.
        missing: found chunks with points that do not exist any more, each with its version.
        is_changed: whether a found document has changed since the search started.
        is_crowded: whether the search has found a version that queries do not see.
        is_last: whether the search is not repeated any more.
        is_unchecked: whether the ledger could not say which versions are current.
        has_hidden: whether the search has found documents that a person may not read any more.
        measured: hits of the original question with the embedding model's own cosines.
        channels: hits of all texts that were searched, on the collection's scale.
    """

    collection: Collection
    query: Query
    visible: VisiblePoints
    where: VisiblePoints
    retrieval: Retrieval
    vector: Vectors | None = None
    rewritten: Sequence[ChannelQuery] | None = None
    started: float = 0.0
    shown: dict[UUID, int | None] = field(default_factory=dict)
    missing: set[tuple[str, int]] = field(default_factory=set)
    is_changed: bool = False
    is_crowded: bool = False
    is_last: bool = False
    is_unchecked: bool = False
    has_hidden: bool = False
    measured: Mapping[Channel, ChannelHits] = field(default_factory=dict)
    channels: Mapping[Channel, ChannelHits] = field(default_factory=dict)
    read: ChunkPayloads = field(default_factory=lambda: ChunkPayloads({}, {}))

    @property
    def trace(self) -> Trace:
        return self.retrieval.trace

    @property
    def payloads(self) -> Mapping[str, Mapping[str, Any]]:
        """The payloads of the chunks that were read."""
        return self.read.chunks

    def require_unchanged(self) -> None:
        """Check that the found documents are as they were when they were found.

        Raises:
            _Changed: a document has changed, and the search can be repeated.
        """
        if self.is_changed and not self.is_last:
            raise _Changed

    def require_complete(self, *, enough: bool) -> None:
        """Check that points of other versions did not displace chunks.

        Raises:
            _Changed: too few chunks are left, and the search can be repeated without these versions.
        """
        if self.is_crowded and not enough and not self.is_last:
            raise _Changed

    def begin(self) -> None:
        """Exclude the versions that queries do not see, and forget the payloads."""
        self.started = elapsed_seconds()
        self.where = only_versions(self.visible, self.shown)
        self.is_changed = self.is_crowded = self.has_hidden = False
        self.read = ChunkPayloads({}, {})

    def version_of(self, match: Match) -> int:
        """Return the newest version in which a channel found the chunk."""
        return max(self.channels[channel].versions[match.chunk_id] for channel in match.ranks)

    def cosines_of(self, match: Match) -> Cosines:
        """Return the cosines of a chunk before they were calibrated."""
        of = {c: hits.scores.get(match.chunk_id, 0.0) for c, hits in self.measured.items() if c in self.channels}
        return Cosines(of.get("questions"), of.get("text"))

    def question_of(self, match: Match) -> Mapping[str, Any] | None:
        """Return the payload of the matching question; None if there is none or an edit has deleted it since."""
        return self.read.questions.get(match.question) if match.question else None


class Retriever:
    """Finds chunks.

    Args:
        embedders: embed questions and sentences with the collection's embedding.
        index: client of Qdrant.
        find_shown: returns the versions that queries see, of documents of which another version was found, that have
            replaced one lately, or that the principals do not read; None if no document changes, as in an evaluation
            without a ledger.
        find_unreadable: returns the documents whose readers were changed and that principals do not read, as long as
            Qdrant is not up to date; None if no person asks.
        rewriter: rewrites questions; None skips rewriting.
        reranker: orders the best chunks; None keeps the fused order.
        tokens: counts tokens of returned texts.
        remembered: number of questions whose vectors are remembered; 0 for measurements of costs.
    """

    def __init__(
        self,
        embedders: Embedders,
        index: Index,
        find_shown: FindShown | None = None,
        *,
        find_unreadable: FindUnreadable | None = None,
        rewriter: Rewriter | None = None,
        reranker: Reranker | None = None,
        tokens: TokenCounter | None = None,
        remembered: int = 0,
    ) -> None:
        self._embedders = embedders
        self._vectors = QuestionVectors(embedders, remembered)
        self._index = index
        self._find_shown = find_shown
        self._find_unreadable = find_unreadable
        self._checks_after = 0.0  # time of the event loop
        self._replaced = ReplacedVersions()
        self._searcher = Searcher(index)
        self._rewriter = rewriter
        self._reranker = reranker
        self._tokens = tokens or EstimatingCounter()

    async def retrieve(self, collection: Collection, query: Query) -> Retrieval:
        """Find the chunks of one collection that answer a question; none if the collection is empty.

        While a document is replaced, and some seconds longer, Qdrant contains two versions of it, and a late writer may
        restore points of others. The ledger says which version queries see. Every point of this version was visible
        before the ledger said so. Chunks of other versions are left out. The search is repeated if the version has
        changed since it started, or if too few chunks are left. If the ledger does not answer, the result has the
        versions that Qdrant contains.

        A person's search finds only documents that the person may read, by the readers in Qdrant. They may be older
        than the ledger's, which decide: the search is repeated without all documents whose readers were changed, and
        that the person may not read any more. Thousands of changed documents therefore leave no gaps in the result.

        Returns:
            `top_k` distinct units, never fewer while more exist that pass the filter and `min_score` and fit the token
            budget.

        Raises:
            InvalidInput: the filter is malformed, or too expensive for the collection.
            Conflict: no setting describes the collection's embedding.
            Transient: the embedding provider or Qdrant is not available; for a person, the ledger.
        """
        retrieval = Retrieval(collection)
        fields = collection.options.filterable
        conditions = caller_conditions(query.filter, query.document_ids, fields, query.restriction)
        retrieval.weights = query.weights or collection.weights
        # After a failover, a document's version may have become an earlier one again.
        replaced = self._replaced.min_versions(collection.id) if collection.damage is None else {}
        visible = without_older_versions(visible_points(collection.location, conditions), replaced)
        search = _Search(collection, query, visible, visible, retrieval)
        is_key = query.restriction.principals is None
        await self._searcher.require_affordable(visible, conditions, shows_size=is_key)
        for _ in range(_ATTEMPTS - 1):
            with suppress(_Changed):
                return await self._attempt(search)
        search.is_last = True
        return await self._attempt(search)

    async def _attempt(self, search: _Search) -> Retrieval:
        """Search once.

        Raises:
            _Changed: the search must be repeated.
        """
        search.begin()
        retrieval = search.retrieval
        search.channels = await self._searched(search)
        matches = await self._refined(_fused(search), search)
        matches = await self._spread(matches, search)
        chunks = await self._units_of(matches, search)
        with retrieval.trace.timed("assemble"):
            retrieval.chunks = self._assembled(chunks, search)
        if search.query.expected:
            retrieval.expected = await self._expected(search, matches)
        if search.has_hidden:  # rights changed during each search: the counts must not include hidden chunks
            retrieval.matched_questions = retrieval.unique_chunks = len(retrieval.chunks)
            retrieval.reference_scores = {}
            retrieval.trace.forget_facts()
        return retrieval

    async def question_vectors(self, questions: Sequence[str], collection: Collection) -> Vectors:
        """Return unit vectors of questions, row i of question i; the vectors of recent questions are remembered.

        Raises:
            Conflict: no setting describes the collection's embedding.
            Transient: the embedding provider is not available.
            Refused: the provider rejects a question.
        """
        return await self._vectors.embed(questions, collection)

    async def _expected(self, search: _Search, matches: Sequence[Match]) -> list[ExpectedChunk]:
        """Return the ranks of the expected chunks. Chunks hidden by the caller's key are absent."""
        collection, query = search.collection, search.query
        fields, chosen = collection.options.filterable, of_chunks(query.expected)
        own = caller_conditions(query.filter, query.document_ids, fields, query.restriction)
        of_key = caller_conditions(None, None, fields, query.restriction)
        scopes = Scopes(
            search.where,
            visible_points(collection.location, [*own, chosen]),
            visible_points(collection.location, [*of_key, chosen]),
        )
        if search.vector is None:
            return []
        terms = query_vector(query.question, collection.languages)
        ranked = await expected_ranks(
            self._searcher,
            ChannelQuery(search.vector, terms),
            scopes,
            query,
            search.retrieval.weights,
            collection.baseline,
        )
        points = [each.question for each in ranked if each.question]
        read = await self._current(search, {}, points)
        search.require_unchanged()
        asked = {point: payload.get("question") for point, payload in read.questions.items()}
        sources = {point: origin_of(payload) for point, payload in read.questions.items()}
        named = [
            replace(
                each,
                question_text=asked.get(each.question or ""),
                question_source=sources.get(each.question or ""),
            )
            for each in ranked
        ]
        best = {match.chunk_id for match in matches[: query.top_k]}
        return settled(named, best, {chunk.chunk_id for chunk in search.retrieval.chunks})

    async def search_channels(
        self,
        collection: Collection,
        questions: Sequence[str],
        baseline: Baseline,
        held_out_points: Sequence[Sequence[str]] | None = None,
    ) -> list[dict[Channel, ChannelHits]]:
        """Return the hits of each channel for each question, independent of the collection's calibration.

        Users' accepted questions are not searched.

        Args:
            collection: the collection.
            questions: questions in any order.
            baseline: baseline of the embedding model, which rescales the scores.
            held_out_points: per question, ids of points that it must not find; None excludes none.

        Returns:
            Hits; row i belongs to question i.

        Raises:
            Transient: the embedding provider or Qdrant is unavailable.
        """
        results: list[dict[Channel, ChannelHits]] = []
        embedder = self._embedders.named(collection.embedding_model)
        for part in pack(questions, max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS):
            batch = [questions[i] for i in part]
            for question, vector in zip(batch, await embedder.embed(embedder.prefixes.queries(batch)), strict=True):
                excluded = held_out_points[len(results)] if held_out_points else []
                where = visible_points(collection.location, [held_out(excluded)])
                channel_query = ChannelQuery(vector, query_vector(question, collection.languages))
                hits = await self._searcher.search(channel_query, where, Query(question), Weights())
                results.append(rescale(hits, baseline))
        return results

    async def _searched(self, search: _Search) -> dict[Channel, ChannelHits]:
        """Search for the question while a model rewrites it, then merge the hits of the rewritten texts."""
        baseline = search.collection.baseline
        if not search.query.rewriting:
            return rescale(await self._search_original(search), baseline)
        rewriting = asyncio.ensure_future(self._search_rewritten(search))
        try:
            original = await self._search_original(search)
            rewritten = [rescale(hits, baseline) for hits in await rewriting]
            return merge(rescale(original, baseline), rewritten)
        finally:
            rewriting.cancel()

    async def _search_original(self, search: _Search) -> dict[Channel, ChannelHits]:
        question, retrieval = search.query.question, search.retrieval
        if search.vector is None:
            with search.trace.timed("embed"):
                search.vector = (await self._vectors.embed([question], search.collection))[0]
            search.trace.record("embed", EmbedFacts(1))
        channel_query = ChannelQuery(search.vector, query_vector(question, search.collection.languages))
        with search.trace.timed("search"):
            channels = await self._searcher.search(channel_query, search.where, search.query, retrieval.weights)
        if "questions" in channels:
            retrieval.matched_questions = channels["questions"].points
        search.trace.record("search", SearchFacts({channel: len(hits.scores) for channel, hits in channels.items()}))
        search.measured = channels
        return channels

    async def _search_rewritten(self, search: _Search) -> Sequence[Mapping[Channel, ChannelHits]]:
        """Return the hits of the rewritten question; none if rewriting fails or takes too long."""
        query, retrieval = search.query, search.retrieval
        if search.rewritten is not None:
            return await self._searcher.search_all(search.rewritten, search.where, query, retrieval.weights)
        search.rewritten = ()
        if self._rewriter is None:
            search.trace.skip("rewrite", "no language model is configured that can rewrite a question")
            return []
        with search.trace.timed("rewrite"):
            working = self._rewrite_and_search(self._rewriter, search)
            channels = await within(query.rewrite_budget or self._rewriter.budget, working)
        if isinstance(channels, SkippedStep):
            search.trace.skip("rewrite", channels.reason)
            retrieval.rewritten, search.rewritten = None, ()
            return []
        return channels

    async def _rewrite_and_search(self, rewriter: Rewriter, search: _Search) -> Sequence[Mapping[Channel, ChannelHits]]:
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
        search.trace.record("rewrite", RewriteFacts(len(texts)))
        if not texts:
            return []
        vectors = await self._vectors.embed(texts, search.collection)
        languages = search.collection.languages
        terms = [query_vector(text, languages) for text in texts]
        search.rewritten = [ChannelQuery(*each) for each in zip(vectors, terms, strict=True)]
        return await self._searcher.search_all(search.rewritten, search.where, query, retrieval.weights)

    async def _refined(self, matches: Sequence[Match], search: _Search) -> Sequence[Match]:
        """Order the best matches by their texts: by the question's names in them, then by a reranker."""
        query, retrieval = search.query, search.retrieval
        reranker = self._reranker if query.rerank else None
        entities = retrieval.rewritten.entities if retrieval.rewritten else ()
        if not matches or not (reranker or entities):
            return matches
        await self._fetch(matches[: max(query.top_k, reranker.candidates if reranker else _FAVOURED)], search)
        matches = boosted(matches, search.payloads, entities)
        if reranker is None:
            return matches
        with search.trace.timed("rerank"):
            return await _reranked(reranker, matches, search)

    async def _spread(self, matches: Sequence[Match], search: _Search) -> Sequence[Match]:
        """Move dissimilar chunks to the front, if the query requests diversity."""
        query = search.query
        if not query.diversity or not matches:
            return matches
        with search.trace.timed("diversity"):
            candidates = matches[: query.top_k * CANDIDATES]
            chunks = [match.chunk_id for match in candidates]
            vectors = await self._index.text_vectors(search.where, chunks)
            chosen = diversified(on_one_scale(candidates), vectors, query.top_k, query.diversity)
        rest = {match.chunk_id: match for match in candidates}
        front = [rest.pop(match.chunk_id) for match in chosen]
        search.trace.record("diversity", DiversityFacts(len(front), len(candidates)))
        return [*front, *rest.values(), *matches[len(candidates) :]]

    async def _units_of(self, matches: Sequence[Match], search: _Search) -> list[RetrievedChunk]:
        """Return the units to return for the matches, each text once."""
        query, trace = search.query, search.trace
        distinct = DistinctChunks(query.top_k)
        step, start = query.top_k * (CHILDREN if query.unit == "section" else 1), 0
        while start < len(matches) and not distinct.full:
            distinct.add(await self._read(matches[start : start + step], search))
            start += step
        search.require_complete(enough=distinct.full)
        chunks = distinct.chunks
        if query.unit == "sentences" and chunks and search.vector is not None:
            with trace.timed("sentences"):
                chunks = await windows_of(
                    self._embedders.named(search.collection.embedding_model), search.vector, chunks, query.window
                )
        trace.record("return", ReturnFacts(len(chunks), query.unit, min(start, len(matches)), distinct.duplicates))
        return chunks

    async def _read(self, matches: Sequence[Match], search: _Search) -> list[RetrievedChunk]:
        await self._fetch(matches, search)
        payloads = search.payloads
        chunks = [
            chunk_of(match, payloads[match.chunk_id], search.question_of(match), search.cosines_of(match))
            for match in matches
            if match.chunk_id in payloads
        ]
        if search.query.unit != "section":
            return chunks
        with search.trace.timed("sections"):
            return await sections_of(self._index, search.collection.location, chunks, payloads)

    async def _fetch(self, matches: Sequence[Match], search: _Search) -> None:
        missing = [match for match in matches if match.chunk_id not in search.payloads]
        if missing:
            versions = {match.chunk_id: search.version_of(match) for match in missing}
            questions = [match.question for match in missing if match.question]
            with search.trace.timed("fetch"):
                read = await self._current(search, versions, questions)
            search.require_unchanged()
            search.read.chunks.update(read.chunks)
            search.read.questions.update(read.questions)
            search.trace.record("fetch", FetchFacts(len(search.payloads)))

    async def _current(self, search: _Search, versions: Mapping[str, int], questions: Sequence[str]) -> ChunkPayloads:
        """Return the payloads of found chunks and questions, without versions that queries do not see."""
        read = await self._index.chunk_payloads(search.collection.location, versions, questions)
        found = {_version_of(payload) for payload in (*read.chunks.values(), *read.questions.values())}
        shown = await self._shown(search, found)
        self._replaced.remember(search.collection.id, shown)
        others = {each for each in found if each[0] in shown and each[1] != shown[each[0]].version}
        gone = {(chunk, version) for chunk, version in versions.items() if chunk not in read.chunks} - search.missing
        search.missing |= gone
        search.shown |= {document: shown[document].version for document, _ in others}
        search.is_crowded |= bool(others)
        search.is_changed |= bool(gone) or _has_changed(others, shown, elapsed_seconds() - search.started)
        if search.query.restriction.principals is not None and any(shown[each].version is None for each, _ in others):
            search.is_changed = search.has_hidden = True
            search.shown |= await self._unreadable(search)
        return ChunkPayloads(
            {chunk: payload for chunk, payload in read.chunks.items() if _version_of(payload) not in others},
            {point: payload for point, payload in read.questions.items() if _version_of(payload) not in others},
        )

    async def _shown(self, search: _Search, found: AbstractSet[Version]) -> Mapping[UUID, ShownVersion]:
        """Ask the ledger about found versions; only a person's query fails because the ledger is unavailable.

        Raises:
            Unavailable: the ledger does not answer which documents the person may read.
        """
        principals = search.query.restriction.principals
        if self._find_shown is None or not found or search.is_unchecked:
            return {}
        now = asyncio.get_running_loop().time()
        if now < self._checks_after:
            return self._unchecked(search, "another query has just waited in vain")
        checked = await within(_CHECK_BUDGET, self._find_shown(found, principals))
        if isinstance(checked, SkippedStep):
            self._checks_after = now + _CHECK_PAUSE_SECONDS
            return self._unchecked(search, checked.reason)
        return checked

    async def _unreadable(self, search: _Search) -> Mapping[UUID, None]:
        """Return documents that the person may not read any more, without waiting long: the found ones are known."""
        principals = search.query.restriction.principals
        if self._find_unreadable is None or principals is None or search.is_last:
            return {}
        finding = self._find_unreadable(search.collection.id, principals, most=_MOST_UNREADABLE)
        found = await within(_CHECK_BUDGET, finding)
        return {} if isinstance(found, SkippedStep) else dict.fromkeys(found)

    def _unchecked(self, search: _Search, reason: str) -> Mapping[UUID, ShownVersion]:
        if search.query.restriction.principals is not None:
            raise Unavailable(
                f"The ledger did not answer which documents this person may read: {reason}.", component="ledger"
            )
        search.is_unchecked = True
        search.trace.skip("check", f"the ledger could not say which versions are current: {reason}")
        log.warning(
            "versions.unchecked", tenant=search.collection.tenant, collection=search.collection.name, reason=reason
        )
        return {}

    def _assembled(self, chunks: Sequence[RetrievedChunk], search: _Search) -> list[RetrievedChunk]:
        query = search.query
        cut = without_overlaps(chunks)
        fitting = within_budget(cut, self._tokens, query.max_tokens)
        spans = {chunk.chunk_id: chunk.span for chunk in chunks}
        shortened = sum(spans[chunk.chunk_id] != chunk.span for chunk in cut) + len(chunks) - len(cut)
        tokens = sum(chunk.tokens for chunk in fitting)
        search.trace.record(
            "assemble", AssemblyFacts(shortened, len(cut) - len(fitting), tokens, exact=self._tokens.exact)
        )
        return ordered(fitting, query.order)


def _has_changed(others: Iterable[Version], shown: Mapping[UUID, ShownVersion], seconds: float) -> bool:
    """Return whether the shown version of a document has changed during a search, or is just about to change.

    Args:
        others: found versions that queries do not see.
        shown: versions that queries see.
        seconds: time since the search started.
    """
    newer = ((version, shown[document].version) for document, version in others)
    is_arriving = any(current is not None and version > current for version, current in newer)
    return is_arriving or any(age is not None and age <= seconds for _, age in shown.values())


def _version_of(payload: Mapping[str, Any]) -> Version:
    return UUID(payload["document_id"]), payload["version"]


def _fused(search: _Search) -> Sequence[Match]:
    query, retrieval = search.query, search.retrieval
    if query.candidates:
        _take_candidates(search)
    with search.trace.timed("fuse"):
        matches: Sequence[Match] = fuse(search.channels, query.fusion, retrieval.weights)
    retrieval.unique_chunks = len(matches)
    if query.fusion == "scores":
        retrieval.reference_scores = reference_scores(search.channels)
    if query.min_score is not None:
        matches = [match for match in matches if match.score >= query.min_score]
    below = retrieval.unique_chunks - len(matches)
    search.trace.record("fuse", FusionFacts(retrieval.unique_chunks, query.fusion, below))
    return matches


def _take_candidates(search: _Search) -> None:
    """Record the hits of all channels, then exclude channels without weight, as if they had not been searched."""
    query, retrieval = search.query, search.retrieval
    retrieval.candidates = fuse(search.channels, query.fusion, retrieval.weights)[:_MOST_CANDIDATES]
    retrieval.floors = {channel: hits.floor for channel, hits in search.channels.items()}
    retrieval.candidate_reference_scores = {channel: reference_score(hits) for channel, hits in search.channels.items()}
    search.channels = {c: hits for c, hits in search.channels.items() if retrieval.weights.weight(c) > 0}


async def _reranked(reranker: Reranker, matches: Sequence[Match], search: _Search) -> Sequence[Match]:
    candidates = [match.chunk_id for match in matches if match.chunk_id in search.payloads][: reranker.candidates]
    passages = [passage_of(search.payloads[chunk_id]) for chunk_id in candidates]
    scores = await within(reranker.budget, reranker.score(search.query.question, passages))
    if isinstance(scores, SkippedStep):
        search.trace.skip("rerank", scores.reason)
        return matches
    search.trace.record("rerank", RerankFacts(len(candidates)))
    return reranked(matches, dict(zip(candidates, scores, strict=True)))
