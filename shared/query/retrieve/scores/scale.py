"""One scale for the cosines of every embedding model, on which unrelated questions and texts score almost nothing.

Fusion adds scores of channels, so a channel's noise must have a low mean and a small deviation. The cosines of
unrelated texts are 0.05 ± 0.09 for MiniLM in English, 0.75 ± 0.03 for E5, whose noise would count as much as BM25, and
0.44 ± 0.18 for MiniLM in Thai, which it does not know; the deviation is also large if texts share a subject.

A mean above 0.1 is shifted to 0.1. If the standard deviation is above 0.1, the excess of a cosine over the mean is
divided by the variance, as in the combination of evidence of unequal precision. A cosine of 1 stays 1, so that a
repeated question still ranks first. The gain is measured in `docs/decisions/0013-calibration-without-labels.md`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from shared.domain.corpus.collections import Baseline
from shared.query.retrieve.query import Channel
from shared.query.retrieve.scores.channels import ChannelHits

_USUAL = 0.1
_USUAL_SPREAD = 0.1
_ALIKE = 0.7  # noise is below; above, scores lead up to 1

Scale = Callable[[float], float]


def scale_of(baseline: Baseline) -> Scale | None:
    """Return the function that rescales a cosine; None if a model's cosines need no rescaling."""
    zero = max(0.0, (baseline.similarity - _USUAL) / (1 - _USUAL))
    spread = baseline.spread / (1 - zero)
    if not zero and spread <= _USUAL_SPREAD:
        return None
    quiet = (_USUAL_SPREAD / max(_USUAL_SPREAD, spread)) ** 2
    alike = _USUAL + (_ALIKE - _USUAL) * quiet
    rise = (1 - alike) / (1 - _ALIKE)

    def scaled(cosine: float) -> float:
        moved = (cosine - zero) / (1 - zero)
        return 1 - (1 - moved) * rise if moved > _ALIKE else _USUAL + (moved - _USUAL) * quiet

    return scaled


def rescale(channels: Mapping[Channel, ChannelHits], baseline: Baseline) -> dict[Channel, ChannelHits]:
    """Rescale the cosines of hits to the scale of a model with the usual baseline."""
    scale = scale_of(baseline)
    if scale is None:
        return dict(channels)
    return {channel: hits if channel == "bm25" else _scaled(hits, scale) for channel, hits in channels.items()}


def _scaled(hits: ChannelHits, scale: Scale) -> ChannelHits:
    scores = {chunk: scale(score) for chunk, score in hits.scores.items()}
    return replace(hits, scores=scores, floor=max(0.0, scale(hits.floor)))
