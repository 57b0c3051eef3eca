"""Finds gaps: adds unanswered questions to groups of questions that mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from uuid import UUID

import numpy as np

from features.gaps.grouping import MAX_QUESTIONS, group, min_cosine_of
from features.gaps.ledger import GapQuestion, Gaps, Leader, QuestionVector
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Refused
from shared.domain.vectors import Vectors
from shared.providers.embedding import pack
from shared.query.retrieve.retriever import Retriever

_BATCH_INPUTS, _BATCH_TOKENS = 64, 8_000  # of one request for embeddings
_MOST_AT_ONCE = 500  # questions that one call embeds: the embedded model needs 2 s for them
_DAY = timedelta(days=1)
_MOST_REFUSED = 16  # requests, if none was accepted: the provider would refuse the other questions, too


class GapFinder:
    """Adds unanswered questions to gaps. Each question is embedded once, and its vector stored in the query log.

    Args:
        retriever: embeds questions as users' queries do, and remembers the vectors of recent ones.
        gaps: gaps in the ledger.
    """

    def __init__(self, retriever: Retriever, gaps: Gaps) -> None:
        self._retriever = retriever
        self._gaps = gaps
        self._busy = set[UUID]()

    async def add(self, collection: Collection, asked: Sequence[GapQuestion]) -> bool:
        """Add up to 500 unanswered questions to gaps; return whether anything changed.

        While another call of this process works on the collection, it does nothing, so that no question is paid twice.

        Args:
            collection: the collection.
            asked: its questions, most recently asked first. The newest 5,000 questions without an answer are added.

        Raises:
            Conflict: no setting describes the collection's embedding.
            Refused: the provider refuses each question.
            Transient: the embedding provider is not available. The questions embedded before are added.
        """
        if collection.id in self._busy:
            return False
        self._busy.add(collection.id)
        try:
            return await self._add(collection, ungrouped(asked))
        finally:
            self._busy.discard(collection.id)

    async def carry(self, collection: Collection, asked: Sequence[GapQuestion], since: datetime) -> None:
        """Store gaps with newer queries of their questions, too, before the queries that store them expire.

        Args:
            collection: the collection.
            asked: its questions.
            since: time of the oldest query that is retained.
        """
        if due := [question for question in asked if _is_due(question, since)]:
            await self._gaps.carry(collection, due)

    async def _add(self, collection: Collection, questions: Sequence[GapQuestion]) -> bool:
        if not questions:
            return False
        chosen = questions[::-1][:_MOST_AT_ONCE]
        most = MAX_QUESTIONS - len(chosen)
        if not await self._renew_leaders(collection, most):
            return True
        embedder = _Embedder(self._retriever, collection)
        for part in pack([each.question for each in chosen], max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS):
            texts = [chosen[index].question for index in part]
            vectors = await embedder.vectors(texts)
            new = [
                QuestionVector(chosen[index].id, text, _bytes_of(vector))
                for index, text, vector in zip(part, texts, vectors, strict=True)
            ]
            await self._gaps.add(collection, collection.embedding_model, new, _Grouping(collection), most)
        return True

    async def _renew_leaders(self, collection: Collection, most: int) -> bool:
        """Embed leaders again if the collection has another embedding now; return whether all leaders are embedded."""
        leaders = await self._gaps.leaders(collection, most)
        outdated = [leader for leader in leaders if leader.embedding != collection.embedding_model]
        chosen = outdated[:_MOST_AT_ONCE]
        embedder = _Embedder(self._retriever, collection)
        for part in pack(
            [each.question_vector.question for each in chosen], max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS
        ):
            some = [chosen[index] for index in part]
            vectors = await embedder.vectors([each.question_vector.question for each in some])
            renewed = [
                Leader(each.gap_id, collection.embedding_model, replace(each.question_vector, vector=_bytes_of(vector)))
                for each, vector in zip(some, vectors, strict=True)
            ]
            await self._gaps.replace_vectors(collection, renewed)
        return len(chosen) == len(outdated)


class _Embedder:
    """Embeds questions of a collection. A question that the provider refuses gets zeros, which are similar to none."""

    def __init__(self, retriever: Retriever, collection: Collection) -> None:
        self._retriever = retriever
        self._collection = collection
        self._accepted = False
        self._refusals: list[Refused] = []

    async def vectors(self, texts: Sequence[str]) -> Vectors:
        """Return vectors of shape (texts, dimension).

        Raises:
            Refused: the provider has refused each question until now, so it would refuse the others, too.
        """
        vectors = await self._halved(texts)
        if not self._accepted:
            raise self._refusals[-1]
        return vectors

    async def _halved(self, texts: Sequence[str]) -> Vectors:
        try:
            vectors = await self._retriever.question_vectors(texts, self._collection)
        except Refused as refusal:
            self._refusals.append(refusal)
            if not self._accepted and len(self._refusals) >= _MOST_REFUSED:
                raise
            if len(texts) == 1:
                return np.zeros((1, 1), dtype=np.float32)
        else:
            self._accepted = True
            return vectors
        middle = len(texts) // 2
        parts = [await self._halved(half) for half in (texts[:middle], texts[middle:])]
        width = max(part.shape[1] for part in parts)
        return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])


class _Grouping:
    """Decides the gaps of vectors of a collection, as `features.gaps.ledger.Grouper`."""

    def __init__(self, collection: Collection) -> None:
        self._min_cosine = min_cosine_of(collection.baseline)

    def __call__(self, leaders: Sequence[bytes], new: Sequence[bytes]) -> list[int]:
        if not new:
            return []
        vectors = [_vector_of(each) for each in (*leaders, *new)]
        width = max(len(vector) for vector in vectors)
        table = np.stack([np.pad(vector, (0, width - len(vector))) for vector in vectors])
        # Leaders stay apart, even if another embedding finds two of them similar.
        assigned = group(table, self._min_cosine, leaders=len(leaders))
        return [int(row) for row in assigned[len(leaders) :]]


def ungrouped(asked: Sequence[GapQuestion]) -> list[GapQuestion]:
    """Return the newest unanswered questions that are in no gap yet, most recently asked first."""
    unanswered = [question for question in asked if not question.answered][:MAX_QUESTIONS]
    return [question for question in unanswered if question.gap_id is None]


def _is_due(question: GapQuestion, since: datetime) -> bool:
    """Return whether the newest query of a question should store its gap, too.

    That is once a day, and when the query that stores the gap expires within a day.
    """
    stored_at = question.gap_stored_at
    if stored_at is None or stored_at >= question.last_at:
        return False
    return question.last_at - stored_at >= _DAY or stored_at - since <= _DAY


def _bytes_of(vector: Vectors) -> bytes:
    return vector.astype(np.float16).tobytes()


def _vector_of(stored: bytes) -> Vectors:
    return np.frombuffer(stored, dtype=np.float16).astype(np.float32)
