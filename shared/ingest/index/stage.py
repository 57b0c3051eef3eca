"""Index: chunks are embedded and written to Qdrant, first with their texts only, then with their filtered questions.

A text is searchable without waiting for a language model: a chunk without questions passes this stage twice. The second
time its text's vector is read from Qdrant, and so are vectors of other builds or versions of the document (`reuse`). A
chunk with questions passes once.

A batch contains chunks of many documents and collections with one embedding and is processed together: one round of
embedding requests, one upsert per collection, one settlement. A text that is embedded with its questions
(`prepend_questions`) or with its context needs two rounds of embedding: the plain text first, because the similarity
filter compares questions with it, then the extended text. BM25 finds the chunk by the words of its context, too.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import islice

import numpy as np
import structlog

from shared.broker.wakeups import Wakeups
from shared.domain.corpus.index_location import is_in_space
from shared.domain.corpus.questions import AcceptedQuestion, plain
from shared.domain.errors import ForeaskError, Misconfigured, Permanent, Transient
from shared.domain.retry import Dead, RetryPolicy, decide
from shared.domain.stages import poison
from shared.domain.stages.attempts import FailedAttempt
from shared.domain.stages.indexing import ChunkToIndex, FailedIndexing, IndexOutcome
from shared.domain.stages.work import Lease, LeaseExtension
from shared.domain.states import AcceptedState
from shared.domain.vectors import Vectors
from shared.ingest.drain import Stage
from shared.ingest.faults import failure_of
from shared.ingest.generate.quality import FilteredQuestion, filter_by_similarity, filter_by_text
from shared.ingest.index import BATCH_CHUNKS
from shared.ingest.index.embedding_costs import EmbeddingCosts
from shared.ingest.index.finish import Finisher
from shared.ingest.index.reuse import stored_vectors
from shared.ingest.index.writer import ChunkPoints, PointWriter
from shared.ledger.work.indexing import IndexWork
from shared.providers.embedding import Embedder, Input, Prefixes, embed_each, pack
from shared.providers.limiter.limiter import Limiter
from shared.vectors.index import Index
from shared.vectors.schema.points import PointContext, points_of, with_questions

_MISCONFIGURED_PAUSE = timedelta(minutes=1)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Indexer:
    """The dependencies of the stage for the chunks of one embedding.

    Args:
        slots: maximum batches in progress.
        max_given: maximum ready-made questions of a chunk.
        request_inputs: maximum inputs of one embedding request.
        request_tokens: maximum estimated tokens of one embedding request.
        embedder: the embedding model.
        limiter: limiter of its provider.
        floor: lowest similarity of a question and its text that passes.
        space: vector space, which a collection must have.
    """

    slots: int
    max_given: int
    request_inputs: int
    request_tokens: int
    work: IndexWork
    embedder: Embedder
    limiter: Limiter
    index: Index
    wakeups: Wakeups
    policy: RetryPolicy
    floor: float | None
    space: str
    finisher: Finisher


@dataclass(frozen=True, slots=True)
class _Embedded:
    """The vectors of a chunk.

    Args:
        vectors: vectors of its text, of each passed question and of each accepted question, in order, each of shape
            `(dimensions,)`; an error instead of a vector that the provider refuses.
        keeps_text: whether the point of its text, from which the vector was read, need not be written again.
    """

    vectors: Sequence[Vectors | Permanent]
    keeps_text: bool


@dataclass(frozen=True, slots=True)
class _FilteredChunk:
    """A chunk with the vector of its text only, all its questions, and the passed ones with their vectors.

    `may_keep_text` is whether the point of its text has been written with this vector. Users' questions (`accepted`)
    are not filtered.
    """

    chunk: ChunkToIndex
    text: Vectors | Permanent
    may_keep_text: bool
    filtered: Sequence[FilteredQuestion]
    passed: Sequence[tuple[str, Vectors]]
    accepted: Sequence[tuple[AcceptedQuestion, Vectors | Permanent]]

    @property
    def questions(self) -> list[str]:
        """The passed questions that are not disabled."""
        disabled = self.chunk.disabled_questions
        return [question for question, _ in self.passed if not disabled or plain(question) not in disabled]

    @property
    def extended_text(self) -> str | None:
        """The text with its questions or its context; None if the plain text is embedded, or cannot be embedded."""
        prepends = bool(self.chunk.options.prepend_questions and self.questions)
        if isinstance(self.text, Permanent) or not (prepends or self.chunk.context):
            return None
        text = self.chunk.content.text
        text = with_questions(text, self.questions) if prepends else text
        return text if self.chunk.context is None else self.chunk.context.around(text)

    @property
    def keeps_text(self) -> bool:
        return self.may_keep_text and self.extended_text is None


IndexBatch = Sequence[ChunkToIndex]
Outcomes = Sequence[IndexOutcome | FailedAttempt]


class IndexStage(Stage[IndexBatch, Outcomes]):
    """The stage of a worker that serves some embeddings, over one ledger and one index.

    It divides its slots between the embeddings: a slow or unavailable provider does not delay chunks of others.
    Embeddings share Qdrant and the processor, too. While one embedding has more uploads than its share, as during a
    migration, each of the others processes one batch at a time.
    """

    name = "index"
    linger = timedelta(milliseconds=200)

    def __init__(self, indexers: Collection[Indexer]) -> None:
        self.slots = sum(indexer.slots for indexer in indexers)
        self._indexers = {indexer.embedder.name: indexer for indexer in indexers}
        self._any = next(iter(indexers))
        self._costs = EmbeddingCosts()
        self._in_progress = Counter[str]()
        self._over_limit = set[str]()  # embeddings with uploads left after their last claim

    async def claim(self, limit: int, held: Mapping[str, int]) -> list[IndexBatch]:
        """Claim up to a number of batches, of each embedding at most its share."""
        del held
        served = await self._served_now()
        self._over_limit &= set(served)
        batches: list[IndexBatch] = []
        for name in sorted(served, key=lambda name: name not in self._over_limit):
            free = min(limit - len(batches), self._share(name) - self._in_progress[name])
            try:
                batches += await self._claim(name, free)
            except Transient:
                if not batches:  # otherwise the claimed ones would wait until their leases expire
                    raise
                break
        return batches

    async def claim_suspect(self) -> list[IndexBatch]:
        served = await self._served_now()
        chunks = await self._any.work.claim(1, embeddings=served, suspects=True) if served else []
        return [chunks] if chunks else []

    async def process(self, batch: IndexBatch, require_lease: Callable[[], None]) -> Outcomes:
        name = batch[0].embedding_model
        self._in_progress[name] += 1
        try:
            return await index_batch(self._indexers[name], batch, require_lease, self._costs)
        finally:
            self._in_progress[name] -= 1

    async def _served_now(self) -> list[str]:
        """Return the embeddings whose providers are not paused; raise if Qdrant is unavailable."""
        served = [name for name, indexer in self._indexers.items() if not await indexer.limiter.paused()]
        if served:
            await self._any.index.require()
        return served

    def _share(self, name: str) -> int:
        return 1 if self._over_limit and name not in self._over_limit else self._indexers[name].slots

    async def _claim(self, name: str, slots: int) -> list[IndexBatch]:
        if slots <= 0:
            return []
        chunks = await self._any.work.claim(slots * BATCH_CHUNKS, embeddings=[name])
        is_full = len(chunks) == slots * BATCH_CHUNKS
        if len(self._indexers) > 1 and is_full:
            self._any.wakeups.wake("index")  # the share is full, which the drain notices only if all shares are
        uploads = sum(chunk.lane == 0 for chunk in chunks)
        (self._over_limit.add if is_full and uploads > len(chunks) / 2 else self._over_limit.discard)(name)
        # Chunks without questions are quick, and must not wait for the embedding of questions. A batch may hold chunks
        # of many collections; few batches hold each.
        chunks.sort(key=lambda chunk: (not chunk.text_only, chunk.index_name))
        return [chunks[start : start + BATCH_CHUNKS] for start in range(0, len(chunks), BATCH_CHUNKS)]

    async def settle(self, batches: Sequence[Outcomes]) -> None:
        outcomes = [outcome for batch in batches for outcome in batch]
        failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
        indexed = [o for o in outcomes if isinstance(o, IndexOutcome)]
        changed = {o.chunk.document_id for o in indexed}
        if failed:
            changed |= await self._any.work.settle_failed(failed)
        if indexed:
            await self._any.work.settle(indexed)
        if any(o.chunk.text_only for o in indexed):
            self._any.wakeups.wake("generate")
        if changed and await self._any.finisher.finish(sorted(changed)):
            self._any.wakeups.wake("index")

    def leases_of(self, batch: IndexBatch) -> list[Lease]:
        return [chunk.lease for chunk in batch]

    def describe(self, batch: IndexBatch) -> dict[str, str | int]:
        return _description(batch)

    def traced(self, batch: IndexBatch) -> dict[str, dict[str, str | int]]:
        """Return the traces of the documents, each with its part of the batch."""
        traced: dict[str, list[ChunkToIndex]] = {}
        for chunk in batch:
            if chunk.traceparent:
                traced.setdefault(chunk.traceparent, []).append(chunk)
        return {traceparent: _description(chunks) for traceparent, chunks in traced.items()}

    async def extend(self, leases: Sequence[Lease]) -> LeaseExtension:
        return await self._any.work.extend(leases)

    async def release(self, leases: Sequence[Lease], called: Sequence[Lease] = ()) -> None:
        del called
        await self._any.work.release(leases, self._costs.take(leases))

    async def expire(self, leases: Sequence[Lease]) -> None:
        await self._any.work.release(leases, self._costs.take(leases), lost=True)

    def full(self) -> None:
        self._any.wakeups.wake("index")


def _description(batch: IndexBatch) -> dict[str, str | int]:
    first = batch[0]
    ids = {"chunk_id": str(first.lease.id), "document_id": str(first.document_id)}
    return {"chunks": len(batch), **ids, "collection_id": str(first.collection_id), "tenant": first.tenant}


def _held() -> None:
    """No-op lease check for callers without a drain."""


async def index_batch(
    indexer: Indexer,
    batch: IndexBatch,
    require_lease: Callable[[], None] = _held,
    costs: EmbeddingCosts | None = None,
) -> Outcomes:
    """Embed and upsert chunks of the indexer's embedding; failures do not affect others.

    A chunk that ends dead keeps the points that the ledger has recorded, and its text is stored alone if possible.
    Qdrant may have written other points of a rejected request: they are deleted first. `require_lease` ends the attempt
    if the leases may have expired. `costs` is updated at once, so that a released batch is charged, too.
    """
    costs = costs or EmbeddingCosts()
    return costs.charge(await _index_batch(indexer, batch, require_lease, costs))


async def _index_batch(
    indexer: Indexer, batch: IndexBatch, require_lease: Callable[[], None], costs: EmbeddingCosts
) -> Outcomes:
    outcomes = await _try_batch(indexer, batch, require_lease, costs)
    dead = {o.lease: o.decision for o in outcomes if isinstance(o, FailedAttempt) and isinstance(o.decision, Dead)}
    if not dead:
        return outcomes
    try:
        await indexer.finisher.delete_unrecorded([chunk for chunk in batch if chunk.lease in dead])
    except Permanent as error:  # the chunk is dead anyway, and `foreask verify` reports its points
        log.warning("deletion.refused", **_description(batch), reason=error.message)
    except ForeaskError as error:
        failed = {chunk.lease: _failed(indexer, chunk, error) for chunk in batch if chunk.lease in dead}
        return [failed.get(o.lease, o) if isinstance(o, FailedAttempt) else o for o in outcomes]
    texts = [
        replace(c, questions=(), accepted=(), context=None, error=dead[c.lease].reason)
        for c in batch
        if _lacks_text(c, dead)
    ]
    tried = await _try_batch(indexer, texts, require_lease, costs) if texts else []
    stored = {o.chunk.lease: o for o in tried if isinstance(o, IndexOutcome)}
    return [stored.get(o.lease, o) if isinstance(o, FailedAttempt) else o for o in outcomes]


def _lacks_text(chunk: ChunkToIndex, dead: Collection[Lease]) -> bool:
    """Return whether a chunk died with its questions, and its text alone may still be stored.

    Another version of the chunk may be live, and its text must not be lost with the questions of this version. A text
    that may have killed its workers is not tried again.
    """
    has_more = bool(chunk.questions or chunk.accepted)
    return chunk.lease in dead and has_more and not chunk.has_text and not poison.is_poison(chunk.lost_leases)


async def _try_batch(
    indexer: Indexer, batch: IndexBatch, require_lease: Callable[[], None], costs: EmbeddingCosts
) -> Outcomes:
    sound, outcomes = _indexable(indexer, batch)
    outcomes += [IndexOutcome(chunk, [], 0, chunk.error) for chunk in sound if chunk.content.is_undescribed]
    sound = [chunk for chunk in sound if not chunk.content.is_undescribed]
    sound, waiting = await _writable(indexer, sound)
    outcomes += waiting
    try:
        filtered = [_filter(chunk, indexer.max_given) for chunk in sound]
        vectors = await _embed(indexer, sound, filtered, costs)
        graded = [_grade(indexer, *parts) for parts in zip(sound, filtered, vectors, strict=True)]
        text_vectors = await _text_vectors(indexer, graded, costs)
        errors = await _write(
            indexer, [_points(*parts) for parts in zip(graded, text_vectors, strict=True)], require_lease
        )
    except Exception as raised:  # noqa: BLE001 - a bug costs one attempt, with the calls that it has paid
        error = failure_of(raised)
        return outcomes + [_failed(indexer, chunk, error) for chunk in sound]
    return outcomes + [
        _failed(indexer, one.chunk, errors[one.chunk.lease]) if one.chunk.lease in errors else _indexed(one)
        for one in graded
    ]


def _indexable(indexer: Indexer, batch: IndexBatch) -> tuple[list[ChunkToIndex], list[IndexOutcome | FailedAttempt]]:
    """Fail chunks that are poison, or whose collection's vectors cannot be compared with this worker's."""
    sound: list[ChunkToIndex] = []
    failed: list[IndexOutcome | FailedAttempt] = []
    for chunk in batch:
        try:
            poison.check(chunk.lost_leases)
            _require_space(indexer, chunk)
        except ForeaskError as error:
            failed.append(_failed(indexer, chunk, error))
        else:
            sound.append(chunk)
    return sound, failed


async def _writable(
    indexer: Indexer, chunks: Sequence[ChunkToIndex]
) -> tuple[list[ChunkToIndex], list[IndexOutcome | FailedAttempt]]:
    """Fail chunks of collections that still take no points, because their embeddings would be paid in vain."""
    refused: dict[str, Transient] = {}
    for name in {chunk.index_name for chunk in chunks}:
        try:
            await indexer.index.writable(name)
        except Transient as error:
            refused[name] = error
    writable = [chunk for chunk in chunks if chunk.index_name not in refused]
    return writable, [_failed(indexer, c, refused[c.index_name]) for c in chunks if c.index_name in refused]


def _require_space(indexer: Indexer, chunk: ChunkToIndex) -> None:
    """Reject a chunk whose collection was created when the embedding's name had another meaning.

    Raises:
        Misconfigured: it waits for a worker with the earlier settings.
    """
    if not is_in_space(chunk.index_name, indexer.space):
        raise Misconfigured(
            f"the embedding '{chunk.embedding_model}' had another model, size or prefix when its collection was made",
            component="embedding",
            retry_after=_MISCONFIGURED_PAUSE,
        )


def _filter(chunk: ChunkToIndex, most_given: int) -> list[FilteredQuestion]:
    if chunk.text_only:
        return []
    if chunk.ready_made:
        too_many = f"more than the {most_given} ready-made questions that a chunk may have"
        return [
            FilteredQuestion(question, passed=position < most_given, reason=None if position < most_given else too_many)
            for position, question in enumerate(chunk.questions)
        ]
    return filter_by_text(chunk.questions, chunk.content)


async def _embed(
    indexer: Indexer,
    chunks: Sequence[ChunkToIndex],
    filtered: Sequence[Sequence[FilteredQuestion]],
    costs: EmbeddingCosts,
) -> list[_Embedded]:
    """Embed texts, passed questions and users' questions in as few requests as the limits allow."""
    questions = [
        [*(q.text for q in qs if q.passed), *(accepted.question for accepted in c.accepted)]
        for c, qs in zip(chunks, filtered, strict=True)
    ]
    stored = await stored_vectors(indexer.work, indexer.index, list(zip(chunks, questions, strict=True)))
    needed = [(c, one) for c, of_chunk in zip(chunks, questions, strict=True) for one in (None, *of_chunk)]
    prefixes = indexer.embedder.prefixes
    new = [(c, _input(prefixes, c, one)) for c, one in needed if (c.lease, one) not in stored]
    vectors = await _embed_all(indexer, new, costs)
    _require_same_size(stored.values(), vectors)
    embedded = iter(vectors)
    found = (stored[c.lease, one] if (c.lease, one) in stored else next(embedded) for c, one in needed)
    return [
        _Embedded(list(islice(found, 1 + len(of_chunk))), keeps_text=_keeps_text(c) and (c.lease, None) in stored)
        for c, of_chunk in zip(chunks, questions, strict=True)
    ]


