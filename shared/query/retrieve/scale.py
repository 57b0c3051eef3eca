"""One scale for cosines of every embedding model, on which a question and an unrelated text score next to nothing.

Fusion adds scores of channels, so the noise of a channel must be quiet. The baseline similarity of a model is the
cosine of unrelated texts: below 0.1 for MiniLM, 0.75 for E5, whose noise would be as loud as BM25. A baseline
similarity above 0.1 is therefore moved to 0.1, and a cosine of 1 stays 1. The gain is in
`docs/decisions/0013-calibration-without-labels.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from shared.query.retrieve.channels import ChannelHits
from shared.query.retrieve.query import Channel

_USUAL = 0.1


def is_rescaled(baseline_similarity: float) -> bool:
    """Whether scores of a model with this baseline similarity change."""
    return baseline_similarity > _USUAL


def rescale(channels: Mapping[Channel, ChannelHits], baseline_similarity: float) -> dict[Channel, ChannelHits]:
    """Put the cosines of channels' hits on the scale of a model whose baseline similarity is the usual one."""
    if not is_rescaled(baseline_similarity):
        return dict(channels)
    zero = (baseline_similarity - _USUAL) / (1 - _USUAL)
    return {channel: hits if channel == "bm25" else _moved(hits, zero) for channel, hits in channels.items()}


def _moved(hits: ChannelHits, zero: float) -> ChannelHits:
    scores = {chunk: (score - zero) / (1 - zero) for chunk, score in hits.scores.items()}
    return replace(hits, scores=scores, floor=max(0.0, (hits.floor - zero) / (1 - zero)))
