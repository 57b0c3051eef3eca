"""The quality of a ranking: nDCG, reciprocal rank and recall, as `ir_measures` computes them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import ir_measures as ir  # an extra: where it is missing, an evaluation ends before it has done anything

CUTOFF = 10  # no metric looks further down
METRICS = ("ndcg@10", "mrr@10", "recall@1", "recall@5", "recall@10")

Judgements = Mapping[str, Mapping[str, int]]
Rankings = Mapping[str, Sequence[str]]


def scores(judgements: Judgements, rankings: Rankings) -> dict[str, dict[str, float]]:
    """Score each judged query by each metric.

    Args:
        judgements: for each query the scores of its passages; above 0 answers it.
        rankings: for each query the ids of passages, best first; a query without one found nothing.

    Returns:
        By metric, then by query in the order of the judgements.
    """
    names = dict(zip((ir.nDCG @ 10, ir.RR @ 10, ir.R @ 1, ir.R @ 5, ir.R @ 10), METRICS, strict=True))
    judged = [
        ir.Qrel(query, passage, score) for query, passages in judgements.items() for passage, score in passages.items()
    ]
    # The tool orders equal scores by id, so it gets ranks, which are never equal.
    ranked = [
        ir.ScoredDoc(query, passage, -float(rank))
        for query, passages in rankings.items()
        for rank, passage in enumerate(passages, 1)
    ]
    values: dict[str, dict[str, float]] = {metric: dict.fromkeys(judgements, 0.0) for metric in METRICS}
    for measured in ir.iter_calc(list(names), judged, ranked):
        values[names[measured.measure]][measured.query_id] = float(measured.value)
    return values
