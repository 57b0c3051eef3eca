"""Searching: all channels of a question in one request, and of its rewritten texts in another."""

from __future__ import annotations

from collections.abc import Sequence

from shared.domain.corpus.collections import Weights
from shared.query.retrieve.query import Channel, Query
from shared.query.retrieve.scores.channels import ChannelHits, ChannelQuery, fold, full_bm25, limit_of, search_of
from shared.vectors.hits import RankedPoints
from shared.vectors.index import Index
from shared.vectors.schema.filters import Condition, VisiblePoints, costs_work, require_affordable
from shared.vectors.sizes import Sizes

_SIZE_SECONDS = 60.0  # a size may be old: the BM25 scale takes its logarithm, and the price of a filter is rough


class Searcher:
    """Searches the channels of a query that have a weight."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._sizes = Sizes(index.count_chunks, seconds=_SIZE_SECONDS)

    async def require_affordable(
        self, where: VisiblePoints, conditions: Sequence[Condition], *, shows_size: bool
    ) -> None:
        """Check the conditions of a query before it is searched.

        Args:
            where: the searched points.
            conditions: conditions of the query's filter.
            shows_size: whether the size of the collection decides, which the caller may find out in this way.

        Raises:
            InvalidInput: they are too expensive for a collection of this size.
        """
        if costs_work(conditions):
            chunks = await self._sizes.about(where.location) if shows_size else None
            require_affordable(conditions, chunks)

    async def search(
        self, channel_query: ChannelQuery, where: VisiblePoints, query: Query, weights: Weights
    ) -> dict[Channel, ChannelHits]:
        """Search all channels in one request, wider until there are `top_k` distinct chunks or no more to find."""
        channels = _channels(channel_query, query, weights)
        full = full_bm25(channel_query.terms, await self._sizes.about(where.location)) if "bm25" in channels else 1.0
        limits = {channel: limit_of(channel, query.top_k) for channel in channels}
        while True:
            searches = [search_of(channel, channel_query, where, limits[channel]) for channel in channels]
            replies = await self._index.rank(where.location.index_name, searches) if searches else None
            if replies is None:
                return {}
            points = dict(zip(channels, replies, strict=True))
            hits = {channel: fold(channel, points[channel], limits[channel], full) for channel in channels}
            exhausted = len(points.get("questions", RankedPoints()).ids) < limits.get("questions", 1)
            # A chunk that the search missed ranks after top_k others, so it is not needed.
            if exhausted or len(hits["questions"].scores) >= query.top_k:
                return hits
            limits["questions"] *= 4

    async def search_all(
        self, channel_queries: Sequence[ChannelQuery], where: VisiblePoints, query: Query, weights: Weights
    ) -> list[dict[Channel, ChannelHits]]:
        """Search several texts, with all their channels in one request; each result is of one channel."""
        pairs = [(text, channel) for text in channel_queries for channel in _channels(text, query, weights)]
        if not pairs:
            return []
        limits = {channel: limit_of(channel, query.top_k) for channel in query.channels}
        searches = [search_of(channel, text, where, limits[channel]) for text, channel in pairs]
        replies = await self._index.rank(where.location.index_name, searches)
        size = await self._sizes.about(where.location)
        return [
            {channel: fold(channel, points, limits[channel], full_bm25(text.terms, size))}
            for (text, channel), points in zip(pairs, replies or [RankedPoints()] * len(pairs), strict=True)
        ]


def _channels(channel_query: ChannelQuery, query: Query, weights: Weights) -> list[Channel]:
    """Return the channels of a query that can find chunks."""
    searched = [c for c in dict.fromkeys(query.channels) if query.candidates or weights.weight(c) > 0]
    return [c for c in searched if c != "bm25" or channel_query.terms.indices]
