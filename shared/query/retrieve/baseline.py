"""The background of an embedding model: how near its vectors bring a question and a text that have nothing in common.

Scores are fused on one scale, on which such a pair must have next to nothing. So it is with MiniLM, whose background is
below 0.1; that of E5 is 0.75, and the noise of a channel that finds nothing near would be as loud as BM25. So a
background above 0.1 is moved there, and what is alike stays at 1. It takes no label to measure it; what it gains is in
`docs/decisions/0013-calibration-without-labels.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from shared.domain.vectors import Vectors
from shared.query.retrieve.channels import ChannelHits
from shared.query.retrieve.query import Channel

_USUAL = 0.1
MOST_PAIRS = 200  # questions, each with its text, by which a background is measured
FEWEST_PAIRS = 30  # fewer say little of what is near by chance


def baseline_of(questions: Vectors, texts: Vectors) -> float:
    """The mean cosine of questions with the texts of others; 0, which changes nothing, where there are too few.

    Args:
        questions: shape `(n, dimensions)`, unit length.
        texts: of the same shape; row i is the text that question i belongs to.
    """
    if len(questions) < FEWEST_PAIRS:
        return 0.0
    cosines = questions @ texts.T
    others = ~np.eye(len(cosines), dtype=bool)
    return float(cosines[others].mean())


def is_high(baseline: float) -> bool:
    """Whether it changes scores."""
    return baseline > _USUAL


def rescale(found: Mapping[Channel, ChannelHits], baseline: float) -> dict[Channel, ChannelHits]:
    """Put the cosines of what was found on the scale of a model whose background is the usual one."""
    if not is_high(baseline):
        return dict(found)
    zero = (baseline - _USUAL) / (1 - _USUAL)
    return {channel: hits if channel == "bm25" else _moved(hits, zero) for channel, hits in found.items()}


def _moved(found: ChannelHits, zero: float) -> ChannelHits:
    scores = {chunk: (score - zero) / (1 - zero) for chunk, score in found.scores.items()}
    return replace(found, scores=scores, floor=max(0.0, (found.floor - zero) / (1 - zero)))
