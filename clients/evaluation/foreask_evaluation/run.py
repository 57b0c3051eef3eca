"""An evaluation: every text is embedded once, points are written as at ingest, and questions go through the retriever.

Users would therefore get the same results.
"""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from statistics import median
from typing import TypeVar

import numpy as np
import orjson

from features.evaluation.metrics import CUTOFF, scores
from features.evaluation.results import EvaluatedSet, Json, StrategyCost, StrategyResult, build_results
from features.evaluation.strategies import Layout, Strategy
from foreask_evaluation.answers import grade_answers
from foreask_evaluation.labelled import LabelledCorpus, LabelledPassage
from foreask_evaluation.layouts import (
    EmbeddedPassage,
    Footprint,
    content_of,
    layout_collection,
    layout_parts,
    layout_points,
)
from foreask_evaluation.questions import PassageQuestions, questions_of
from foreask_evaluation.services import EvaluationServices
from foreask_evaluation.vectors import CachedEmbedder, embed_all
from shared.domain.corpus.collections import Baseline, Collection
from shared.domain.errors import Refused
from shared.domain.spending.usage import Usage
from shared.providers.embedding import Embedders, Input
from shared.query.calibrate.baseline import MAX_PAIRS, MIN_PAIRS, measure_baseline
from shared.query.retrieve import Query, RetrievedChunk, Retriever
from shared.query.retrieve.scores.scale import scale_of
from shared.vectors.schema.points import Point

_BATCH_PASSAGES = 128
_ALL_TOKENS = 10**9  # no budget: metrics need every rank

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _IndexedLayout:
    collection: Collection
    footprints: Mapping[str, Footprint]  # by strategy


async def evaluate(
    services: EvaluationServices, labelled: LabelledCorpus, strategies: Sequence[Strategy], baseline: str
) -> Json:
    """Run strategies over one set. Vectors and replies of models are cached for other runs; the points are deleted.

    Args:
        services: the engines and models.
        labelled: the set.
        strategies: strategies to compare; the result has reasons for strategies that cannot run on this set.
        baseline: strategy with which the others are compared.

    Returns:
        The content of `results.json`; see `features.evaluation.results`.

    Raises:
        ForeaskError: an engine or a provider fails.
    """
    questions = await questions_of(services, labelled)
    reasons = {strategy.name: _why_not(strategy, services, labelled, questions) for strategy in strategies}
    possible = [strategy for strategy in strategies if reasons[strategy.name] is None]
    indexed, refused = await _index_all(services, labelled, questions, possible)
    measured = [
        await _measure(services, labelled, strategy, indexed[strategy.layout], questions) for strategy in possible
    ]
    answers = await _answers(services, labelled, possible, indexed)
    for layout in indexed.values():
        await services.index.drop_collection(layout.collection.index_name)
    notes = [
        *labelled.notes,
        *_notes(labelled, questions, possible, refused),
        *(note for result in measured for note in result.notes),
        *_scale_notes(indexed),
    ]
    left_out = [{"strategy": name, "reason": reason} for name, reason in reasons.items() if reason]
    subject = _subject(services, labelled, questions)
    return build_results(subject, measured, baseline, left_out=left_out, notes=notes, answers=answers)


async def _index_all(
    services: EvaluationServices, labelled: LabelledCorpus, questions: PassageQuestions, strategies: Sequence[Strategy]
) -> tuple[dict[Layout, _IndexedLayout], int]:
    """Embed all texts, then write the points of every layout; also count the texts that the provider refuses."""
    layouts = {
        layout: _parts(services, labelled.passages, questions, layout, strategies)
        for layout in dict.fromkeys(strategy.layout for strategy in strategies)
    }
    texts = [text for parts in layouts.values() for part in parts for text in part.inputs]
    asked = services.embedder.prefixes.queries(_user_questions(services, labelled))
    refused = await embed_all(services, "embedding", [*texts, *asked])
    indexed = {
        layout: await _index(services, labelled.passages, layout, _without(refused, parts), strategies)
        for layout, parts in layouts.items()
    }
    return indexed, len(refused)


def _user_questions(services: EvaluationServices, labelled: LabelledCorpus) -> list[str]:
    unanswerable = labelled.unanswerable if services.answerer else {}
    return [*labelled.queries.values(), *unanswerable.values()]


def _subject(services: EvaluationServices, labelled: LabelledCorpus, questions: PassageQuestions) -> EvaluatedSet:
    return EvaluatedSet(
        labelled.name,
        services.embedder.name,
        len(labelled.queries),
        len(labelled.passages),
        {"count": questions.count, "passages": questions.passages, "source": questions.source},
    )


