"""The quality of a ranking: nDCG, reciprocal rank and recall, as trec_eval defines them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import log2

CUTOFF = 10  # ranks that a metric considers

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]
Metric = Callable[[Mapping[str, int], Sequence[str]], float]


def scores(judgements: Judgements, rankings: Rankings) -> dict[str, dict[str, float]]:
    """Score each labelled query by each metric.

    Args:
        judgements: per query, the scores of its passages; a score above 0 is relevant.
        rankings: per query, distinct ids of passages, best first; a missing query found nothing.

    Returns:
        Scores by metric, then by query in the order of the judgements.
    """
    return {
        name: {query: metric(passages, rankings.get(query, ())) for query, passages in judgements.items()}
        for name, metric in _METRICS.items()
    }


def _ndcg(relevance: Mapping[str, int], ranking: Sequence[str]) -> float:
    """Return the gain of the results at their ranks, relative to the ideal order (Järvelin and Kekäläinen, 2002)."""
    best = _gain(sorted(relevance.values(), reverse=True))
    return _gain([relevance.get(passage, 0) for passage in ranking]) / best if best else 0.0


def _gain(values: Sequence[int]) -> float:
    return sum(max(value, 0) / log2(rank + 1) for rank, value in enumerate(values[:CUTOFF], 1))


def _reciprocal_rank(relevance: Mapping[str, int], ranking: Sequence[str]) -> float:
    ranks = (rank for rank, passage in enumerate(ranking[:CUTOFF], 1) if relevance.get(passage, 0) > 0)
    return 1 / next(ranks, float("inf"))


def _recall(depth: int) -> Metric:
    def recall(relevance: Mapping[str, int], ranking: Sequence[str]) -> float:
        answers = {passage for passage, score in relevance.items() if score > 0}
        return len(answers & set(ranking[:depth])) / len(answers) if answers else 0.0

    return recall


_METRICS: Mapping[str, Metric] = {
    "ndcg@10": _ndcg,
    "mrr@10": _reciprocal_rank,
    "recall@1": _recall(1),
    "recall@5": _recall(5),
    "recall@10": _recall(10),
}
METRICS = tuple(_METRICS)
