"""Finds gaps: adds unanswered questions to groups of questions that mean the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import numpy as np

from shared.domain.collections import Collection
from shared.domain.errors import Refused
from shared.domain.vectors import Vectors
from shared.ledger.feedback.gaps import Gaps, Leader, QuestionVector
from shared.ledger.feedback.query_log import LoggedQuestion
from shared.providers.embedding import pack
from shared.query.gaps.grouping import MAX_QUESTIONS, group, min_cosine_of
from shared.query.retrieve.retriever import Retriever

_BATCH_INPUTS, _BATCH_TOKENS = 64, 8_000  # of one request for embeddings
_MOST_AT_ONCE = 500  # questions that one call embeds: the embedded model needs 2 s for them
_CARRY_AFTER = timedelta(days=1)


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

    async def add(self, collection: Collection, asked: Sequence[LoggedQuestion]) -> bool:
        """Add up to 500 unanswered questions to gaps; return whether anything changed.

        While another call of this process works on the collection, it does nothing, so that no question is paid twice.

        Args:
            collection: the collection.
            asked: its questions, most recently asked first. The newest 5,000 questions without an answer are added.

        Raises:
            Conflict: no setting describes the collection's embedding.
            Transient: the embedding provider is not available. The questions embedded before are added.
        """
        if collection.id in self._busy:
            return False
        self._busy.add(collection.id)
        try:
            carried = await self._carry(collection, asked)
            return await self._add(collection, ungrouped(asked)) or carried
        finally:
            self._busy.discard(collection.id)

    async def _carry(self, collection: Collection, asked: Sequence[LoggedQuestion]) -> bool:
        due = [question for question in asked if _is_due(question)]
        if due:
            await self._gaps.carry(collection, due)
        return bool(due)

    async def _add(self, collection: Collection, questions: Sequence[LoggedQuestion]) -> bool:
        if not questions:
            return False
        chosen = questions[::-1][:_MOST_AT_ONCE]
        most = MAX_QUESTIONS - len(chosen)
        if not await self._renew_leaders(collection, most):
            return True
        for part in pack([each.question for each in chosen], max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS):
            texts = [chosen[index].question for index in part]
            vectors = await self._vectors(texts, collection)
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
        for part in pack([each.of.question for each in chosen], max_inputs=_BATCH_INPUTS, max_tokens=_BATCH_TOKENS):
            some = [chosen[index] for index in part]
            vectors = await self._vectors([each.of.question for each in some], collection)
            renewed = [
                Leader(each.gap_id, collection.embedding_model, replace(each.of, vector=_bytes_of(vector)))
                for each, vector in zip(some, vectors, strict=True)
            ]
            await self._gaps.replace_vectors(collection, renewed)
        return len(chosen) == len(outdated)

    async def _vectors(self, texts: Sequence[str], collection: Collection) -> Vectors:
        """Embed questions. A question that the provider refuses gets a vector of zeros, which is similar to none."""
        try:
            return await self._retriever.question_vectors(texts, collection)
        except Refused:
            if len(texts) == 1:
                return np.zeros((1, 1), dtype=np.float32)
            middle = len(texts) // 2
            parts = [await self._vectors(half, collection) for half in (texts[:middle], texts[middle:])]
            width = max(part.shape[1] for part in parts)
            return np.concatenate([np.pad(part, ((0, 0), (0, width - part.shape[1]))) for part in parts])


class _Grouping:
    """Decides the gaps of vectors of a collection, as `shared.ledger.feedback.gaps.Grouper`."""

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


def ungrouped(asked: Sequence[LoggedQuestion]) -> list[LoggedQuestion]:
    """Return the newest unanswered questions that are in no gap yet, most recently asked first."""
    unanswered = [question for question in asked if not question.answered][:MAX_QUESTIONS]
    return [question for question in unanswered if question.gap_id is None]


def _is_due(question: LoggedQuestion) -> bool:
    """Return whether a newer query should store the gap of a question, too: at most one a day does."""
    return question.gap_stored_at is not None and question.last_at - question.gap_stored_at >= _CARRY_AFTER


def _bytes_of(vector: Vectors) -> bytes:
    return vector.astype(np.float16).tobytes()


def _vector_of(stored: bytes) -> Vectors:
    return np.frombuffer(stored, dtype=np.float16).astype(np.float32)
