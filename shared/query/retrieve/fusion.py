"""Fusion: the scores that channels give a chunk become one.

- `scores`, the default: the weighted mean of the channels' scores, which are on one scale. A channel that finds nothing
  near adds next to nothing. So the questions decide where a user's words are not those of the texts, and all channels
  decide where they are. Ranks, and scores stretched between the first and the last hit of each question, make the
  noise of such a channel as loud as the others: nDCG@10 up to 0.3 lower where users and texts share few words.
- `rrf`: weighted reciprocal ranks (Cormack, Clarke and Buettcher 2009, k = 60).
- `max`: the best weighted score of any channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from shared.domain.records import Weights
from shared.query.retrieve.channels import ChannelHits
from shared.query.retrieve.query import Channel, FusionName

_RRF_K = 60

Channels = Mapping[Channel, ChannelHits]
Scores = NDArray[np.float64]


class ChannelRank(NamedTuple):
    """A chunk's rank in a channel, from 1, and its score there."""

    rank: int
    score: float


Ranks = Mapping[Channel, ChannelRank]


class Match(NamedTuple):
    """A chunk that was found. A query makes hundreds.

    Args:
        question: the point of the question that matched; None where the text was nearer or no question was found.
        ranks: of the chunk, by the channels that found it.
        rerank_score: None where it was not reranked.
    """

    chunk_id: str
    score: float
    question: str | None
    ranks: Ranks
    rerank_score: float | None = None


def fuse(channels: Channels, fusion: FusionName, weights: Weights) -> list[Match]:
    """Rank every chunk that any channel found, best first; of equal scores the chunk's id decides."""
    ranks: dict[str, dict[Channel, ChannelRank]] = {}
    for channel, hits in channels.items():
        for rank, (chunk, score) in enumerate(hits.scores.items(), 1):
            ranks.setdefault(chunk, {})[channel] = ChannelRank(rank, score)
    scores = _FUSIONS[fusion](ranks, channels, {channel: weights.of(channel) for channel in channels})
    nearest = _nearest_questions(channels)
    best = sorted(ranks, key=lambda chunk: (-scores[chunk], chunk))
    return [Match(chunk, scores[chunk], nearest.get(chunk), ranks[chunk]) for chunk in best]


def _nearest_questions(channels: Channels) -> dict[str, str]:
    """The point of the question that matched, by chunk, unless the chunk's text was nearer."""
    if "questions" not in channels:
        return {}
    hits, texts = channels["questions"], channels["text"].scores if "text" in channels else {}
    return {c: question for c, question in hits.questions.items() if c not in texts or texts[c] <= hits.scores[c]}


def weighted_means(chunks: Sequence[str], channels: Channels, many: Sequence[Weights]) -> Scores:
    """The scores that `fuse` gives these chunks with the fusion `scores`, for many weights at once.

    Choosing weights tries dozens on each question, which takes this as long as one of them takes `fuse`.

    Returns:
        Shape `(weights, chunks)`.
    """
    shares = np.array([[weights.of(channel) for channel in channels] for weights in many])
    total = shares.sum(axis=1, keepdims=True)
    fused = np.zeros((len(many), len(chunks)))
    for share, hits in zip(shares.T, channels.values(), strict=True):  # in the order of `_means`
        scores = np.array([max(0.0, hits.scores[c]) if c in hits.scores else hits.floor / 2 for c in chunks])
        fused += share[:, None] * scores
    return np.asarray(fused / np.where(total > 0, total, 1.0))  # no weight at all: every score is 0


ChunkRanks = Mapping[str, Ranks]
Shares = Mapping[Channel, float]
Fusion = Callable[[ChunkRanks, Channels, Shares], Mapping[str, float]]


def _means(ranks: ChunkRanks, channels: Channels, shares: Shares) -> dict[str, float]:
    fused = dict.fromkeys(ranks, 0.0)
    for channel, share in shares.items():
        scores = channels[channel].scores
        # A chunk outside a channel's hits scored between 0 and its floor: count half of the floor.
        of_others = channels[channel].floor / 2
        for chunk in fused:
            fused[chunk] += share * (max(0.0, scores[chunk]) if chunk in scores else of_others)
    total = sum(shares.values()) or 1.0  # no weight at all: every score is 0
    return {chunk: score / total for chunk, score in fused.items()}


def _reciprocal_ranks(ranks: ChunkRanks, _: Channels, shares: Shares) -> dict[str, float]:
    return {
        chunk: sum(shares[channel] / (_RRF_K + place.rank) for channel, place in of_chunk.items())
        for chunk, of_chunk in ranks.items()
    }


def _best(ranks: ChunkRanks, _: Channels, shares: Shares) -> dict[str, float]:
    return {
        chunk: max(shares[channel] * place.score for channel, place in of_chunk.items())
        for chunk, of_chunk in ranks.items()
    }


_FUSIONS: Mapping[FusionName, Fusion] = {"scores": _means, "rrf": _reciprocal_ranks, "max": _best}
