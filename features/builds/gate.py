"""The gate: the decision whether a build may replace the live one.

It checks three things. The build has every document with its newest content, and Qdrant has every point. The build
finds the answers to labelled questions: its nDCG@10 is not significantly lower, and in any case not lower by more than
a twentieth, because few questions prove little. Its queries take at most one and a half times as long as the live
build's.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from features.builds.ledger.build_comparison import BuildComparison, DocumentComparison
from features.verification.comparison import Verification
from features.verification.domain import VerificationCounts
from shared.domain.corpus.builds import Build
from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, InvalidInput
from shared.domain.states import BuildState
from shared.ledger.builds.builds import Builds
from shared.ledger.builds.calibrations import Calibrations
from shared.ledger.documents.audit import Audit
from shared.ledger.documents.documents import Documents
from shared.ledger.ledger import Ledger
from shared.ledger.model.collections import Collections
from shared.query.calibrate.calibrator import Calibrator
from shared.query.calibrate.significance import Interval, Values, interval
from shared.query.calibrate.weights import ndcg
from shared.query.retrieve import Query, Retriever
from shared.vectors.index import Index

MIN_QUESTIONS = 30  # fewer cannot distinguish a loss from chance
_MAX_QUESTIONS = 1_000
_MAX_NDCG_LOSS = 0.05
_MAX_TIMED_QUESTIONS = 100  # each sent to both builds
_MIN_TIMED_QUESTIONS = 20
_MAX_LATENCY_RATIO = 1.5
_NOTICEABLE_MILLISECONDS = 20.0  # users do not notice a smaller difference
_LATENCY_MEASUREMENTS = 3  # a slower build is slower each time; a busy second is not repeated

QuestionWithDocuments = tuple[str, Sequence[str]]  # a question, and the external ids of documents that answer it
QuestionSource = Literal["labelled", "accepted"]


@dataclass(frozen=True, slots=True)
class Quality:
    """nDCG@10 of both builds on the same questions, each with its own calibration, and the paired difference."""

    source: QuestionSource
    questions: int
    live: Interval
    build: Interval
    difference: Interval


@dataclass(frozen=True, slots=True)
class Latency:
    """The 95th percentile of both builds' milliseconds for the same questions, sent alternately."""

    questions: int
    live_milliseconds: float
    build_milliseconds: float


@dataclass(frozen=True, slots=True)
class GateReport:
    """The report of the gate.

    Args:
        documents: differences of the build's documents from the live one's.
        points: verification of the build's points.
        quality: None if there are too few questions: a person decides.
        latency: None if there are too few questions.
        reasons: reasons why the gate is closed; empty if it is open.
        notes: measurements that were impossible.
    """

    documents: DocumentComparison
    points: VerificationCounts
    quality: Quality | None
    latency: Latency | None
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def is_open(self) -> bool:
        return not self.reasons