async def _answers(
    services: EvaluationServices,
    labelled: LabelledCorpus,
    strategies: Sequence[Strategy],
    indexed: Mapping[Layout, _IndexedLayout],
) -> Json | None:
    """Return the quality of answers from the chunks that the first strategy finds; None without an answerer."""
    if services.answerer is None:
        return None
    strategy = strategies[0]
    searched = indexed[strategy.layout].collection
    retriever = _retriever(services)

    async def retrieve(question: str) -> Sequence[RetrievedChunk]:
        return (await retriever.retrieve(searched, _query(question, strategy))).chunks

    return {"strategy": strategy.name} | await grade_answers(services, services.answerer, labelled, retrieve)


def _retriever(services: EvaluationServices) -> Retriever:
    embedders = Embedders([CachedEmbedder(services)])
    return Retriever(embedders, services.index, rewriter=services.rewriter, reranker=services.reranker)


def _query(question: str, strategy: Strategy) -> Query:
    return Query(
        question,
        channels=strategy.channels,
        fusion=strategy.fusion,
        rewriting=strategy.rewriting,
        rerank=strategy.rerank,
    )


def _why_not(
    strategy: Strategy, services: EvaluationServices, labelled: LabelledCorpus, questions: PassageQuestions
) -> str | None:
    if strategy.only_questions and not questions.count:
        return _why_without_questions(labelled)
    if strategy.rewriting and services.rewriter is None:
        return "no language model is configured that can rewrite a question (FOREASK_LLM_BASE_URL, FOREASK_LLM_MODEL)."
    if strategy.rerank and services.reranker is None:
        return "no reranker is configured (FOREASK_RERANK_BASE_URL)."
    return None


def _why_without_questions(labelled: LabelledCorpus) -> str:
    if labelled.questions is not None:
        return "its generated.jsonl has no question for any passage."
    calls = f"at least one call for each of {len(labelled.passages):,} passages"
    return f"the set has no generated.jsonl; with --generate the configured LLM writes the questions ({calls})."


def _notes(
    labelled: LabelledCorpus, questions: PassageQuestions, strategies: Sequence[Strategy], refused: int
) -> Iterator[str]:
    searching = ", ".join(strategy.name for strategy in strategies if strategy.uses_questions)
    if searching and not questions.count:
        yield f"No questions were searched by {searching}: {_why_without_questions(labelled)}"
    if questions.failed:
        yield f"Passages for which the model wrote no questions that could be read: {questions.failed:,}."
    if refused:
        yield f"Texts that the embedding provider refused, and which have no vector: {refused:,}."


def _scale_notes(indexed: Mapping[Layout, _IndexedLayout]) -> Iterator[str]:
    for layout, part in indexed.items():
        baseline = part.collection.baseline
        if scale_of(baseline) is not None:
            yield (
                f"Cosines of unrelated texts are {baseline.similarity:.2f} ± {baseline.spread:.2f} with the embedding"
                f" model: scores count above them ({layout})."
            )


def _parts(
    services: EvaluationServices,
    passages: Sequence[LabelledPassage],
    questions: PassageQuestions,
    layout: Layout,
    strategies: Sequence[Strategy],
) -> list[EmbeddedPassage]:
    """Return the texts to embed of each passage, without questions if no strategy searches them."""
    searched = any(strategy.uses_questions for strategy in strategies if strategy.layout == layout)
    parts = [layout_parts(layout, p, questions.by_passage.get(p.id, ()) if searched else ()) for p in passages]
    return [replace(part, prefixes=services.embedder.prefixes) for part in parts]


def _without(refused: set[Input], parts: Sequence[EmbeddedPassage]) -> list[EmbeddedPassage]:
    def taken(part: EmbeddedPassage) -> EmbeddedPassage:
        asked = zip(part.questions, part.question_inputs, strict=True)
        questions = tuple(question for question, key in asked if key not in refused)
        return replace(part, text=None if part.text_input in refused else part.text, questions=questions)

    return [taken(part) for part in parts]


async def _index(
    services: EvaluationServices,
    passages: Sequence[LabelledPassage],
    layout: Layout,
    parts: Sequence[EmbeddedPassage],
    strategies: Sequence[Strategy],
) -> _IndexedLayout:
    """Write the points of a layout, unless an interrupted run has already written all of them."""
    dimensions = await _dimensions(services, parts)
    name = _name(services, layout, passages, parts)
    languages = {content_of(passage).language for passage in passages}
    collection = layout_collection(name, services.embedder.name, _baseline(services, parts), languages)
    footprints = {s.name: Footprint(s.channels) for s in strategies if s.layout == layout}
    complete = await services.index.count_points(collection.location) == sum(1 + len(part.questions) for part in parts)
    if not complete:
        await services.index.ensure_collection(name, dimensions)
    stage = f"{'measuring' if complete else 'indexing'} {layout}"
    for done, points in _point_batches(services, collection, passages, parts):
        if not complete:
            await services.index.upsert(name, points)
        for footprint in footprints.values():
            footprint.add(points)
        services.progress(stage, done, len(passages))
    return _IndexedLayout(collection, footprints)


