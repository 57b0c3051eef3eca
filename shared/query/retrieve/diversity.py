"""Diversity: maximal marginal relevance (Carbonell and Goldstein 1998)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shared.domain.vectors import Vectors
from shared.query.retrieve.fusion import Match

CANDIDATES = 5  # for each chunk that is wanted


def diversified(matches: Sequence[Match], vectors: Mapping[str, Vectors], top_k: int, diversity: float) -> list[Match]:
    """Choose chunks one after the other, each by its score less its likeness to the nearest that is chosen.

    Args:
        matches: best first.
        top_k: how many to choose.
        vectors: unit vectors of the chunks' texts; a chunk without one is like no other.
        diversity: from 0, by score alone, to 1, by likeness alone.
    """
    left, chosen = list(matches), list[Match]()
    likeness = dict.fromkeys((match.chunk_id for match in left), 0.0)
    while left and len(chosen) < top_k:
        best = max(left, key=lambda m: (1 - diversity) * m.score - diversity * likeness[m.chunk_id])
        left.remove(best)
        chosen.append(best)
        if best.chunk_id in vectors:
            for match in left:
                if match.chunk_id in vectors:
                    near = float(np.dot(vectors[best.chunk_id], vectors[match.chunk_id]))
                    likeness[match.chunk_id] = max(likeness[match.chunk_id], near)
    return chosen
