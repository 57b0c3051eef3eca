"""Calibration of a collection, with or without labelled questions.

It always measures the baseline similarity of the embedding model, with the collection's questions or, if they are too
few, with its texts. Without labels it uses accepted questions of users, if there are enough. Otherwise it chooses
no weights: held-out generated questions share words with their texts and therefore overrate BM25, at a loss of up to
0.18 of nDCG@10 (see `docs/decisions/0013-calibration-without-labels.md`). It then reports the hits of each channel for
the collection's own questions, if there are any.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Collection as Some
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal
from uuid import UUID

import numpy as np
import structlog

from shared.domain.corpus.collections import Baseline, Collection
from shared.domain.corpus.ids import question_point_id
from shared.domain.errors import ForeaskError, InvalidInput, Transient
from shared.domain.vectors import Vectors
from shared.ledger.builds.calibrations import CalibrationClaim, Calibrations, PassedQuestion
from shared.providers.embedding import Embedders
from shared.query.calibrate.baseline import MAX_PAIRS, MIN_PAIRS, measure_baseline
from shared.query.calibrate.weights import EQUAL, WeightChoice, choose_weights, measure_equal_weights
from shared.query.retrieve.retriever import Retriever
from shared.vectors.index import Index
from shared.vectors.schema.filters import visible_points

_MAX_ACCEPTED = 200
_MIN_ACCEPTED = 30
_MIN_CHUNKS = 100  # a smaller collection is calibrated automatically only once
_GROWTH = 1.5
_EVERY = timedelta(minutes=10)  # minimum interval between two checks of a collection
_LEASE = timedelta(minutes=5)
_MAX_CLAIMS = 100  # of collections that have not grown, for one wake-up

EvidenceSource = Literal["labelled", "accepted", "generated", "texts"]
AnsweredQuestion = tuple[str, Some[str]]  # a question, and the ids of chunks that answer it
log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class Calibration:
    """The calibration that is stored with a collection.

    Args:
        choice: the weights with their evidence; None: equal weights without evidence.
        source: source of the evidence: the kind of questions, or texts only.
        baseline: baseline of the embedding model.
        chunks: number of chunks of the collection.
    """

    choice: WeightChoice | None
    source: EvidenceSource
    baseline: Baseline
    chunks: int

    def as_json(self) -> dict[str, Any]:
        facts = {
            "source": self.source,
            "baseline_similarity": self.baseline.similarity,
            "baseline_spread": self.baseline.spread,
            "chunks": self.chunks,
        }
        choice = {"weights": dataclasses.asdict(EQUAL)} if self.choice is None else dataclasses.asdict(self.choice)
        return choice | facts


class Calibrator:
    """Calibrates collections; it calls no language model."""

    def __init__(self, calibrations: Calibrations, retriever: Retriever, embedders: Embedders, index: Index) -> None:
        self._calibrations = calibrations
        self._retriever = retriever
        self._embedders = embedders
        self._index = index

    async def calibrate_labelled(self, collection: Collection, questions: Sequence[AnsweredQuestion]) -> Collection:
        """Choose weights with labelled questions, and save them.

        Raises:
            Transient: the ledger, the embedding provider or Qdrant is unavailable.
        """
        baseline = await self._baseline(collection, await self._sample(collection)) or Baseline()
        choice = await self._choose(collection, questions, baseline)
        return await self._save(collection, choice, "labelled", baseline)

    async def calibrate_unlabelled(self, collection: Collection) -> Collection:
        """Choose weights with users' accepted questions, or measure without labels, and save the result.

        A calibration with labelled questions is retained.

        Raises:
            InvalidInput: too few chunks have a text with a vector.
            Transient: the ledger, the embedding provider or Qdrant is unavailable.
        """
        sample = await self._sample(collection)
        baseline = await self._baseline(collection, sample)
        if baseline is None:
            fault = f"Fewer than {MIN_PAIRS} chunks can be measured: too few to calibrate without labels."
            raise InvalidInput(fault, field="questions")
        accepted = (await self._calibrations.accepted_questions(collection.id))[-_MAX_ACCEPTED:]
        if len(accepted) >= _MIN_ACCEPTED:
            choice = await self._choose(collection, accepted, baseline)
            return await self._save(collection, choice, "accepted", baseline)
        if len(sample) < MIN_PAIRS:
            return await self._save(collection, None, "texts", baseline)
        choice = await self._measure_held_out(collection, sample, baseline)
        return await self._save(collection, choice, "generated", baseline)

    async def calibrate_grown(self) -> bool:
        """Calibrate the next collection that has grown by half since its last calibration, if there is one.

        Returns:
            Whether more collections may be due.

        Raises:
            Transient: the ledger or Qdrant is not available.
        """
        for _ in range(_MAX_CLAIMS):
            claim = await self._calibrations.claim(self._embedders.names, every=_EVERY, lease=_LEASE)
            if claim is None:
                return False
            try:
                if await self._has_grown(claim.collection):
                    await self._calibrate_automatically(claim)
                    return True
            except Transient:
                raise
            except Exception:  # other collections must be calibrated; this one is due again later
                log.exception("calibration.raised", collection=str(claim.collection.id), tenant=claim.collection.tenant)
            finally:
                await self._calibrations.release(claim)
        return True

    async def _has_grown(self, collection: Collection) -> bool:
        """Return whether the number of chunks, or of accepted questions, has grown by half since the last time.

        The first time there must be enough texts to measure the baseline similarity, later enough questions.
        """
        before = collection.calibration
        chunks = await self._index.count_chunks(collection.location)
        if before is None:
            return chunks >= MIN_PAIRS
        if before.get("source") == "texts" and len(await self._sample(collection)) >= MIN_PAIRS:
            return True
        if chunks < _MIN_CHUNKS:
            return False
        if chunks >= _GROWTH * before.get("chunks", 0):
            return True
        used = before["questions"] if before.get("source") == "accepted" else 0
        accepted = min(len(await self._calibrations.accepted_questions(collection.id)), _MAX_ACCEPTED)
        return bool(accepted >= max(_MIN_ACCEPTED, _GROWTH * used))

    async def _calibrate_automatically(self, claim: CalibrationClaim) -> None:
        """Calibrate; after a failure the collection is due again later.

        A first calibration during a load measures texts only: 200 searches take as much time as indexing hundreds of
        chunks, and are done when the load ends.
        """
        collection, is_first = claim.collection, claim.collection.calibration is None
        ids = {"collection": str(collection.id), "tenant": collection.tenant}
        try:
            if is_first and claim.is_loading:
                changed = await self._calibrate_texts(collection)
            else:
                changed = await self.calibrate_unlabelled(collection)
        except ForeaskError as error:
            log.warning("calibration.failed", **ids, reason=error.message)
        else:
            log.info("calibration.saved", **ids, **dataclasses.asdict(changed.baseline))

    async def _calibrate_texts(self, collection: Collection) -> Collection:
        baseline = await self._baseline_of_texts(collection)
        return await self._save(collection, None, "texts", baseline) if baseline else collection

    async def _sample(self, collection: Collection) -> list[PassedQuestion]:
        return await self._calibrations.sample_questions(collection, MAX_PAIRS)

    async def _baseline(self, collection: Collection, sample: Sequence[PassedQuestion]) -> Baseline | None:
        """Return the baseline of the embedding model with questions, or with texts; None if both are too few."""
        texts = await self._texts(collection, [passed.chunk_id for passed in sample])
        pairs = [passed for passed in sample if str(passed.chunk_id) in texts]
        if len(pairs) >= MIN_PAIRS:
            embedder = self._embedders.named(collection.embedding_model)
            questions = await embedder.embed(embedder.prefixes.queries(passed.question for passed in pairs))
            return measure_baseline(questions, np.stack([texts[str(passed.chunk_id)] for passed in pairs]))
        return await self._baseline_of_texts(collection)

    async def _baseline_of_texts(self, collection: Collection) -> Baseline | None:
        """Return the cosines of texts with each other; None if they are too few."""
        texts = await self._texts(collection, await self._calibrations.sample_chunks(collection, MAX_PAIRS))
        alone = np.array(list(texts.values()), dtype=np.float32)
        return measure_baseline(alone, alone) if len(alone) >= MIN_PAIRS else None

    async def _texts(self, collection: Collection, chunks: Sequence[UUID]) -> dict[str, Vectors]:
        return await self._index.text_vectors(visible_points(collection.location), [str(chunk) for chunk in chunks])

    async def _choose(
        self, collection: Collection, questions: Sequence[AnsweredQuestion], baseline: Baseline
    ) -> WeightChoice:
        texts = [question for question, _ in questions]
        channels = await self._retriever.search_channels(collection, texts, baseline)
        return await asyncio.to_thread(choose_weights, channels, [answers for _, answers in questions])

    async def _measure_held_out(
        self, collection: Collection, sample: Sequence[PassedQuestion], baseline: Baseline
    ) -> WeightChoice:
        """Measure the hits of the channels for a chunk's questions, each searched without its own point."""
        texts = [passed.question for passed in sample]
        points = [[question_point_id(passed.chunk_id, passed.version, passed.number)] for passed in sample]
        channels = await self._retriever.search_channels(collection, texts, baseline, points)
        answers = [{str(passed.chunk_id)} for passed in sample]
        return await asyncio.to_thread(measure_equal_weights, channels, answers)

    async def _save(
        self, collection: Collection, choice: WeightChoice | None, source: EvidenceSource, baseline: Baseline
    ) -> Collection:
        chunks = await self._index.count_chunks(collection.location)
        evidence: Mapping[str, Any] = Calibration(choice, source, baseline, chunks).as_json()
        return await self._calibrations.save(collection, evidence, replace_labelled=source == "labelled")