@dataclass(frozen=True, slots=True, kw_only=True)
class Gate:
    """Compares a build with the live one. It changes nothing but the build's calibration.

    Args:
        accepted_failures: documents that may have failed, or lack a chunk, only in the build.
    """

    ledger: Ledger
    index: Index
    retriever: Retriever
    calibrator: Calibrator
    accepted_failures: int = 0

    async def run(
        self, build: Build, labelled: Sequence[QuestionWithDocuments] | None = None
    ) -> AsyncIterator[VerificationCounts | GateReport]:
        """Compare both builds; yield verification counts while they change, and finally the report.

        Args:
            build: build that may replace the live one.
            labelled: labelled questions; None: users' accepted questions.

        Raises:
            InvalidInput: a labelled question names a document that the live build lacks.
            Transient: the ledger, Qdrant or an embedding provider is unavailable.
        """
        live = await self.ledger[Collections].get(build.tenant, build.name)
        candidate = await self.ledger[Builds].collection(build)
        documents = await self.ledger[BuildComparison].compare(live.id, build.id)
        verification = Verification(self.ledger[Audit], self.index, candidate, repair=False)
        async for item in verification.run():
            if isinstance(item, VerificationCounts):
                yield item
        candidate = await self._calibrate(candidate, live)
        quality = await self._compare_quality(live, candidate, labelled)
        latency = await self._compare_latency(live, candidate, [question for question, _ in labelled or ()])
        points = verification.so_far
        reasons = (
            *self._completeness_reasons(documents, points),
            *_quality_reasons(quality),
            *_latency_reasons(latency),
        )
        yield GateReport(documents, points, quality, latency, reasons, tuple(_notes(quality, latency)))

    async def _calibrate(self, build: Collection, live: Collection) -> Collection:
        """Return the build with its own model's baseline similarity, and with the live build's weights if labelled.

        Both are stored, so that after a switch queries are answered as tested. Scores of two embedding models are
        comparable only if the baseline of each is measured.
        """
        if build.calibration is None:
            try:
                build = await self.calibrator.calibrate_unlabelled(build)
            except InvalidInput:  # it has too few questions
                return build
        if live.is_labelled and not build.is_labelled and build.calibration is not None:
            own = {name: build.calibration[name] for name in ("baseline_similarity", "baseline_spread", "chunks")}
            chosen = {**(live.calibration or {}), **own}
            build = await self.ledger[Calibrations].save(build, chosen, replace_labelled=True)
        return build

    async def _compare_quality(
        self, live: Collection, build: Collection, labelled: Sequence[QuestionWithDocuments] | None
    ) -> Quality | None:
        source: QuestionSource = "accepted" if labelled is None else "labelled"
        questions = labelled or await self.ledger[BuildComparison].accepted_questions(live.id, _MAX_QUESTIONS)
        if len(questions) < MIN_QUESTIONS:
            return None
        live_ndcg = await self._measure_ndcg(live, questions, must_exist=source == "labelled")
        build_ndcg = await self._measure_ndcg(build, questions, must_exist=False)
        difference = interval(build_ndcg - live_ndcg)
        return Quality(source, len(questions), interval(live_ndcg), interval(build_ndcg), difference)

    async def _measure_ndcg(
        self, build: Collection, questions: Sequence[QuestionWithDocuments], *, must_exist: bool
    ) -> Values:
        """Return nDCG@10 of each question; a relevant document counts with its first chunk."""
        names = sorted({name for _, answers in questions for name in answers})
        chunks = await self.ledger[Documents].live_chunk_ids(build, names)
        if must_exist:
            require_known(names, chunks)
        texts = [question for question, _ in questions]
        hits = await self.retriever.search_channels(build, texts, build.baseline)
        answers = [set[str]().union(*(chunks.get(name, ()) for name in named)) for _, named in questions]
        values: Values = ndcg(hits, answers, [build.weights])[0]
        return values

    async def _compare_latency(self, live: Collection, build: Collection, questions: Sequence[str]) -> Latency | None:
        """Measure the latency of both builds with users' questions, again if one seems slower."""
        logged = await self.ledger[BuildComparison].logged_questions(live.id, _MAX_TIMED_QUESTIONS)
        questions = (logged or questions)[:_MAX_TIMED_QUESTIONS]
        if len(questions) < _MIN_TIMED_QUESTIONS:
            return None
        for _ in range(_LATENCY_MEASUREMENTS):
            latency = await self._measure_latency(live, build, questions)
            if not list(_latency_reasons(latency)):
                break
        return latency

    async def _measure_latency(self, live: Collection, build: Collection, questions: Sequence[str]) -> Latency:
        """Send questions to both builds alternately, so that a busy minute affects both."""
        milliseconds: dict[str, list[float]] = {"live": [], "build": []}
        for question in [questions[0], *questions]:  # the first one opens connections
            for name, searched in (("live", live), ("build", build)):
                started = time.perf_counter()
                await self.retriever.retrieve(searched, Query(question, rerank=False))
                milliseconds[name].append((time.perf_counter() - started) * 1000)
        of_live, of_build = (float(np.quantile(milliseconds[name][1:], 0.95)) for name in ("live", "build"))
        return Latency(len(questions), of_live, of_build)

    def _completeness_reasons(self, documents: DocumentComparison, points: VerificationCounts) -> Iterator[str]:
        counts = {
            "missing": "the build lacks",
            "stale": "the build has with older content",
            "orphaned": "the live build lacks",
            "unindexed": "are not indexed yet",
        }
        for name, difference in counts.items():
            if count := getattr(documents, name):
                yield f"Documents that {difference}: {count:,}."
        failures = documents.failed + documents.degraded
        if failures > self.accepted_failures:
            yield f"Documents that failed, or lack a chunk, only in the build: {failures:,}."
        if points.unrepaired:
            yield (
                f"Points that differ from the ledger: {points.missing:,} missing, {points.stale:,} stale,"
                f" {points.orphaned:,} orphaned."
            )


def require_comparable(build: Build) -> None:
    """Require that a build is filled and not live.

    Raises:
        Conflict: it is not.
    """
    if build.state is not BuildState.FOLLOWING:
        raise Conflict(f"Build {build.number} is {build.state}: a gate needs a build that is filled and not live.")


def require_known(names: Sequence[str], chunks: Mapping[str, object]) -> None:
    """Require that the live build has all relevant documents.

    Args:
        names: external ids of the documents.
        chunks: chunks by the external ids of the documents that exist.

    Raises:
        InvalidInput: a document is missing.
    """
    missing = next((name for name in names if name not in chunks), None)
    if missing is not None:
        raise InvalidInput(f"The collection has no document '{missing}'.", field="questions")


def _quality_reasons(quality: Quality | None) -> Iterator[str]:
    if quality is None:
        return
    difference = quality.difference
    if difference.high < 0:
        yield (
            f"The build finds less, by more than chance: nDCG@10 {quality.build.mean:.3f} instead of"
            f" {quality.live.mean:.3f} ({difference.low:+.3f} to {difference.high:+.3f})."
        )
    elif difference.mean < -_MAX_NDCG_LOSS:
        yield (
            f"The build finds less: nDCG@10 {quality.build.mean:.3f} instead of {quality.live.mean:.3f}."
            " More questions would show whether it is chance."
        )


def _latency_reasons(latency: Latency | None) -> Iterator[str]:
    if latency is None:
        return
    of_live, of_build = latency.live_milliseconds, latency.build_milliseconds
    if of_build > _MAX_LATENCY_RATIO * of_live and of_build - of_live > _NOTICEABLE_MILLISECONDS:
        yield f"Queries take longer: 95 % within {of_build:.0f} ms instead of {of_live:.0f}."


def _notes(quality: Quality | None, latency: Latency | None) -> Iterator[str]:
    if quality is None:
        yield (
            f"The quality was not compared: this needs {MIN_QUESTIONS} labelled questions, or as many accepted by"
            " users."
        )
    if latency is None:
        yield f"The latency was not compared: this needs {_MIN_TIMED_QUESTIONS} questions, of users or labelled."
