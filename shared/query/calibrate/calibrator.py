"""Calibration of a collection: by questions whose answers are known, or by itself.

By itself it takes the questions that users have accepted, where there are enough. Without those it chooses no weights:
held-out questions of a model share the words of its texts and so overrate BM25, at a loss of up to 0.18 of nDCG@10 (see
`docs/decisions/0013-calibration-without-labels.md`). What it measures without any label is the background of the
embedding model, and it reports what each channel finds of the questions that there are.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection as Some
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

import numpy as np
import structlog

from shared.domain.errors import ForeaskError, InvalidInput
from shared.domain.records import Collection
from shared.ledger.calibrations import Calibrations, PassedQuestion
from shared.ledger.feedback import Feedback
from shared.providers.embedding import Embedder
from shared.query.calibrate.weights import WeightChoice, calibrate, judge
from shared.query.retrieve.baseline import FEWEST_PAIRS, MOST_PAIRS, baseline_of
from shared.query.retrieve.retriever import Retriever
from shared.vectors.index import Index
from shared.vectors.points import question_id

_MOST_ACCEPTED = 200
_FEWEST_ACCEPTED = 30
_FEWEST_GROWN = 100  # chunks of a collection that is calibrated unasked
_GROWTH = 1.5
_EVERY = timedelta(minutes=10)  # a collection is looked at no more often
_LEASE = timedelta(minutes=5)
_LOOKS = 100  # at collections that have not grown, for one ring

EvidenceSource = Literal["labelled", "accepted", "generated"]
Labelled = tuple[str, Some[str]]  # a question, and the ids of chunks that answer it
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Calibration:
    """What is kept with a collection, and what speaks for it.

    Args:
        judged: the weights and their evidence.
        source: whose questions those are.
        background: of the embedding model; see `shared.query.retrieve.baseline`.
        chunks: how many the collection had.
    """

    judged: WeightChoice
    source: EvidenceSource
    baseline: float
    chunks: int

    def as_json(self) -> dict[str, Any]:
        facts = {"source": self.source, "baseline": self.baseline, "chunks": self.chunks}
        return dataclasses.asdict(self.judged) | facts


class Calibrator:
    """Calibrates collections; it calls no language model."""

    def __init__(
        self, calibrations: Calibrations, feedback: Feedback, retriever: Retriever, embedder: Embedder, index: Index
    ) -> None:
        self._calibrations = calibrations
        self._feedback = feedback
        self._retriever = retriever
        self._embedder = embedder
        self._index = index

    async def by_labels(self, collection: Collection, labelled: Sequence[Labelled]) -> Collection:
        """Choose weights by questions whose answers are known, and keep them.

        Raises:
            Transient: the ledger, the embedding provider or Qdrant is not available.
        """
        baseline = await self._background(collection, await self._sample(collection))
        judged = await self._chosen(collection, labelled, baseline)
        return await self._keep(collection, judged, "labelled", baseline)

    async def by_itself(self, collection: Collection) -> Collection:
        """Choose weights by what users have accepted, or measure what can be measured without, and keep it.

        A calibration by labelled questions stays.

        Raises:
            InvalidInput: too few chunks have questions.
            Transient: the ledger, the embedding provider or Qdrant is not available.
        """
        sample = await self._sample(collection)
        if len(sample) < FEWEST_PAIRS:
            raise InvalidInput(
                f"{len(sample)} chunks have questions, and it takes {FEWEST_PAIRS} to calibrate without labels.",
                field="questions",
            )
        baseline = await self._background(collection, sample)
        accepted = (await self._feedback.accepted(collection.id))[-_MOST_ACCEPTED:]
        if len(accepted) >= _FEWEST_ACCEPTED:
            judged = await self._chosen(collection, accepted, baseline)
            return await self._keep(collection, judged, "accepted", baseline)
        judged = await self._held_out(collection, sample, baseline)
        return await self._keep(collection, judged, "generated", baseline)

    async def grown(self) -> bool:
        """Calibrate the next collection that has grown by half since the last time, if there is one; at most one.

        Returns:
            Whether there may be more to look at.

        Raises:
            Transient: the ledger is not available.
        """
        for _ in range(_LOOKS):
            collection = await self._calibrations.claim(every=_EVERY, lease=_LEASE)
            if collection is None:
                return False
            try:
                if await self._has_grown(collection):
                    await self._unasked(collection)
                    return True
            finally:
                await self._calibrations.release(collection)
        return True

    async def _has_grown(self, collection: Collection) -> bool:
        """Whether there are half as many chunks more than the last time, or half as many accepted questions."""
        before = collection.calibration or {}
        chunks = await self._calibrations.count_chunks(collection)
        if chunks < _FEWEST_GROWN or chunks >= _GROWTH * before.get("chunks", 0):
            return chunks >= _FEWEST_GROWN
        used = before["questions"] if before.get("source") == "accepted" else 0
        accepted = min(len(await self._feedback.accepted(collection.id)), _MOST_ACCEPTED)
        return bool(accepted >= max(_FEWEST_ACCEPTED, _GROWTH * used))

    async def _unasked(self, collection: Collection) -> None:
        """Calibrate; what goes wrong is tried again when the collection is next looked at."""
        try:
            changed = await self.by_itself(collection)
        except ForeaskError as error:
            log.warning("not_calibrated", collection=str(collection.id), reason=error.message)
        else:
            log.info("calibrated", collection=str(collection.id), baseline=changed.baseline)

    async def _sample(self, collection: Collection) -> list[PassedQuestion]:
        return await self._calibrations.sample_questions(collection, MOST_PAIRS)

    async def _background(self, collection: Collection, sample: Sequence[PassedQuestion]) -> float:
        """The background of the embedding model, 0 where there are too few questions to measure it."""
        texts = await self._index.vectors(collection.index_name, [str(kept.chunk_id) for kept in sample])
        known = [kept for kept in sample if str(kept.chunk_id) in texts]
        if len(known) < FEWEST_PAIRS:
            return 0.0
        questions = await self._embedder.embed([kept.question for kept in known])
        return baseline_of(questions, np.stack([texts[str(kept.chunk_id)] for kept in known]))

    async def _chosen(self, collection: Collection, labelled: Sequence[Labelled], baseline: float) -> WeightChoice:
        found = await self._retriever.channels(collection, [question for question, _ in labelled], baseline)
        return calibrate(found, [answers for _, answers in labelled])

    async def _held_out(
        self, collection: Collection, sample: Sequence[PassedQuestion], baseline: float
    ) -> WeightChoice:
        """What the channels find of a chunk's questions, each searched for without itself."""
        own = [[question_id(kept.chunk_id, kept.number)] for kept in sample]
        found = await self._retriever.channels(collection, [kept.question for kept in sample], baseline, own)
        return judge(found, [{str(kept.chunk_id)} for kept in sample])

    async def _keep(
        self, collection: Collection, judged: WeightChoice, source: EvidenceSource, baseline: float
    ) -> Collection:
        chunks = await self._calibrations.count_chunks(collection)
        evidence: Mapping[str, Any] = Calibration(judged, source, baseline, chunks).as_json()
        return await self._calibrations.save(collection, evidence, replace_labelled=source == "labelled")
