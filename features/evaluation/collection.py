"""Evaluation of an existing collection: every labelled question with each strategy that its points allow."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any, Literal

from features.evaluation.metrics import CUTOFF, scores
from features.evaluation.results import EvaluatedSet, Json, StrategyResult, build_results
from features.evaluation.strategies import Strategy
from shared.domain.corpus.collections import Collection, Weights
from shared.domain.errors import InvalidInput
from shared.query.retrieve import CHANNELS, Query, Retrieval, RetrievedChunk

_ALL_TOKENS = 10**9  # no budget: metrics need every rank

LabelField = Literal["chunk_ids", "external_ids"]
Find = Callable[[Query], Awaitable[Retrieval]]


@dataclass(frozen=True, slots=True)
class EvaluationQuestion:
    """A question, and the documents or the chunks that answer it."""

    question: str
    external_ids: Sequence[str] = ()
    chunk_ids: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class FinishedQueries:
    """The numbers of finished and of all queries, and the strategy of the last one."""

    strategy: str
    done: int
    total: int


def label_field_of(questions: Sequence[EvaluationQuestion]) -> LabelField:
    """Return the kind of ids in the labels of all questions.

    Raises:
        InvalidInput: some labels name chunks and others documents, whose ranks cannot be compared.
    """
    fields: set[LabelField] = {"external_ids" if question.external_ids else "chunk_ids" for question in questions}
    if len(fields) > 1 or any(question.external_ids and question.chunk_ids for question in questions):
        raise InvalidInput("Label all questions by external_ids, or all by chunk_ids.", field="questions")
    return fields.pop()


async def evaluate_collection(
    find: Find,
    collection: Collection,
    questions: Sequence[EvaluationQuestion],
    strategies: Sequence[Strategy],
    baseline: str,
    *,
    notes: Sequence[str] = (),
) -> AsyncGenerator[FinishedQueries | Json, None]:
    """Search a collection for every question with each strategy.

    Args:
        find: searches the collection.
        collection: the collection.
        questions: labelled questions, in any order; repeated questions merge their answers.
        strategies: strategies to compare; a strategy that needs other points is skipped.
        baseline: strategy to which the others are compared.
        notes: sentences about the labels for readers of the numbers.

    Yields:
        The progress after every query, then the content of `results.json`; see `features.evaluation.results`.

    Raises:
        InvalidInput: no strategy is left, or the labels name documents and chunks.
    """
    label_field = label_field_of(questions)
    judgements: dict[str, dict[str, int]] = {}
    for labelled in questions:
        judgements.setdefault(labelled.question, {}).update(dict.fromkeys(getattr(labelled, label_field), 1))
    possible = [strategy for strategy in strategies if strategy.layout == "chunks"]
    reason = "it needs points of its own, which only a folder is given."
    left_out = [{"strategy": s.name, "reason": reason} for s in strategies if s not in possible]
    if not possible:
        raise InvalidInput(f"{left_out[0]['strategy']}: {reason}", field="strategies")
    measured: list[StrategyResult] = []
    total = len(possible) * len(judgements)
    for strategy in possible:
        searches = _Searches(strategy, label_field)
        for question in judgements:
            searches.add(question, await find(_query(strategy, question, collection.weights)))
            yield FinishedQueries(strategy.name, len(measured) * len(judgements) + len(searches.rankings), total)
        measured.append(searches.result(judgements))
    yield await asyncio.to_thread(  # intervals take a second
        build_results,
        EvaluatedSet(collection.name, collection.embedding_model, len(judgements)),
        measured,
        baseline,
        left_out=left_out,
        notes=[*notes, *(note for result in measured for note in result.notes)],
    )


def _query(strategy: Strategy, question: str, weights: Weights) -> Query:
    """Return a strategy's query with the collection's weights, or equal ones if these exclude one of its channels.

    A channel of weight 0 is not searched, and a strategy with only that channel would find nothing.
    """
    few = len(strategy.channels) < len(CHANNELS)
    return Query(
        question,
        top_k=CUTOFF,
        max_tokens=_ALL_TOKENS,
        channels=strategy.channels,
        fusion=strategy.fusion,
        rewriting=strategy.rewriting,
        rerank=strategy.rerank,
        weights=Weights() if few and not all(weights.weight(channel) for channel in strategy.channels) else None,
    )


class _Searches:
    """The results of a strategy, question by question."""

    def __init__(self, strategy: Strategy, label_field: LabelField) -> None:
        self._strategy = strategy
        self._label_field = label_field
        self.rankings: dict[str, list[str]] = {}
        self._milliseconds: list[float] = []
        self._skipped = Counter[str]()

    def add(self, question: str, retrieval: Retrieval) -> None:
        # A document has the rank of its first chunk.
        names = (name for chunk in retrieval.chunks for name in _names(chunk, self._label_field))
        self.rankings[question] = list(dict.fromkeys(names))
        trace = retrieval.trace
        self._skipped.update(f"{stage}: {reason}" for stage, reason in trace.skipped.items())
        self._milliseconds.append(sum(took for stage, took in trace.milliseconds.items() if stage != "embed"))

    def result(self, judgements: Mapping[str, Mapping[str, int]]) -> StrategyResult:
        name, queries = self._strategy.name, len(self.rankings)
        notes = tuple(f"{name}: {n} of {queries} queries were done without {why}" for why, n in self._skipped.items())
        quality = scores(judgements, self.rankings)
        return StrategyResult(self._strategy, quality, median(self._milliseconds), notes=notes)


def _names(chunk: RetrievedChunk, label_field: LabelField) -> Sequence[Any]:
    """Return the ids that a chunk counts for; a text in several documents counts for each of them."""
    return [chunk.chunk_id] if label_field == "chunk_ids" else [chunk.external_id, *chunk.also_in]
