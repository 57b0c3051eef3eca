"""The choice of a collection's channel weights with labelled questions.

Equal weights are hard to beat, so they are kept unless others are significantly better: the lower bound of the paired
difference in nDCG@10 (one-sided, 95 %) must be above zero, and the weights with the highest bound are chosen. Measured
on six sets with the mean of the channels, 300 draws of 30 questions each, evaluated on the rest: this lost 0.000 to
0.002 if equal weights are near the best, and won 0.001 to 0.005 otherwise, with 60 questions up to 0.009. The best
weights of the 30 questions instead lost up to 0.008. With the default fusion it lost 0.0001 to 0.0005 on three sets for
which equal weights are nearly the best (`python -m bench fusion`).

Each single channel is a candidate, too, so it replaces the mix if it is significantly better. A rule that replaces the
mix whenever a channel's mean is not lower lost up to 0.009 with 30 questions, because one of three channels is often
ahead by chance.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from shared.domain.corpus.collections import Weights
from shared.query.calibrate.significance import Interval, Values, interval
from shared.query.retrieve.query import CHANNELS, Channel
from shared.query.retrieve.scores.channels import ChannelHits
from shared.query.retrieve.scores.default_fusion import Channels, evidence_scores

EQUAL = Weights()
_K = 10
_STEPS = (0.0, 0.25, 0.5, 1.0, 2.0, 4.0)  # weights of questions and bm25 relative to text
_WITHOUT_TEXT = (Weights(1, 0, 0), Weights(0, 0, 1), Weights(1, 0, 1), Weights(1, 0, 0.5))
_ONE_SIDED_95 = 1.64

HitsOfQuestions = Sequence[Mapping[Channel, ChannelHits]]  # per question, the hits of each channel
Answers = Sequence[Collection[str]]  # for each question the ids of chunks that answer it; one of them is enough


@dataclass(frozen=True, slots=True)
class WeightChoice:
    """Weights and their evidence: nDCG@10 of each single channel, of equal weights and of these weights."""

    weights: Weights
    questions: int
    channels: Mapping[Channel, Interval]
    equal: Interval
    chosen: Interval


def choose_weights(hits: HitsOfQuestions, answers: Answers) -> WeightChoice:
    """Choose weights that are significantly better than equal weights, or else equal weights.

    Args:
        hits: hits of each channel, per question.
        answers: relevant chunks; row i belongs to question i.
    """
    tried = candidates()
    equal, *others = ndcg(hits, answers, [EQUAL, *tried])
    bounds = {weights: lower_bound(values - equal) for weights, values in zip(tried, others, strict=True)}
    best = max(bounds, key=bounds.__getitem__)
    return _measured(hits, answers, best if bounds[best] > 0 else EQUAL)


def measure_equal_weights(hits: HitsOfQuestions, answers: Answers) -> WeightChoice:
    """Keep equal weights, and measure them and each channel."""
    return _measured(hits, answers, EQUAL)


def _measured(hits: HitsOfQuestions, answers: Answers, weights: Weights) -> WeightChoice:
    alone = [Weights(**{name: float(name == channel) for name in CHANNELS}) for channel in CHANNELS]
    *channels, equal, chosen = map(interval, ndcg(hits, answers, [*alone, EQUAL, weights]))
    return WeightChoice(weights, len(hits), dict(zip(CHANNELS, channels, strict=True)), equal, chosen)


def candidates() -> list[Weights]:
    """Return the weights that are tried."""
    beside_text = [Weights(questions, 1, bm25) for questions, bm25 in product(_STEPS, _STEPS)]
    return [*beside_text, *_WITHOUT_TEXT]


def ndcg(hits: HitsOfQuestions, answers: Answers, many: Sequence[Weights]) -> Values:
    """Return nDCG@10 of each question if one relevant chunk suffices: the gain of the first at its rank.

    Returns:
        Shape `(weights, questions)`.
    """
    gains = [_first_gains(*pair, many) for pair in zip(hits, answers, strict=True)]
    return np.array(gains).reshape(len(gains), len(many)).T


def _first_gains(channels: Channels, answers: Collection[str], many: Sequence[Weights]) -> Values:
    """Return the gain of the first relevant chunk, shape `(weights,)`; chunk ids decide between equal scores."""
    chunks = sorted(set().union(*(hits.scores for hits in channels.values())))
    relevant = np.array([chunk in answers for chunk in chunks], dtype=bool)
    if not relevant.any():
        return np.zeros(len(many))
    fused = evidence_scores(chunks, channels, many)
    first = np.where(relevant, fused, -np.inf).argmax(axis=1)[:, None]
    best = np.take_along_axis(fused, first, axis=1)
    before = (fused > best) | ((fused == best) & (np.arange(len(chunks)) < first))
    rank = before.sum(axis=1) + 1
    return np.where((rank <= _K) & (best[:, 0] > 0), 1 / np.log2(rank + 1), 0.0)


def lower_bound(differences: Values) -> float:
    """Return the lower bound of a mean difference, one-sided, 95 %; `differences` has shape `(questions,)`."""
    error = float(differences.std(ddof=1)) / np.sqrt(len(differences))
    return float(differences.mean() - _ONE_SIDED_95 * error)