def _point_batches(
    services: EvaluationServices,
    collection: Collection,
    passages: Sequence[LabelledPassage],
    parts: Sequence[EmbeddedPassage],
) -> Iterator[tuple[int, list[Point]]]:
    """Yield points in batches, each with the number of passages that are done after it."""
    done = 0
    for batch in _batches(enumerate(zip(passages, parts, strict=True))):
        texts = (text for _, (_, part) in batch for text in part.inputs)
        vectors = services.cache.load_vectors(services.vector_model, texts)
        done += len(batch)
        yield (
            done,
            [point for n, (passage, part) in batch for point in layout_points(collection, n, passage, part, vectors)],
        )


def _baseline(services: EvaluationServices, parts: Sequence[EmbeddedPassage]) -> Baseline:
    """Return the baseline that automatic calibration would measure for these passages."""
    pairs = [
        (part.question_inputs[0], part.text_input) for part in parts if part.questions and part.text_input is not None
    ]
    if len(pairs) < MIN_PAIRS:
        pairs = [(part.text_input, part.text_input) for part in parts if part.text_input is not None]
    pairs = pairs[:: max(1, len(pairs) // MAX_PAIRS)][:MAX_PAIRS]
    vectors = services.cache.load_vectors(services.vector_model, [text for pair in pairs for text in pair])
    questions, texts = (np.array([vectors[pair[index]] for pair in pairs]) for index in (0, 1))
    return measure_baseline(questions, texts)


async def _dimensions(services: EvaluationServices, parts: Sequence[EmbeddedPassage]) -> int:
    """Return the length of the vectors, from the cache if possible, so that a complete cache needs no call."""
    texts = [text for part in parts for text in part.inputs][:1]
    cached = services.cache.load_vectors(services.vector_model, texts)
    return len(next(iter(cached.values()))) if cached else await services.embedder.dimensions()


def _name(
    services: EvaluationServices, layout: Layout, passages: Sequence[LabelledPassage], parts: Sequence[EmbeddedPassage]
) -> str:
    """Return a name that changes with the content of any point."""
    content = hashlib.sha256(orjson.dumps([services.vector_model, layout]))
    for passage, part in zip(passages, parts, strict=True):
        content.update(orjson.dumps([passage.id, passage.title, passage.text, part.text, part.questions]))
    return f"evaluation-{content.hexdigest()[:32]}"


async def _measure(
    services: EvaluationServices,
    labelled: LabelledCorpus,
    strategy: Strategy,
    indexed: _IndexedLayout,
    questions: PassageQuestions,
) -> StrategyResult:
    """Search for every question sequentially, so that no question delays another."""
    retriever = _retriever(services)
    rankings: dict[str, list[str]] = {}
    milliseconds = []
    usage, skipped = Usage(), Counter[str]()
    for query_id, question in labelled.queries.items():
        query = replace(_query(question, strategy), top_k=CUTOFF, max_tokens=_ALL_TOKENS)
        started = time.perf_counter()
        try:
            retrieval = await retriever.retrieve(indexed.collection, query)
        except Refused:
            rankings[query_id] = []
            continue
        milliseconds.append((time.perf_counter() - started) * 1000)
        usage += retrieval.usage
        skipped.update(f"{stage}: {reason}" for stage, reason in retrieval.trace.skipped.items())
        # A text in several passages counts for each of them.
        rankings[query_id] = [name for c in retrieval.chunks for name in (c.external_id, *c.also_in)][:CUTOFF]
        services.progress(f"querying {strategy.name}", len(rankings), len(labelled.queries))
    return StrategyResult(
        strategy,
        scores(labelled.judgements, rankings),
        median(milliseconds or [0.0]),
        _cost(strategy, indexed.footprints[strategy.name], questions, len(labelled.passages)),
        tuple(_strategy_notes(strategy, usage, skipped, len(rankings))),
    )


def _strategy_notes(strategy: Strategy, usage: Usage, skipped: Mapping[str, int], queries: int) -> Iterator[str]:
    tokens = usage.prompt_tokens + usage.completion_tokens
    if tokens:
        yield f"{strategy.name}: {tokens / queries:,.0f} tokens of the language model a query."
    for reason, count in skipped.items():
        yield f"{strategy.name}: {count} of {queries} queries were done without {reason}"


def _cost(strategy: Strategy, footprint: Footprint, questions: PassageQuestions, passages: int) -> StrategyCost:
    uses = strategy.uses_questions
    return StrategyCost(
        points_per_chunk=round(footprint.points / passages, 3),
        bytes_per_chunk=round(footprint.bytes / passages),
        llm_calls=questions.calls if uses else 0,
        llm_tokens=questions.tokens if uses else 0,
    )


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _BATCH_PASSAGES)):
        yield batch
