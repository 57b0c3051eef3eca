"""Expected chunks: their ranks in each channel, and the reason why they were not returned.

The same code determines the ranks in a much deeper search. A chunk that this search does not reach has no rank; its
scores come from a search for only this chunk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from shared.domain.corpus.collections import Baseline, Weights
from shared.query.retrieve.query import Channel, Query, QuestionOrigin
from shared.query.retrieve.scores.channels import ChannelHits, ChannelQuery
from shared.query.retrieve.scores.fusion import fuse
from shared.query.retrieve.scores.scale import rescale
from shared.query.retrieve.searching import Searcher
from shared.vectors.schema.filters import VisiblePoints

DEPTH = 1_000  # chunks of each channel

LeftOut = Literal["absent", "filter", "min_score", "top_k", "max_tokens"]


@dataclass(frozen=True, slots=True)
class ExpectedRank:
    """A chunk's rank in a channel.

    Args:
        rank: from 1; None: more than `DEPTH` chunks rank higher.
    """

    rank: int | None
    score: float


@dataclass(frozen=True, slots=True)
class ExpectedChunk:
    """An expected chunk.

    Args:
        rank: rank by the fused score, from 1; None if a search of depth `DEPTH` does not reach it.
        score: fused score; None if no channel with a weight finds it.
        channels: its ranks by channel; a missing channel contributes nothing.
        question: point of its nearest question.
        question_text: text of that question.
        question_source: its origin.
        left_out: reason why it is not returned; None if it is.
    """

    chunk_id: str
    rank: int | None = None
    score: float | None = None
    channels: Mapping[Channel, ExpectedRank] = field(default_factory=dict)
    question: str | None = None
    question_text: str | None = None
    question_source: QuestionOrigin | None = None
    left_out: LeftOut | None = None


@dataclass(frozen=True, slots=True)
class Scopes:
    """The searches for the ranks of chunks.

    Args:
        all: points that the query may see.
        chosen: the expected chunks among them.
        unfiltered: the expected chunks, ignoring the query's own filter.
    """

    all: VisiblePoints
    chosen: VisiblePoints
    unfiltered: VisiblePoints


async def expected_ranks(  # noqa: PLR0917 - the parts of a search
    searcher: Searcher,
    channel_query: ChannelQuery,
    scopes: Scopes,
    query: Query,
    weights: Weights,
    baseline: Baseline,
) -> list[ExpectedChunk]:
    """Return the ranks of the chunks that a query expects, in its order.

    Raises:
        Unavailable: Qdrant is unavailable.
    """
    deep = replace(query, top_k=max(DEPTH, query.top_k), candidates=True)
    hits = rescale(await searcher.search(channel_query, scopes.all, deep, weights), baseline)
    few = replace(query, top_k=len(query.expected), candidates=True)
    own = rescale(await searcher.search(channel_query, scopes.chosen, few, weights), baseline)
    wide = rescale(await searcher.search(channel_query, scopes.unfiltered, few, weights), baseline)
    counted = {
        channel: _with(found, own.get(channel)) for channel, found in hits.items() if weights.weight(channel) > 0
    }
    fused = {m.chunk_id: (rank, m.score) for rank, m in enumerate(fuse(counted, query.fusion, weights), 1)}
    visible = {chunk for found in own.values() for chunk in found.scores}
    there = {chunk for found in wide.values() for chunk in found.scores}
    return [_ranked(chunk, hits, own, fused, query, visible, there) for chunk in query.expected]


def _with(hits: ChannelHits, own: ChannelHits | None) -> ChannelHits:
    """Add the scores of chunks that a deep search has not reached; they rank after all others."""
    missing = {} if own is None else {c: score for c, score in own.scores.items() if c not in hits.scores}
    return replace(hits, scores={**hits.scores, **missing})


def _ranked(  # noqa: PLR0917 - the results of three searches
    chunk: str,
    hits: Mapping[Channel, ChannelHits],
    own: Mapping[Channel, ChannelHits],
    fused: Mapping[str, tuple[int, float]],
    query: Query,
    visible: set[str],
    there: set[str],
) -> ExpectedChunk:
    if chunk not in visible:
        return ExpectedChunk(chunk, left_out="filter" if chunk in there else "absent")
    channels = {
        channel: ExpectedRank(_rank_in(hits.get(channel), chunk), found.scores[chunk])
        for channel, found in own.items()
        if chunk in found.scores
    }
    rank, score = fused.get(chunk, (None, None))
    is_ranked = rank is not None and any(expected.rank is not None for expected in channels.values())
    questions = own["questions"].questions if "questions" in own else {}
    return ExpectedChunk(
        chunk, rank if is_ranked else None, score, channels, questions.get(chunk), left_out=_why(rank, score, query)
    )


def _rank_in(hits: ChannelHits | None, chunk: str) -> int | None:
    if hits is None or chunk not in hits.scores:
        return None
    return next(rank for rank, other in enumerate(hits.scores, 1) if other == chunk)


def _why(rank: int | None, score: float | None, query: Query) -> LeftOut | None:
    if query.min_score is not None and (score is None or score < query.min_score):
        return "min_score"
    return "top_k" if rank is None or rank > query.top_k else None


def settled(chunks: Sequence[ExpectedChunk], best: set[str], returned: set[str]) -> list[ExpectedChunk]:
    """Explain why chunks with sufficient ranks were not returned.

    Args:
        chunks: ranks of a deep search.
        best: first chunks of the query itself. It searches fewer chunks: if many chunks have the same score, it may
            find others.
        returned: chunks returned by the query.
    """
    return [
        replace(each, left_out="max_tokens" if each.chunk_id in best else "top_k")
        if each.left_out is None and each.chunk_id not in returned
        else each
        for each in chunks
    ]
