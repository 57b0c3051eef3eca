"""Combinations of scores in other products and articles; arrays have the shape `(passages,)`, -inf: not found.

`docs/explanation/comparison.md` names the sources.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bench.calibration import Scores

DEPTH = 100  # hits of each search that are combined, as in foreask
TOP = 10
_HYQE_FIRST = 30
_HYQE_WEIGHT = 0.5


def ranking(scores: Scores, ids: Sequence[str]) -> list[str]:
    """Return the ids of the best ten passages that were found, best first."""
    return [ids[index] for index in np.argsort(-scores, kind="stable")[:TOP] if np.isfinite(scores[index])]


def first(scores: Scores, count: int) -> Scores:
    """Return the scores of the best `count` passages; the others are not found."""
    kept = np.full(len(scores), -np.inf)
    best = np.argsort(-scores, kind="stable")[:count]
    kept[best] = scores[best]
    return kept


def stretched(scores: Scores) -> Scores:
    """Return the scores stretched so that the best hit has 1 and the last has 0; passages that are not found have 0."""
    found = np.isfinite(scores)
    if not found.any():
        return np.zeros(len(scores))
    low, high = scores[found].min(), scores[found].max()
    return np.where(found, (np.where(found, scores, low) - low) / ((high - low) or 1.0), 0.0)


def weighted_sum(texts: Scores, words: Scores, weight: float = 0.5) -> Scores:
    """Return the weighted sum of the stretched scores of two searches, each of its first hits.

    Args:
        texts: cosines.
        words: scores of BM25.
        weight: weight of `words`; `texts` has the rest.
    """
    texts, words = first(texts, DEPTH), first(words, DEPTH)
    total = (1 - weight) * stretched(texts) + weight * stretched(words)
    return np.where(np.isfinite(texts) | np.isfinite(words), total, -np.inf)


def hyqe(texts: Scores, questions: Scores, weight: float = _HYQE_WEIGHT, count: int = _HYQE_FIRST) -> Scores:
    """Reorder the first `count` hits by their cosine plus the weighted cosine of their nearest question.

    Args:
        texts: cosines of the texts.
        questions: cosines of the nearest questions; -inf for a passage without questions, to which nothing is added.
        weight: λ of the article.
        count: number of hits that are reordered; the others are dropped.
    """
    return first(texts, count) + weight * np.where(np.isfinite(questions), questions, 0.0)
