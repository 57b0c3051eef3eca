"""Estimates of loads and of rebuilds, from the ledger's rows."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby
from uuid import UUID

from features.estimates.arithmetic import (
    Amounts,
    ExpectedCalls,
    Quantities,
    Ratios,
    amounts,
    batch_duration,
    duration,
    expected_calls,
    margin,
    measured,
    tokens_of,
)
from features.estimates.domain import Estimate, StoredChunk, TierEstimate
from features.estimates.ledger import Estimates
from features.estimates.texts import restored
from shared.domain.corpus.chunks import ChunkContent
from shared.domain.corpus.collections import Collection, CollectionOptions
from shared.domain.errors import Transient
from shared.domain.spending.limit_use import LimitUse
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import Usage
from shared.domain.states import DocumentState
from shared.ingest.generate.quality import is_of_similarity
from shared.ingest.generate.types import GenerationOptions
from shared.ingest.options import IngestDefaults
from shared.ingest.parse import kinds
from shared.ingest.parse.chunking_options import ChunkingOptions
from shared.ingest.parse.chunks.chunking import EARLIEST_CUT, divide
from shared.ingest.parse.document import ExtractedText
from shared.ingest.parse.text import clean
from shared.ingest.parse.titles import title_of
from shared.ingest.prices import PriceOf
from shared.ledger.model.collections import Collections

MOST_DOCUMENTS = 200_000
"""Larger collections are estimated from a random sample of this size.