def _keeps_text(chunk: ChunkToIndex) -> bool:
    """Return whether the point of a chunk's text is as it would be written now.

    It is, if the first claim for its questions follows the claim that wrote the text. Later claims repair a chunk.
    """
    return chunk.has_text and not chunk.may_have_points


def _require_same_size(stored: Iterable[Vectors], new: Iterable[Vectors | Permanent]) -> None:
    """Reject vectors that cannot be compared with the stored ones.

    Raises:
        Misconfigured: the model returns other vectors than when the collection was built.
    """
    before = {len(vector) for vector in stored}
    now = {len(vector) for vector in new if not isinstance(vector, Permanent)}
    if before and not now <= before:
        raise Misconfigured(
            f"the embedding model returns {max(now)} dimensions, and the stored vectors have {max(before)}: its server"
            " has another model under this name",
            component="embedding",
            retry_after=_MISCONFIGURED_PAUSE,
        )


def _input(prefixes: Prefixes, chunk: ChunkToIndex, question: str | None) -> Input:
    return prefixes.passage(chunk.content.text) if question is None else prefixes.query(question)


async def _embed_all(
    indexer: Indexer, of_chunks: Sequence[tuple[ChunkToIndex, Input]], costs: EmbeddingCosts
) -> list[Vectors | Permanent]:
    """Embed texts of chunks; an error of one request is raised after the other requests, which are billed."""
    chunks, texts = [chunk for chunk, _ in of_chunks], [text for _, text in of_chunks]
    ranges = pack(texts, max_inputs=indexer.request_inputs, max_tokens=indexer.request_tokens)
    embedding = []
    for r in ranges:
        some = texts[r.start : r.stop]
        embedding.append(embed_each(indexer.embedder, some, partial(costs.bill, chunks[r.start : r.stop], some)))
    vectors: list[Vectors | Permanent] = []
    for part in await asyncio.gather(*embedding, return_exceptions=True):
        if isinstance(part, BaseException):
            raise part
        vectors += part
    return vectors


