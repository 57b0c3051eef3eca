"""Diversity: maximal marginal relevance (Carbonell and Goldstein 1998)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from shared.domain.vectors import Vectors
from shared.query.retrieve.scores.fusion import Match

CANDIDATES = 5  # for each chunk to choose


def diversified(matches: Sequence[Match], vectors: Mapping[str, Vectors], top_k: int, diversity: float) -> list[Match]:
    """Choose chunks one after the other, each by its score minus its cosine with the nearest chosen chunk.

    Args:
        matches: best first.
        top_k: number of chunks to choose.
        vectors: text vectors by chunk, shape `(dimensions,)`, unit length; a chunk without one is similar to none.
        diversity: from 0, by score only, to 1, by cosine only.

    Returns:
        At most `top_k` of the matches, in the order of choice.
    """
    left, chosen = list(matches), list[Match]()
    cosines = dict.fromkeys((match.chunk_id for match in left), 0.0)
    while left and len(chosen) < top_k:
        best = max(left, key=lambda m: (1 - diversity) * m.score - diversity * cosines[m.chunk_id])
        left.remove(best)
        chosen.append(best)
        if best.chunk_id in vectors:
            for match in left:
                if match.chunk_id in vectors:
                    cosine = float(np.dot(vectors[best.chunk_id], vectors[match.chunk_id]))
                    cosines[match.chunk_id] = max(cosines[match.chunk_id], cosine)
    return chosen