The key of a chunk takes 13 microseconds; a document of 20 chunks is divided again in less than a millisecond.
"""

_UNPARSED = (DocumentState.QUEUED, DocumentState.PARSING, DocumentState.READING)
_PAGE_CHARS = 2_000  # of a scanned page, whose text is unknown: a full page of a letter or a contract
_MEAN_FILL = (1 + EARLIEST_CUT) / 2  # of a chunk of a long text


@dataclass(frozen=True, slots=True)
class SampleText:
    """A document of a load, with the number of its ready-made questions; None: a model generates questions."""

    text: str
    title: str | None = None
    ready_questions: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedLoad:
    """Documents of a planned load.

    Args:
        documents: number of documents.
        size_bytes: size of all texts; None: estimated from the sample.
        sample: some or all of the documents; if empty, only the size is used.
        pages: scanned pages of the documents, whose texts are not part of the size.
    """

    documents: int
    size_bytes: int | None
    sample: Sequence[SampleText]
    pages: int = 0


@dataclass(frozen=True, slots=True)
class _Chunk:
    """A chunk to count.

    Args:
        need: calls for its questions; None if they were submitted with its document.
        ready: number of these questions.
        keeps_text: whether the vector of its text exists.
        reasons: reasons for dropping its questions, None for passed ones with vectors; empty if they must be embedded.
    """

    content: ChunkContent
    need: ExpectedCalls | None
    ready: int = 0
    keeps_text: bool = False
    reasons: tuple[str | None, ...] = ()


@dataclass(frozen=True, slots=True)
class _Planned:
    tenant: str
    options: CollectionOptions
    embedding: str
    models: Sequence[str]


_ExistingPoints = Mapping[tuple[str, str], tuple[StoredChunk, bool]]
"""Chunks with existing points by document and text, each with whether the vector of its text exists."""


class Estimator:
    """Estimates the costs of loads and rebuilds.

    Args:
        defaults: default options of collections.
        price_of: prices of calls.
        list_price_of: returns the list price of calls with a model in a tier at the configured provider.
        collections: collections in the ledger.
        ledger: inputs of estimates.
        model: the language model.
        tier: service tier of its calls.
        embedding: the embedding model of new collections.
        limits: returns the limits of a tenant and of an embedding model.
        queue_tokens: tokens of prompts that the provider accepts in all unfinished batches; None if unknown.
    """

    def __init__(
        self,
        defaults: IngestDefaults,
        price_of: PriceOf,
        list_price_of: Callable[[str, Usage, Tier], float | None],
        collections: Collections,
        ledger: Estimates,
        *,
        model: str,
        tier: Tier,
        embedding: str,
        limits: Callable[[str, str], Awaitable[Sequence[LimitUse]]],
        queue_tokens: int | None = None,
    ) -> None:
        self._defaults = defaults
        self._price_of = price_of
        self._list_price_of = list_price_of
        self._collections = collections
        self._ledger = ledger
        self._model = model
        self._ingest_tier = tier
        self._embedding = embedding
        self._limits = limits
        self._queue_tokens = queue_tokens

    async def estimate_rebuild(
        self, collection: Collection, options: CollectionOptions, embedding: str, models: Sequence[str] = ()
    ) -> Estimate:
        """Estimate the cost of rebuilding a collection next to the live build.

        Calls are counted exactly: the content key of each chunk is looked up among paid content. If documents are
        divided differently, their texts are joined from their chunks, in which white space may differ. Texts and
        questions with existing vectors of the same embedding are not embedded again. The collection may change
        meanwhile.

        Args:
            collection: the current collection.
            options: the new options.
            embedding: the new embedding model.
            models: further language models to estimate.
        """
        counting = _Counting(collection.tenant, self._model, self._defaults.generation_of(options))
        before, after = map(self._defaults.chunking_of, (collection.options, options))
        states = (await self._collections.document_counts(collection.tenant, [collection.id]))[collection.id]
        documents = sum(states.values())
        share = min(1.0, MOST_DOCUMENTS / max(1, documents))
        below = None if share == 1 else UUID(int=int(share * 2**128))
        divided = None if before == after else after
        of_collection = (collection.embedding_model, collection.index_name)
        keeps = (embedding, self._collections.index_name(embedding)) == of_collection
        async for page in self._pages(collection.id, below):
            existing = _existing_points(page, collection.options) if keeps else {}
            await counting.add(partial(counting.stored, page, divided, existing), self._ledger)
        unparsed = sum(states.get(state, 0) for state in _UNPARSED)
        count = counting.count.times(1 / share * documents / max(1, documents - unparsed))
        count.documents = documents
        ratios = await self._ratios(collection.tenant, collection.id)
        exact = share == 1 and not unparsed and divided is None
        planned = _Planned(collection.tenant, options, embedding, models)
        made = await self._estimate(planned, count, ratios, exact=exact)
        if options.ocr_languages == collection.options.ocr_languages:
            return made  # the texts of its pages are stored
        return replace(made, pages=await self._ledger.pages(collection.id))

    async def estimate_load(
        self, tenant: str, collection: Collection | None, load: PlannedLoad, models: Sequence[str] = ()
    ) -> Estimate:
        """Estimate the cost of documents of a planned load, some of which may exist.

        Args:
            tenant: their tenant.
            collection: their collection; None if the load creates it.
            load: the documents.
            models: further language models to estimate.
        """
        options = collection.options if collection else CollectionOptions()
        counting = _Counting(tenant, self._model, self._defaults.generation_of(options))
        chunking = self._defaults.chunking_of(options)
        counts: list[tuple[Quantities, int]] = []
        if load.sample:
            for document in load.sample:
                before = replace(counting.count)
                await counting.add(partial(counting.sampled, document, chunking), self._ledger)
                counts.append((counting.count.since(before), len(document.text.encode())))
            of_sample = sum(size for _, size in counts)
            whole = load.documents == len(load.sample)
            factor = load.documents / len(load.sample)
            if load.size_bytes is not None and not whole:
                factor = load.size_bytes / max(1, of_sample)
            count = counting.count.times(factor)
        else:
            whole, count = False, counting.of_size(load.documents, load.size_bytes or 0, chunking)
        if load.pages:
            whole, count = False, count.plus(counting.of_size(0, load.pages * _PAGE_CHARS, chunking))
        count.documents = load.documents
        ratios = await self._ratios(tenant, collection.id if collection else None)
        embedding = collection.embedding_model if collection else self._embedding
        by_size = load.size_bytes is not None
        values = [(tokens_of(each, ratios), float(size) if by_size else 1.0) for each, size in counts]
        wide = None if whole else margin(values, load.documents)
        planned = _Planned(tenant, options, embedding, models)
        made = await self._estimate(planned, count, ratios, exact=whole, wide=wide)
        return replace(made, pages=load.pages)

    async def _pages(self, collection_id: UUID, below: UUID | None) -> AsyncIterator[list[StoredChunk]]:
        """Yield a collection's chunks in pages, without splitting a document."""
        waiting: list[StoredChunk] = []
        last: StoredChunk | None = None
        while page := await self._ledger.chunks(collection_id, last, below=below):
            last = page[-1]
            waiting += page
            if waiting[0].document != last.document:
                yield [chunk for chunk in waiting if chunk.document != last.document]
                waiting = [chunk for chunk in waiting if chunk.document == last.document]
        if waiting:
            yield waiting

    async def _ratios(self, tenant: str, collection_id: UUID | None) -> Ratios:
        """Return the ratios of recent chunks of the collection, or else of the tenant."""
        for where in dict.fromkeys((collection_id, None)):
            billed = await self._ledger.billed(tenant, self._model, where)
            ratios = await asyncio.to_thread(measured, billed, self._defaults.generation_of, self._model)
            if ratios != Ratios():
                return ratios
        return Ratios()

    async def _estimate(
        self, planned: _Planned, count: Quantities, ratios: Ratios, *, exact: bool, wide: float | None = None
    ) -> Estimate:
        come_to = amounts(count, ratios, prepends=bool(planned.options.prepend_questions))
        limits = await self._limits_of(planned)
        tiers = [self._tier(self._model, tier, come_to, limits) for tier in Tier]
        further = dict.fromkeys(model for model in planned.models if model != self._model)
        for model in further:
            tiers += [TierEstimate(model, tier, self._cost(model, tier, come_to), None, None) for tier in Tier]
        of_ingest = next(each for each in tiers if each.tier is self._ingest_tier)
        return Estimate(
            documents=come_to.documents,
            chunks=come_to.chunks,
            paid_chunks=come_to.paid_chunks,
            calls=come_to.calls,
            prompt_tokens=come_to.generate.prompt_tokens,
            completion_tokens=come_to.generate.completion_tokens,
            embeddings=come_to.embeddings,
            embedding_tokens=come_to.embed.prompt_tokens,
            points=come_to.points,
            exact=exact,
            llm_cost=of_ingest.llm_cost,
            embedding_cost=self._price_of("embed", come_to.embed, planned.embedding),
            seconds=of_ingest.seconds,
            bottleneck=of_ingest.bottleneck,
            margin=wide,
            tiers=tuple(tiers),
        )

    def _tier(self, model: str, tier: Tier, come_to: Amounts, limits: Sequence[LimitUse]) -> TierEstimate:
        cost = self._cost(model, tier, come_to)
        if tier is Tier.BATCH:
            return TierEstimate(model, tier, cost, *batch_duration(come_to, limits, self._queue_tokens))
        seconds, bottleneck = duration(come_to, limits) or (None, None)
        return TierEstimate(model, tier, cost, seconds, bottleneck)

    def _cost(self, model: str, tier: Tier, come_to: Amounts) -> float | None:
        if model == self._model:
            return self._price_of("generate", come_to.generate, model, tier)
        return self._list_price_of(model, come_to.generate, tier)

    async def _limits_of(self, planned: _Planned) -> Sequence[LimitUse]:
        try:
            return await self._limits(planned.tenant, planned.embedding)
        except Transient:  # the broker stores the rate of the last calls
            return ()


