"""An evaluation: every text is embedded once, points are written as at ingest, and questions go through the retriever.

What is measured is therefore what users get, down to the engine's own search.
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

from evaluation.answers import answers_of
from evaluation.labelled import LabelledPassage, LabelledSet
from evaluation.layouts import TENANT, EmbeddedPassage, Footprint, collection, embedded, points
from evaluation.metrics import CUTOFF, scores
from evaluation.questions import QuestionSource, questions_of
from evaluation.results import Cost, EvaluatedSet, Json, StrategyResult, results
from evaluation.strategies import Layout, Strategy
from evaluation.tools import Tools
from evaluation.vectors import CachedEmbedder, embed_all
from shared.domain.errors import Refused
from shared.domain.records import Collection
from shared.domain.usage import Usage
from shared.query.retrieve import Query, RetrievedChunk, Retriever
from shared.query.retrieve.baseline import MOST_PAIRS, baseline_of, is_high

_BATCH_PASSAGES = 128
_ALL_TOKENS = 10**9  # no budget: ranks are counted, not what fits

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _IndexedLayout:
    collection: Collection
    footprints: Mapping[str, Footprint]  # by strategy


async def evaluate(tools: Tools, labelled: LabelledSet, strategies: Sequence[Strategy], baseline: str) -> Json:
    """Run strategies over one set; what is embedded or asked for is kept for other runs, the points are not.

    Args:
        tools: the engines and models.
        labelled: the set.
        strategies: what is compared; those that cannot be run on this set are left out and say why.
        baseline: the strategy that the others are compared with.

    Returns:
        What is saved; see `evaluation.results`.

    Raises:
        ForeaskError: an engine or a provider does not do what is needed.
    """
    questions = await questions_of(tools, labelled)
    why = {strategy: _why_not(strategy, tools, labelled, questions) for strategy in strategies}
    possible = [strategy for strategy in strategies if why[strategy] is None]
    layouts = {
        layout: _embedded(labelled.passages, questions, layout, possible)
        for layout in dict.fromkeys(strategy.layout for strategy in possible)
    }
    texts = [text for parts in layouts.values() for part in parts for text in part.all]
    refused = await embed_all(tools, "embedding", [*texts, *_asked(tools, labelled)])
    indexed = {
        layout: await _index(tools, labelled.passages, layout, _without(refused, parts), possible)
        for layout, parts in layouts.items()
    }
    measured = [await _measure(tools, labelled, strategy, indexed[strategy.layout], questions) for strategy in possible]
    answers = await _answers(tools, labelled, possible, indexed)
    for one in indexed.values():
        await tools.index.drop(one.collection.index_name)
    left_out = [{"strategy": strategy.name, "why": said} for strategy, said in why.items() if said]
    subject = EvaluatedSet(
        labelled.name,
        tools.embedder.name,
        len(labelled.queries),
        len(labelled.passages),
        {"count": questions.count, "passages": questions.passages, "source": questions.source},
    )
    notes = [*labelled.notes, *_notes(labelled, questions, possible, len(refused))]
    notes += [note for one in measured for note in one.notes]
    notes += [
        f"The baseline of the embedding model is {one.collection.baseline:.2f}: scores count above it ({layout})."
        for layout, one in indexed.items()
        if is_high(one.collection.baseline)
    ]
    return results(subject, measured, baseline, left_out=left_out, notes=notes, answers=answers)


def _asked(tools: Tools, labelled: LabelledSet) -> list[str]:
    unanswerable = labelled.unanswerable if tools.answerer else {}
    return [*labelled.queries.values(), *unanswerable.values()]


async def _answers(
    tools: Tools, labelled: LabelledSet, strategies: Sequence[Strategy], indexed: Mapping[Layout, _IndexedLayout]
) -> Json | None:
    """What the answers are worth that are made of what the first strategy finds."""
    if tools.answerer is None:
        return None
    strategy = strategies[0]
    own = indexed[strategy.layout].collection
    retriever = _retriever(tools)

    async def retrieve(question: str) -> Sequence[RetrievedChunk]:
        return (await retriever.retrieve(own, _query(question, strategy))).chunks

    return {"strategy": strategy.name} | await answers_of(tools, tools.answerer, labelled, retrieve)


def _retriever(tools: Tools) -> Retriever:
    return Retriever(CachedEmbedder(tools), tools.index, tools.rewriter, tools.reranker)


def _query(question: str, strategy: Strategy) -> Query:
    return Query(
        question,
        channels=strategy.channels,
        fusion=strategy.fusion,
        rewriting=strategy.rewriting,
        rerank=strategy.rerank,
    )


def _why_not(strategy: Strategy, tools: Tools, labelled: LabelledSet, questions: QuestionSource) -> str | None:
    if strategy.only_questions and not questions.count:
        return _why_without_questions(labelled)
    if strategy.rewriting and tools.rewriter is None:
        return "no language model is configured that can rewrite a question (FOREASK_LLM_BASE_URL, FOREASK_LLM_MODEL)."
    if strategy.rerank and tools.reranker is None:
        return "no reranker is configured (FOREASK_RERANK_BASE_URL)."
    return None


def _why_without_questions(labelled: LabelledSet) -> str:
    if labelled.questions is not None:
        return "its generated.jsonl has no question for any passage."
    calls = f"at least one call for each of {len(labelled.passages):,} passages"
    return f"the set has no generated.jsonl; with --generate the configured LLM writes the questions ({calls})."


def _notes(
    labelled: LabelledSet, questions: QuestionSource, strategies: Sequence[Strategy], refused: int
) -> Iterator[str]:
    searching = ", ".join(strategy.name for strategy in strategies if strategy.uses_questions)
    if searching and not questions.count:
        yield f"No questions were searched by {searching}: {_why_without_questions(labelled)}"
    if questions.failed:
        yield f"Passages for which the model wrote no questions that could be read: {questions.failed:,}."
    if refused:
        yield f"Texts that the embedding provider refused, and which have no vector: {refused:,}."


def _embedded(
    passages: Sequence[LabelledPassage], questions: QuestionSource, layout: Layout, strategies: Sequence[Strategy]
) -> list[EmbeddedPassage]:
    """What is embedded of each passage; no questions where no strategy would search them."""
    searched = any(strategy.uses_questions for strategy in strategies if strategy.layout == layout)
    return [embedded(layout, p, questions.of.get(p.id, ()) if searched else ()) for p in passages]


def _without(refused: set[str], parts: Sequence[EmbeddedPassage]) -> list[EmbeddedPassage]:
    return [
        EmbeddedPassage(
            None if part.text in refused else part.text, tuple(q for q in part.questions if q not in refused)
        )
        for part in parts
    ]


async def _index(
    tools: Tools,
    passages: Sequence[LabelledPassage],
    layout: Layout,
    parts: Sequence[EmbeddedPassage],
    strategies: Sequence[Strategy],
) -> _IndexedLayout:
    """Write the points of a layout, unless an earlier run that was stopped has written them all."""
    dimensions = await _dimensions(tools, parts)
    name = _name(tools, layout, passages, parts)
    own = collection(name, tools.embedder.name, _background(tools, parts))
    footprints = {s.name: Footprint(s.channels) for s in strategies if s.layout == layout}
    complete = await tools.index.count(own.index_name, TENANT) == sum(1 + len(part.questions) for part in parts)
    if not complete:
        await tools.index.ensure(own.index_name, dimensions)
    done, stage = 0, f"{'measuring' if complete else 'indexing'} {layout}"
    for batch in _batches(enumerate(zip(passages, parts, strict=True))):
        vectors = tools.kept.vectors(tools.vectors_of, (text for _, (_, part) in batch for text in part.all))
        made = [point for n, (passage, part) in batch for point in points(own, n, passage, part, vectors)]
        if not complete:
            await tools.index.upsert(own.index_name, made)
        for footprint in footprints.values():
            footprint.add(made)
        done += len(batch)
        tools.progress(stage, done, len(passages))
    return _IndexedLayout(own, footprints)


def _background(tools: Tools, parts: Sequence[EmbeddedPassage]) -> float:
    """What a collection of these finds of its embedding model when it calibrates itself."""
    pairs = [(part.questions[0], part.text) for part in parts if part.questions and part.text is not None]
    pairs = pairs[:: max(1, len(pairs) // MOST_PAIRS)][:MOST_PAIRS]
    vectors = tools.kept.vectors(tools.vectors_of, [text for pair in pairs for text in pair])
    questions, texts = (np.array([vectors[pair[place]] for pair in pairs]) for place in (0, 1))
    return baseline_of(questions, texts)


async def _dimensions(tools: Tools, parts: Sequence[EmbeddedPassage]) -> int:
    """The length of the vectors, of any that is kept: the model need not be asked."""
    texts = [text for part in parts for text in part.all][:1]
    kept = tools.kept.vectors(tools.vectors_of, texts)
    return len(next(iter(kept.values()))) if kept else await tools.embedder.dimensions()


def _name(tools: Tools, layout: Layout, passages: Sequence[LabelledPassage], parts: Sequence[EmbeddedPassage]) -> str:
    """A name that is another whenever a point would be."""
    content = hashlib.sha256(orjson.dumps([tools.vectors_of, layout]))
    for passage, part in zip(passages, parts, strict=True):
        content.update(orjson.dumps([passage.id, passage.title, passage.text, part.text, part.questions]))
    return f"evaluation-{content.hexdigest()[:32]}"


async def _measure(
    tools: Tools, labelled: LabelledSet, strategy: Strategy, indexed: _IndexedLayout, questions: QuestionSource
) -> StrategyResult:
    """Ask every question, one after the other."""
    retriever = _retriever(tools)
    rankings: dict[str, list[str]] = {}
    milliseconds = []
    usage, skipped = Usage(), Counter[str]()
    for query_id, question in labelled.queries.items():
        query = replace(_query(question, strategy), top_k=CUTOFF, max_tokens=_ALL_TOKENS)
        started = time.perf_counter()
        try:
            found = await retriever.retrieve(indexed.collection, query)
        except Refused:
            rankings[query_id] = []
            continue
        milliseconds.append((time.perf_counter() - started) * 1000)
        usage += found.usage
        skipped.update(f"{stage}: {reason}" for stage, reason in found.skipped.items())
        # A text that stands in several passages is found in each.
        rankings[query_id] = [name for c in found.chunks for name in (c.external_id, *c.also_in)][:CUTOFF]
        tools.progress(f"querying {strategy.name}", len(rankings), len(labelled.queries))
    return StrategyResult(
        strategy,
        scores(labelled.judgements, rankings),
        median(milliseconds or [0.0]),
        _cost(strategy, indexed.footprints[strategy.name], questions, len(labelled.passages)),
        tuple(_said(strategy, usage, skipped, len(rankings))),
    )


def _said(strategy: Strategy, usage: Usage, skipped: Mapping[str, int], queries: int) -> Iterator[str]:
    tokens = usage.prompt_tokens + usage.completion_tokens
    if tokens:
        yield f"{strategy.name}: {tokens / queries:,.0f} tokens of the language model a query."
    for reason, count in skipped.items():
        yield f"{strategy.name}: {count} of {queries} queries were done without {reason}"


def _cost(strategy: Strategy, footprint: Footprint, questions: QuestionSource, passages: int) -> Cost:
    uses = strategy.uses_questions
    return Cost(
        points_per_chunk=round(footprint.points / passages, 3),
        bytes_per_chunk=round(footprint.bytes / passages),
        llm_calls=questions.calls if uses else 0,
        llm_tokens=questions.tokens if uses else 0,
    )


def _batches(items: Iterable[T]) -> Iterator[list[T]]:
    iterator = iter(items)
    while batch := list(islice(iterator, _BATCH_PASSAGES)):
        yield batch
