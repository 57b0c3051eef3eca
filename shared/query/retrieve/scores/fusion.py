"""Fusion of a chunk's scores in the channels into one score.

- `scores`, the default: outstanding scores of a channel count more, and one near hit is enough; see
  `shared.query.retrieve.scores.default_fusion`.
- `mean`: the weighted mean of the channels' scores.
- `rrf`: weighted reciprocal ranks (Cormack, Clarke and Buettcher 2009, k = 60).
- `max`: the best weighted score of any channel.

Scores are on one scale, so that a channel that finds nothing near adds next to nothing. Ranks, and scores stretched
between the first and the last hit of each question, make the noise of such a channel as loud as the others: nDCG@10 is
up to 0.3 lower if users and texts share few words.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from operator import neg
from typing import NamedTuple, overload

import numpy as np

from shared.domain.corpus.collections import Weights
from shared.query.retrieve.query import Channel, FusionName
from shared.query.retrieve.scores.channels import ChannelHits
from shared.query.retrieve.scores.default_fusion import Channels, ScoreParts, Values, evidence, scores_in

_RRF_K = 60
_NO_HITS = ChannelHits()


class ChannelRank(NamedTuple):
    """A chunk's rank in a channel, from 1, and its score there."""

    rank: int
    score: float


Ranks = Mapping[Channel, ChannelRank]


class Match(NamedTuple):
    """A found chunk.

    Args:
        question: point of the matching question; None if the text was nearer or no question was found.
        ranks: ranks of the chunk in the channels that found it.
        evidence: parts of the score; None with a fusion other than `scores`.
        rerank_score: None if it was not reranked.
    """

    chunk_id: str
    score: float
    question: str | None
    ranks: Ranks
    evidence: ScoreParts | None = None
    rerank_score: float | None = None


class Matches(Sequence[Match]):
    """The chunks that any channel found, best first. Few are read of hundreds, and each is created when it is read.

    Args:
        channels: the hits of the channels.
        chunks: the chunks in any order.
        scores: their scores.
        parts: parts of their scores, as `evidence` returns them; None if they have none.
    """

    def __init__(
        self, channels: Channels, chunks: Sequence[str], scores: Sequence[float], parts: Values | None = None
    ) -> None:
        self._channels = channels
        self._parts = parts
        self._best = sorted(zip(map(neg, scores), chunks, range(len(chunks)), strict=True))

    def __len__(self) -> int:
        return len(self._best)

    @overload
    def __getitem__(self, index: int) -> Match: ...
    @overload
    def __getitem__(self, index: slice) -> list[Match]: ...
    def __getitem__(self, index: int | slice) -> Match | list[Match]:
        if isinstance(index, slice):
            return [self._match(*each) for each in self._best[index]]
        return self._match(*self._best[index])

    def _match(self, negative: float, chunk: str, number: int) -> Match:
        parts = None if self._parts is None else ScoreParts._make(self._parts[:, number].tolist())
        return Match(chunk, -negative, self._nearest_question(chunk), self._ranks_of(chunk), parts)

    def _ranks_of(self, chunk: str) -> dict[Channel, ChannelRank]:
        return {
            channel: ChannelRank(ranks[chunk], self._channels[channel].scores[chunk])
            for channel, ranks in self._ranks.items()
            if chunk in ranks
        }

    @cached_property
    def _ranks(self) -> dict[Channel, dict[str, int]]:
        return {
            channel: {chunk: rank for rank, chunk in enumerate(hits.scores, 1)}
            for channel, hits in self._channels.items()
        }

    def _nearest_question(self, chunk: str) -> str | None:
        """Return the point of the question that matched, unless the chunk's text was nearer."""
        questions, texts = self._channels.get("questions", _NO_HITS), self._channels.get("text", _NO_HITS).scores
        is_nearer = chunk in questions.questions and not (chunk in texts and texts[chunk] > questions.scores[chunk])
        return questions.questions[chunk] if is_nearer else None


def fuse(channels: Channels, fusion: FusionName, weights: Weights) -> Matches:
    """Rank every chunk that any channel found, best first; the chunk's id decides between equal scores."""
    chunks = list(dict.fromkeys(chunk for hits in channels.values() for chunk in hits.scores))
    if fusion == "scores":
        return Matches(channels, chunks, *evidence(chunks, channels, weights))
    shares = {channel: weights.weight(channel) for channel in channels}
    return Matches(channels, chunks, _FUSIONS[fusion](chunks, channels, shares))


Shares = Mapping[Channel, float]
Fusion = Callable[[Sequence[str], Channels, Shares], list[float]]


def _means(chunks: Sequence[str], channels: Channels, shares: Shares) -> list[float]:
    total = sum(shares.values()) or 1.0  # no weight at all: every score is 0
    weighted = (share * scores_in(channels[channel], chunks) for channel, share in shares.items())
    means: list[float] = (sum(weighted, np.zeros(len(chunks))) / total).tolist()
    return means


def _reciprocal_ranks(chunks: Sequence[str], channels: Channels, shares: Shares) -> list[float]:
    sums = dict.fromkeys(chunks, 0.0)
    for channel, hits in channels.items():
        for rank, chunk in enumerate(hits.scores, 1):
            sums[chunk] += shares[channel] / (_RRF_K + rank)
    return list(sums.values())


def _best(chunks: Sequence[str], channels: Channels, shares: Shares) -> list[float]:
    best = dict.fromkeys(chunks, float("-inf"))
    for channel, hits in channels.items():
        for chunk, score in hits.scores.items():
            best[chunk] = max(best[chunk], shares[channel] * score)
    return list(best.values())


_FUSIONS: Mapping[FusionName, Fusion] = {"mean": _means, "rrf": _reciprocal_ranks, "max": _best}