def _grade(
    indexer: Indexer, chunk: ChunkToIndex, filtered: Sequence[FilteredQuestion], embedded: _Embedded
) -> _FilteredChunk:
    """Drop questions that cannot be embedded or whose vectors fail the filter."""
    passed = [question for question in filtered if question.passed]
    vectors = embedded.vectors
    text, others, of_users = vectors[0], vectors[1 : 1 + len(passed)], vectors[1 + len(passed) :]
    usable = [(q, v) for q, v in zip(passed, others, strict=True) if not isinstance(v, Permanent)]
    refused = [
        replace(q, passed=False, reason=f"could not be embedded: {v.message}")
        for q, v in zip(passed, others, strict=True)
        if isinstance(v, Permanent)
    ]
    graded = [question for question, _ in usable]
    if usable and not isinstance(text, Permanent):
        vectors_of_usable = np.stack([v for _, v in usable])
        graded = filter_by_similarity(graded, vectors_of_usable, text, indexer.floor, keep_alike=chunk.ready_made)
    with_vectors = [(q.text, v) for q, (_, v) in zip(graded, usable, strict=True) if q.passed]
    all_questions = [*graded, *refused, *(q for q in filtered if not q.passed)]
    accepted = list(zip(chunk.accepted, of_users, strict=True))
    return _FilteredChunk(chunk, text, embedded.keeps_text, all_questions, with_vectors, accepted)


