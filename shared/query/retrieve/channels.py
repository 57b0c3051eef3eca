"""Channels: the ways in which a question can find a chunk, each on a scale that means the same for every question.

- `questions`: the cosine of the user's question with the nearest of the chunk's questions.
- `text`: its cosine with the chunk's text.
- `bm25`: the chunk's BM25 score as a share of what a chunk that says every word of the question would reach, so that
  it is near 0 where the words of the question are not those of the texts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

from shared.domain.vectors import Vectors
from shared.query.retrieve.query import Channel, QuestionOrigin
from shared.text.bm25 import MOST_OF_A_TERM, SparseVector
from shared.vectors.index import Hit

DEPTH = 100  # hits of a channel that are fused: with 50 nDCG@10 is up to a point lower, with 200 the same
_QUESTIONS_PER_CHUNK = 10  # the most that are written; where a chunk has more, the search is widened
# The words of a question weigh half as much as a word that one chunk alone has: measured, 0.4 to 0.6 of it.
_SHARE_OF_RAREST = 0.5
_REWRITTEN = 0.9  # what a score that a rewritten question reaches counts of itself


@dataclass(frozen=True, slots=True)
class ChannelQuery:
    """A question as the channels need it."""

    vector: Vectors
    terms: SparseVector


@dataclass(frozen=True, slots=True)
class MatchedQuestion:
    """A chunk's question that a search found, and whether it was written or given beforehand, or asked by a user."""

    text: str
    source: QuestionOrigin


@dataclass(frozen=True, slots=True)
class ChannelHits:
    """What a channel found.

    Args:
        scores: by chunk, best first.
        questions: the question that matched, by chunk.
        beyond: the most that a chunk can have which is not among them.
        points: how many hits that were; a chunk may have several.
    """

    scores: Mapping[str, float] = field(default_factory=dict)
    questions: Mapping[str, MatchedQuestion] = field(default_factory=dict)
    floor: float = 0.0
    points: int = 0


def limit_of(channel: Channel, top_k: int) -> int:
    """How many points to ask for: a chunk has one text, but many questions may stand in front of the next chunk's."""
    return max(DEPTH, top_k * _QUESTIONS_PER_CHUNK if channel == "questions" else top_k)


def request_of(channel: Channel, sought: ChannelQuery, where: Mapping[str, Any], limit: int) -> dict[str, Any]:
    """The search of one channel, as Qdrant's REST API takes it; `where` is a filter of that API."""
    request: dict[str, Any] = {"filter": where, "limit": limit, "with_payload": False}
    if channel == "bm25":
        return request | {"query": {"indices": sought.terms.indices, "values": sought.terms.values}, "using": "bm25"}
    if channel == "questions":
        request["with_payload"] = ["chunk_id", "question", "source"]
    return request | {"query": sought.vector.tolist(), "using": "question" if channel == "questions" else "text"}


def found_of(channel: Channel, hits: Sequence[Hit], limit: int, full_score: float) -> ChannelHits:
    """Fold a channel's hits to chunks, each with its best score; of equal ones the chunk's id decides."""
    scores: dict[str, float] = {}
    questions: dict[str, MatchedQuestion] = {}
    for hit in hits:
        chunk = str(hit.payload["chunk_id"]) if channel == "questions" else hit.id
        score = hit.score / full_score if channel == "bm25" else hit.score
        if chunk not in scores or score > scores[chunk]:
            scores[chunk] = score
            if channel == "questions":
                source: QuestionOrigin = "user" if hit.payload.get("source") == "user" else "generated"
                questions[chunk] = MatchedQuestion(str(hit.payload["question"]), source)
    ranked = dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
    floor = min(scores.values()) if len(hits) >= limit else 0.0
    return ChannelHits(ranked, questions, max(0.0, floor), len(hits))


def merged(
    direct: Mapping[Channel, ChannelHits], rewritten: Sequence[Mapping[Channel, ChannelHits]]
) -> dict[Channel, ChannelHits]:
    """Give each chunk the best score that a channel has for it, with the question as it was asked or rewritten.

    What a rewritten question finds counts a little less: it helps where the question itself finds nothing near, and
    does not override what it finds.
    """
    best = dict(direct)
    for found in rewritten:
        for channel, hits in found.items():
            best[channel] = _better(best.get(channel, ChannelHits()), hits)
    return best


def _better(found: ChannelHits, rewritten: ChannelHits) -> ChannelHits:
    scores, questions = dict(found.scores), dict(found.questions)
    for chunk, score in rewritten.scores.items():
        if chunk not in scores or score * _REWRITTEN > scores[chunk]:
            scores[chunk] = score * _REWRITTEN
            if chunk in rewritten.questions:
                questions[chunk] = rewritten.questions[chunk]
    ranked = dict(sorted(scores.items(), key=lambda item: (-item[1], item[0])))
    return ChannelHits(ranked, questions, max(found.floor, rewritten.floor * _REWRITTEN))


def full_bm25(terms: SparseVector, chunks: int) -> float:
    """About the score of a chunk that says every word of the question often, among so many chunks."""
    rarest = log(1 + 2 * max(1, chunks))  # the inverse document frequency of a word in one chunk alone
    return max(1, len(terms.indices)) * MOST_OF_A_TERM * _SHARE_OF_RAREST * rarest
