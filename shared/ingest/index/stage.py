"""Index: questions are filtered, embedded with their chunk and written to Qdrant; whole documents are finished.

A batch takes chunks of many documents and goes through as one: one round of embedding requests, one upsert, one
settlement. Where a collection's questions are prepended to its texts there is a second round, for which questions are
kept is judged by the vector of the text alone.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from itertools import groupby, islice
from typing import TypeVar
from uuid import UUID

import numpy as np
import structlog

from shared.broker.wakeups import Wakeups
from shared.domain import poison
from shared.domain.errors import ForeaskError, Permanent
from shared.domain.outcomes import FailedAttempt, IndexOutcome
from shared.domain.records import AcceptedQuestion, AcceptedState, ChunkToIndex, FinishableDocument, Sweep
from shared.domain.retry import RetryPolicy, decide
from shared.domain.vectors import Vectors
from shared.ingest.drain import Stage
from shared.ingest.generate import ChunkInput, FilteredQuestion, filter_by_similarity, filter_by_text
from shared.ledger.feedback import Feedback
from shared.ledger.work import Work
from shared.providers.embedding import Embedder, embed_each, pack
from shared.providers.limiter.limiter import Limiter
from shared.settings import Settings
from shared.storage.uploads import Uploads
from shared.vectors.index import Index
from shared.vectors.points import Point, points_of, with_questions

_BATCH_CHUNKS = 32

T = TypeVar("T")
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Indexer:
    """What the stage needs."""

    settings: Settings
    work: Work
    embedder: Embedder
    limiter: Limiter
    index: Index
    wakeups: Wakeups
    policy: RetryPolicy
    floor: float | None
    uploads: Uploads
    feedback: Feedback


@dataclass(frozen=True, slots=True)
class Cleaner:
    """What the scheduler cleans up with."""

    work: Work
    index: Index
    uploads: Uploads
    feedback: Feedback


@dataclass(frozen=True, slots=True)
class _FilteredChunk:
    """A chunk with the vector of its text alone, all its questions, and those that are kept with their vectors.

    Users' questions, `accepted`, are not judged.
    """

    chunk: ChunkToIndex
    text: Vectors | Permanent
    filtered: Sequence[FilteredQuestion]
    passed: Sequence[tuple[str, Vectors]]
    accepted: Sequence[tuple[AcceptedQuestion, Vectors | Permanent]]

    @property
    def questions(self) -> list[str]:
        return [question for question, _ in self.passed]

    @property
    def prepends(self) -> bool:
        wanted = self.chunk.options.prepend_questions
        return bool(wanted and self.passed) and not isinstance(self.text, Permanent)


IndexBatch = Sequence[ChunkToIndex]
Outcomes = Sequence[IndexOutcome | FailedAttempt]


def index_stage(indexer: Indexer) -> Stage[IndexBatch, Outcomes]:
    work = indexer.work
    return Stage(
        name="index",
        slots=indexer.settings.tuning.embedding_max_in_flight,
        linger=timedelta(milliseconds=200),
        claim=partial(_claim, indexer),
        claim_suspect=partial(_claim_suspect, indexer),
        work=partial(index_batch, indexer),
        settle=partial(_settle, indexer),
        leases_of=lambda batch: [chunk.lease for chunk in batch],
        extend=partial(work.extend, "chunks"),
        give_back=partial(work.give_back, "chunks"),
        full=lambda: indexer.wakeups.wake("index"),
    )


async def _claim(indexer: Indexer, slots: int) -> list[IndexBatch]:
    if await indexer.limiter.paused():
        return []
    await indexer.index.require()
    chunks = await indexer.work.claim_to_index(slots * _BATCH_CHUNKS)
    # One upsert goes to one collection.
    chunks.sort(key=lambda chunk: chunk.index_name)
    return [
        own[start : start + _BATCH_CHUNKS]
        for _, group in groupby(chunks, key=lambda chunk: chunk.index_name)
        for own in [list(group)]
        for start in range(0, len(own), _BATCH_CHUNKS)
    ]


async def _claim_suspect(indexer: Indexer) -> list[IndexBatch]:
    if await indexer.limiter.paused():
        return []
    await indexer.index.require()
    chunks = await indexer.work.claim_to_index(1, suspects=True)
    return [chunks] if chunks else []


async def index_batch(indexer: Indexer, batch: IndexBatch) -> Outcomes:
    """Embed and upsert chunks of one collection; a chunk that cannot be indexed fails alone."""
    sound, outcomes = _sound(indexer, batch)
    try:
        filtered = [_screen(chunk) for chunk in sound]
        vectors = await _embed(indexer, sound, filtered)
        judged = [_judge(indexer, *parts) for parts in zip(sound, filtered, vectors, strict=True)]
        text_vectors = await _text_vectors(indexer, judged)
        points = [_points(*parts) for parts in zip(judged, text_vectors, strict=True)]
        await _upsert(indexer, sound, [point for own in points for point in own])
    except ForeaskError as error:
        return outcomes + [_failed(indexer, chunk, error) for chunk in sound]
    return outcomes + [_indexed(one) for one in judged]


def _sound(indexer: Indexer, batch: IndexBatch) -> tuple[list[ChunkToIndex], list[IndexOutcome | FailedAttempt]]:
    """Set aside what has ended too many workers, and what another embedding model was chosen for."""
    sound: list[ChunkToIndex] = []
    failed: list[IndexOutcome | FailedAttempt] = []
    for chunk in batch:
        try:
            poison.check(chunk.lost_leases)
            _check_model(indexer, chunk)
        except ForeaskError as error:
            failed.append(_failed(indexer, chunk, error))
        else:
            sound.append(chunk)
    return sound, failed


def _check_model(indexer: Indexer, chunk: ChunkToIndex) -> None:
    if chunk.embedding_model != indexer.embedder.name:
        raise Permanent(
            f"The collection was built with the embedding model {chunk.embedding_model} and the workers have"
            f" {indexer.embedder.name}: set FOREASK_EMBEDDING_MODEL back, or index into a new collection."
        )


def _screen(chunk: ChunkToIndex) -> list[FilteredQuestion]:
    if chunk.ready_made:
        return [FilteredQuestion(question, passed=True) for question in chunk.questions]
    return filter_by_text(chunk.questions, ChunkInput(chunk.text, chunk.title, chunk.heading_path))


async def _embed(
    indexer: Indexer, chunks: Sequence[ChunkToIndex], filtered: Sequence[Sequence[FilteredQuestion]]
) -> list[list[Vectors | Permanent]]:
    """Embed texts, kept questions and users' questions in as few requests as the limits allow.

    Returns:
        For each chunk the vector of its text, of each kept question and of each of its users', or the reason why there
        is none.
    """
    own = [
        [c.text, *(q.text for q in qs if q.passed), *(own.question for own in c.accepted)]
        for c, qs in zip(chunks, filtered, strict=True)
    ]
    vectors = iter(await _embed_all(indexer, [text for texts in own for text in texts]))
    return [list(islice(vectors, len(texts))) for texts in own]


async def _embed_all(indexer: Indexer, texts: Sequence[str]) -> list[Vectors | Permanent]:
    tuning = indexer.settings.tuning
    ranges = pack(texts, max_inputs=tuning.embedding_batch_size, max_tokens=tuning.embedding_batch_tokens)
    parts = await asyncio.gather(*(embed_each(indexer.embedder, texts[r.start : r.stop]) for r in ranges))
    return [vector for part in parts for vector in part]


def _judge(
    indexer: Indexer, chunk: ChunkToIndex, filtered: Sequence[FilteredQuestion], vectors: Sequence[Vectors | Permanent]
) -> _FilteredChunk:
    """Drop kept questions that cannot be embedded, or that their vectors speak against; `vectors` as of `_embed`."""
    passed = [question for question in filtered if question.passed]
    text, others, of_users = vectors[0], vectors[1 : 1 + len(passed)], vectors[1 + len(passed) :]
    usable = [(q, v) for q, v in zip(passed, others, strict=True) if not isinstance(v, Permanent)]
    refused = [
        replace(q, passed=False, reason=f"could not be embedded: {v.message}")
        for q, v in zip(passed, others, strict=True)
        if isinstance(v, Permanent)
    ]
    judged = [question for question, _ in usable]
    if usable and not isinstance(text, Permanent) and not chunk.ready_made:
        judged = filter_by_similarity(judged, np.stack([v for _, v in usable]), text, indexer.floor)
    kept = [(q.text, v) for q, (_, v) in zip(judged, usable, strict=True) if q.passed]
    all_questions = [*judged, *refused, *(q for q in filtered if not q.passed)]
    return _FilteredChunk(chunk, text, all_questions, kept, list(zip(chunk.accepted, of_users, strict=True)))


async def _text_vectors(indexer: Indexer, judged: Sequence[_FilteredChunk]) -> list[Vectors | None]:
    """The vector that stands for each chunk's text, None where the provider refuses the text.

    What it refuses only with the questions in front, such as one that is too long, is found by the text alone.
    """
    longer = [one for one in judged if one.prepends]
    vectors = iter(await _embed_all(indexer, [with_questions(one.chunk.text, one.questions) for one in longer]))
    prepended = [next(vectors) if one.prepends else one.text for one in judged]
    chosen = [one.text if isinstance(v, Permanent) else v for one, v in zip(judged, prepended, strict=True)]
    return [None if isinstance(vector, Permanent) else vector for vector in chosen]


def _points(judged: _FilteredChunk, text_vector: Vectors | None) -> list[Point]:
    accepted = [(own, vector) for own, vector in judged.accepted if not isinstance(vector, Permanent)]
    return points_of(judged.chunk, text_vector, judged.questions, [vector for _, vector in judged.passed], accepted)


def _indexed(judged: _FilteredChunk) -> IndexOutcome:
    """What is recorded of a chunk once its points stand."""
    chunk, text = judged.chunk, judged.text
    recorded = [{"text": q.text, "passed": q.passed, "reason": q.reason} for q in judged.filtered]
    error = chunk.error or (f"its text could not be embedded: {text.message}" if isinstance(text, Permanent) else None)
    return IndexOutcome(
        chunk, recorded, len(judged.passed), error, [(own, _state(vector)) for own, vector in judged.accepted]
    )


def _state(vector: Vectors | Permanent) -> AcceptedState:
    return AcceptedState.REFUSED if isinstance(vector, Permanent) else AcceptedState.INDEXED


async def _upsert(indexer: Indexer, chunks: Sequence[ChunkToIndex], points: Sequence[Point]) -> None:
    if not points:
        return
    dimensions = await indexer.embedder.dimensions()
    await indexer.index.ensure(chunks[0].index_name, dimensions)
    await indexer.index.upsert(chunks[0].index_name, points)


def _failed(indexer: Indexer, chunk: ChunkToIndex, error: ForeaskError) -> FailedAttempt:
    return FailedAttempt(chunk.lease, decide(error, chunk.attempts, indexer.policy, random.random))


async def _settle(indexer: Indexer, batches: Sequence[Outcomes]) -> None:
    outcomes = [outcome for batch in batches for outcome in batch]
    failed = [o for o in outcomes if isinstance(o, FailedAttempt)]
    indexed = [o for o in outcomes if isinstance(o, IndexOutcome)]
    ended = {o.chunk.document_id for o in indexed}
    if failed:
        ended |= await indexer.work.settle_failed_indexing(failed)
    if indexed:
        held = await indexer.work.settle_indexed(indexed)
        await _take_back(indexer, [o.chunk for o in indexed if o.chunk.lease not in held])
    if ended:
        await finish(indexer, sorted(ended))


async def _take_back(indexer: Indexer, stale: Sequence[ChunkToIndex]) -> None:
    """Remove what was written under a claim that had ended, where queries see a newer version or none."""
    if not stale:
        return
    seen = await indexer.work.stale_below([chunk.document_id for chunk in stale])
    for chunk in {chunk.document_id: chunk for chunk in stale}.values():
        below = seen.get(chunk.document_id)
        if below is None or below > chunk.lease.version:
            await indexer.index.delete(chunk.index_name, chunk.tenant, chunk.document_id, below=below)


async def finish(indexer: Indexer | Cleaner, document_ids: Sequence[UUID] | None = None) -> None:
    """Finish documents whose chunks have all ended, among those given or of all; safe to do twice.

    The old version's points go only now, when every point of the new one is confirmed.
    """
    documents = await indexer.work.finishable(document_ids)
    replacing = [d for d in documents if d.version > 1]
    replaced = await _done(replacing, lambda d: indexer.index.replace(d.index_name, d.tenant, d.id, d.version))
    whole = [d for d in documents if d not in replacing or d in replaced]
    if whole:
        await indexer.work.finish(whole)


async def clean(indexer: Indexer | Cleaner) -> None:
    """Finish what a killed worker left unfinished, remove deleted documents' points, and sweep after late writers."""

    async def remove(document: FinishableDocument) -> None:
        await indexer.index.delete(document.index_name, document.tenant, document.id)

    async def sweep(left: Sweep) -> None:
        await indexer.index.delete(left.index_name, left.tenant, left.document_id, below=left.below_version)

    await finish(indexer)
    deleted = await indexer.work.deleted()
    removed = await _done(deleted, remove)
    if removed:
        for upload in await indexer.work.forget(removed):
            indexer.uploads.remove(upload)
    swept = await _done(await indexer.work.due_sweeps(), sweep)
    if swept:
        await indexer.work.settle_sweeps(swept)
    await remove_taken_back(indexer)


async def remove_taken_back(indexer: Indexer | Cleaner) -> None:
    """Remove the points of users' questions that were taken back."""
    async with indexer.feedback.pending_removals() as leaving:
        by_index: dict[str, list[UUID]] = {}
        for question in leaving.questions:
            by_index.setdefault(question.index_name, []).append(question.id)
        removed = await _done(list(by_index), lambda name: indexer.index.discard(name, list(map(str, by_index[name]))))
        await leaving.forget([identity for name in removed for identity in by_index[name]])


async def _done(items: Sequence[T], ask: Callable[[T], Awaitable[None]]) -> list[T]:
    """Ask something of Qdrant for each; return those for which it did it.

    The others are left to the next pass of the reconciler: a collection that Qdrant refuses must hold up no other.
    """
    errors = await asyncio.gather(*(_error_of(ask(item)) for item in items))
    refused = [error for error in errors if error is not None]
    if refused:
        log.warning("qdrant_refused", requests=len(refused), reason=refused[0].message)
    return [item for item, error in zip(items, errors, strict=True) if error is None]


async def _error_of(asked: Awaitable[None]) -> ForeaskError | None:
    try:
        await asked
    except ForeaskError as error:
        return error
    return None