class _Counting:
    """Counts chunks; unpaid content of several chunks is counted once.

    Args:
        tenant: tenant charged for the calls.
        model: the language model.
        options: generation options.
    """

    def __init__(self, tenant: str, model: str, options: GenerationOptions) -> None:
        self._need_of = partial(expected_calls, tenant, model, options=options)
        self._seen: set[bytes] = set()  # prefixes of the keys of content that must be paid: 75 bytes a chunk
        self.count = Quantities()

    async def add(self, make: Callable[[], list[_Chunk]], ledger: Estimates) -> None:
        """Count the chunks returned by `make`, which runs in a thread, because the event loop must not block."""
        chunks = await asyncio.to_thread(make)
        paid = await ledger.paid([chunk.need.key for chunk in chunks if chunk.need])
        for chunk in chunks:
            need = chunk.need
            self.count.contexts += need is not None and need.context
            if chunk.keeps_text:
                self.count.keep_text(chunk.content)
            if need is not None and (chunk.reasons or need.key in paid):
                self.count.keep_questions()
            if chunk.reasons:
                self.count.add(chunk.content)
                self.count.kept_questions += chunk.reasons.count(None)
                self.count.dropped += sum(map(is_of_similarity, chunk.reasons))
            elif need is None:
                self.count.add(chunk.content, ready=chunk.ready)
            elif need.key in paid:
                self.count.add(chunk.content, paid=paid[need.key])
            elif need.key[:8] in self._seen:
                self.count.add(chunk.content, twins=need.questions)
            else:
                self._seen.add(need.key[:8])
                self.count.add(chunk.content, need)

    def stored(
        self, page: Sequence[StoredChunk], chunking: ChunkingOptions | None, existing: _ExistingPoints
    ) -> list[_Chunk]:
        """Return the chunks of these documents: the stored ones or, with another chunking, the future ones."""
        if chunking is None:
            whole = [(chunk.document, self._chunk(chunk.content, chunk.ready_questions)) for chunk in page]
        else:
            documents = groupby(page, key=lambda chunk: chunk.document)
            whole = [(name, chunk) for name, chunks in documents for chunk in self._divided(list(chunks), chunking)]
        return [_kept(chunk, existing.get((document, chunk.content.text))) for document, chunk in whole]

    def _divided(self, chunks: Sequence[StoredChunk], chunking: ChunkingOptions) -> Iterable[_Chunk]:
        first, contents = chunks[0], [chunk.content for chunk in chunks]
        plain = kinds.is_code(first.filename, first.media_type)
        text = restored(contents, first.media_type or "", markdown=not plain)
        return self._of_text(text, chunking, None if first.ready_questions is None else _ready(chunks))

    def sampled(self, document: SampleText, chunking: ChunkingOptions) -> list[_Chunk]:
        """Return the chunks of a planned text."""
        text = clean(document.text)
        extracted = ExtractedText(text, document.title or title_of(text, None), "text/markdown")
        return list(self._of_text(extracted, chunking, document.ready_questions))

    def of_size(self, documents: int, size_bytes: int, chunking: ChunkingOptions) -> Quantities:
        """Count texts only by their size."""
        chunks = documents
        if size_bytes > documents * chunking.max_chars:
            chunks = round(size_bytes / (chunking.max_chars * _MEAN_FILL))
        count = Quantities()
        content = ChunkContent.whole("x" * round(size_bytes / max(1, chunks)))
        need = self._need_of(content=content)
        count.add(content, need)
        count.contexts += need.context
        return count.times(chunks)

    def _of_text(self, text: ExtractedText, chunking: ChunkingOptions, ready: int | None) -> Iterable[_Chunk]:
        for index, content in enumerate(divide(text, chunking)):
            # The questions of a document are counted with its first chunk.
            yield self._chunk(content, None if ready is None else ready * (index == 0))

    def _chunk(self, content: ChunkContent, ready: int | None) -> _Chunk:
        if ready is not None:
            return _Chunk(content, None, ready)
        return _Chunk(content, self._need_of(content=content))


def _existing_points(page: Iterable[StoredChunk], options: CollectionOptions) -> _ExistingPoints:
    """Return the chunks with existing points; a text that is embedded with more has no separate vector."""
    return {
        (chunk.document, chunk.content.text): (chunk, not _is_extended(chunk, options))
        for chunk in page
        if chunk.has_points
    }


def _is_extended(chunk: StoredChunk, options: CollectionOptions) -> bool:
    """Return whether a text is embedded with its questions or with its context."""
    has_context = bool(options.context) and chunk.ready_questions is None and chunk.content.picture is None
    return has_context or (bool(options.prepend_questions) and None in chunk.reasons)


def _kept(chunk: _Chunk, existing: tuple[StoredChunk, bool] | None) -> _Chunk:
    if existing is None:
        return chunk
    stored, keeps_text = existing
    same = chunk.need is not None and chunk.need.key == stored.content_key
    # Questions of the document itself that are divided between the chunks as before.
    submitted = chunk.need is None and chunk.ready == len(stored.reasons)
    return replace(chunk, keeps_text=keeps_text, reasons=stored.reasons if same or submitted else ())


def _ready(chunks: Iterable[StoredChunk]) -> int:
    return sum(chunk.ready_questions or 0 for chunk in chunks)
