"""Channels: the ways in which a question can find a chunk, each with scores that are comparable between questions.

- `questions`: the cosine of the user's question with the nearest of the chunk's questions.
- `text`: its cosine with the chunk's text.
- `bm25`: the chunk's BM25 score as a share of the score that a chunk with every word of the question would reach, so
  that it is near 0 if question and texts share no words.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from operator import neg

from shared.domain.corpus.ids import chunk_of_point
from shared.domain.text.bm25 import MOST_OF_A_TERM, QueryVector
from shared.domain.vectors import Vectors
from shared.query.retrieve.query import Channel
from shared.vectors.hits import RankedPoints
from shared.vectors.schema.filters import VisiblePoints
from shared.vectors.searches import Search, bm25_search, question_search, text_search

DEPTH = 100  # hits of a channel that are fused: with 50 nDCG@10 is up to a point lower, with 200 the same
_QUESTIONS_PER_CHUNK = 10  # maximum number of generated questions; if a chunk has more, the search is widened
_SHARE_OF_RAREST = 0.5  # assume that a question's words have half of the maximal IDF on average (measured: 0.4 to 0.6)
_REWRITTEN = 0.9  # a score that only a rewritten question reaches counts this share of itself


@dataclass(frozen=True, slots=True)
class ChannelQuery:
    """The representations of a question that the channels search with.

    Args:
        vector: shape `(dimensions,)`, unit length.
    """

    vector: Vectors
    terms: QueryVector


@dataclass(frozen=True, slots=True)
class ChannelHits:
    """The chunks found by a channel.

    Args:
        scores: score by chunk, best first.
        questions: point of the matching question, by chunk.
        floor: highest possible score of a chunk outside these hits; 0 if the channel found all that match.
        points: number of points found; a chunk may have several.
        versions: newest found version of each chunk.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    questions: Mapping[str, str] = field(default_factory=dict)
    floor: float = 0.0
    points: int = 0
    versions: Mapping[str, int] = field(default_factory=dict)


def limit_of(channel: Channel, top_k: int) -> int:
    """Return the number of points to search for; more questions than texts, because a chunk has many questions."""
    return max(DEPTH, top_k * _QUESTIONS_PER_CHUNK if channel == "questions" else top_k)


def search_of(channel: Channel, query: ChannelQuery, where: VisiblePoints, limit: int) -> Search:
    """Return the search of one channel."""
    if channel == "bm25":
        return bm25_search(query.terms, where, limit)
    return (question_search if channel == "questions" else text_search)(query.vector, where, limit)


def fold(channel: Channel, points: RankedPoints, limit: int, full_score: float) -> ChannelHits:
    """Fold a channel's points to chunks, each with its best score; ties are broken by chunk id.

    During an edit two versions of a chunk may be found; it counts once.

    Args:
        channel: channel, which determines the kind of points.
        points: points that `search_of` found.
        limit: number of points requested.
        full_score: BM25 score that counts as 1; other channels ignore it.
    """
    scores: dict[str, float] = {}
    questions: dict[str, str] = {}
    versions: dict[str, int] = {}
    found = points.scores if channel != "bm25" else [score / full_score for score in points.scores]
    for point, score in zip(points.ids, found, strict=True):
        chunk, version = chunk_of_point(point)
        if version > versions.get(chunk, -1):
            versions[chunk] = version
        if chunk not in scores or score > scores[chunk]:
            scores[chunk] = score
            questions[chunk] = point
    floor = min(scores.values()) if len(found) >= limit else 0.0
    return ChannelHits(
        _ranked(scores), questions if channel == "questions" else {}, max(0.0, floor), len(found), versions
    )


def merge(
    original: Mapping[Channel, ChannelHits], rewritten: Sequence[Mapping[Channel, ChannelHits]]
) -> dict[Channel, ChannelHits]:
    """Give each chunk the best score of a channel for the original or a rewritten question.

    A rewritten question's scores count a little less: they help if the original finds nothing near, and do not override
    its hits.
    """
    best = dict(original)
    for channels in rewritten:
        for channel, hits in channels.items():
            best[channel] = _better(best.get(channel, ChannelHits()), hits)
    return best


def _better(original: ChannelHits, rewritten: ChannelHits) -> ChannelHits:
    scores, questions = dict(original.scores), dict(original.questions)
    for chunk, score in rewritten.scores.items():
        if chunk not in scores or score * _REWRITTEN > scores[chunk]:
            scores[chunk] = score * _REWRITTEN
            if chunk in rewritten.questions:
                questions[chunk] = rewritten.questions[chunk]
    versions = {**rewritten.versions, **original.versions}
    return ChannelHits(_ranked(scores), questions, max(original.floor, rewritten.floor * _REWRITTEN), versions=versions)


def _ranked(scores: Mapping[str, float]) -> dict[str, float]:
    return {chunk: scores[chunk] for _, chunk in sorted(zip(map(neg, scores.values()), scores, strict=True))}


def full_bm25(terms: QueryVector, chunks: int) -> float:
    """Return the approximate score of a chunk that repeats every word of the question, among this many chunks."""
    rarest = log(1 + 2 * max(1, chunks))  # the inverse document frequency of a word that a single chunk has
    return max(1, terms.words) * MOST_OF_A_TERM * _SHARE_OF_RAREST * rarest