async def _text_vectors(
    indexer: Indexer, graded: Sequence[_FilteredChunk], costs: EmbeddingCosts
) -> list[Vectors | None]:
    """Return the vector of each chunk's text; None if the provider rejects the text.

    If the provider rejects an extended text as too long, the plain text's vector is used.
    """
    extended = [chunk.extended_text for chunk in graded]
    longer = [
        (chunk.chunk, indexer.embedder.prefixes.passage(text))
        for chunk, text in zip(graded, extended, strict=True)
        if text is not None
    ]
    embedded = iter(await _embed_all(indexer, longer, costs))
    vectors = [c.text if text is None else next(embedded) for c, text in zip(graded, extended, strict=True)]
    chosen = [chunk.text if isinstance(v, Permanent) else v for chunk, v in zip(graded, vectors, strict=True)]
    return [None if isinstance(vector, Permanent) else vector for vector in chosen]


def _points(graded: _FilteredChunk, text_vector: Vectors | None) -> ChunkPoints:
    chunk = graded.chunk
    context = PointContext(
        location=chunk.location,
        document_id=chunk.document_id,
        public_id=chunk.public_id,
        chunk_id=chunk.lease.id,
        version=chunk.lease.version,
        token=chunk.lease.token,
        ordinal=chunk.ordinal,
        external_id=chunk.external_id,
        created_at=chunk.created_at,
        filename=chunk.filename,
        metadata=chunk.metadata,
        readable_by=chunk.readable_by,
        filterable=chunk.options.filterable,
        hidden=chunk.hidden,
    )
    accepted = [(question, vector) for question, vector in graded.accepted if not isinstance(vector, Permanent)]
    points = points_of(
        chunk.content,
        context,
        text_vector,
        graded.passed,
        accepted,
        chunk_context=chunk.context,
        extended=graded.extended_text is not None and text_vector is not graded.text,
        given=chunk.ready_made,
        keeps_text=graded.keeps_text,
        disabled=chunk.disabled_questions,
    )
    return ChunkPoints(chunk, points, keeps_text=graded.keeps_text)


def _indexed(graded: _FilteredChunk) -> IndexOutcome:
    """Return the outcome that the ledger records when the chunk's points are stored."""
    chunk, text = graded.chunk, graded.text
    recorded = [question.as_json() for question in graded.filtered]
    error = chunk.error or (f"its text could not be embedded: {text.message}" if isinstance(text, Permanent) else None)
    return IndexOutcome(
        chunk, recorded, len(graded.passed), error, [(question, _state(vector)) for question, vector in graded.accepted]
    )


def _state(vector: Vectors | Permanent) -> AcceptedState:
    return AcceptedState.REFUSED if isinstance(vector, Permanent) else AcceptedState.INDEXED


async def _write(
    indexer: Indexer, chunks: Sequence[ChunkPoints], require_lease: Callable[[], None]
) -> dict[Lease, ForeaskError]:
    """Write the points to their collections concurrently; return the errors of chunks without points."""
    of_collections: dict[str, list[ChunkPoints]] = {}
    for each in chunks:
        of_collections.setdefault(each.chunk.index_name, []).append(each)
    if not of_collections:
        return {}
    writer = PointWriter(indexer.index, await indexer.embedder.dimensions(), require_lease)
    errors = await asyncio.gather(*(writer.write(name, of_one) for name, of_one in of_collections.items()))
    return {lease: error for of_one in errors for lease, error in of_one.items()}


def _failed(indexer: Indexer, chunk: ChunkToIndex, error: ForeaskError) -> FailedAttempt:
    decision = decide(error, chunk.attempts, indexer.policy, random.random)
    return FailedIndexing(chunk.lease, decision, chunk=chunk)
