"""Searching: all channels of a question in one request, and of its rewritten texts in another."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from shared.domain.records import Weights
from shared.query.retrieve.channels import ChannelHits, ChannelQuery, found_of, full_bm25, limit_of, request_of
from shared.query.retrieve.query import Channel, Query
from shared.vectors.index import Index

_SIZE_SECONDS = 60.0  # the size of a collection counts by its logarithm


class Searcher:
    """Searches the channels of a query that have a weight."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._sizes: dict[str, tuple[float, int]] = {}

    async def search(
        self, index_name: str, sought: ChannelQuery, where: Mapping[str, Any], query: Query, weights: Weights
    ) -> dict[Channel, ChannelHits]:
        """Search all channels in one request, wider until there are `top_k` distinct chunks or no more to find."""
        channels = _channels(sought, query, weights)
        full = full_bm25(sought.terms, await self._size(index_name)) if "bm25" in channels else 1.0
        limits = {channel: limit_of(channel, query.top_k) for channel in channels}
        while True:
            requests = [request_of(channel, sought, where, limits[channel]) for channel in channels]
            answered = await self._index.search(index_name, requests) if requests else None
            if answered is None:
                return {}
            hits = dict(zip(channels, answered, strict=True))
            found = {channel: found_of(channel, hits[channel], limits[channel], full) for channel in channels}
            # Only a chunk behind top_k others can be missing from what was searched so far, and then it is not needed.
            if (
                len(hits.get("questions", [])) < limits.get("questions", 1)
                or len(found["questions"].scores) >= query.top_k
            ):
                return found
            limits["questions"] *= 4

    async def search_all(
        self, index_name: str, soughts: Sequence[ChannelQuery], where: Mapping[str, Any], query: Query, weights: Weights
    ) -> list[dict[Channel, ChannelHits]]:
        """Search several texts, with all their channels in one request; each result is of one channel."""
        searches = [(sought, channel) for sought in soughts for channel in _channels(sought, query, weights)]
        if not searches:
            return []
        limits = {channel: limit_of(channel, query.top_k) for channel in query.channels}
        requests = [request_of(channel, sought, where, limits[channel]) for sought, channel in searches]
        answered = await self._index.search(index_name, requests)
        size = await self._size(index_name)
        return [
            {channel: found_of(channel, hits, limits[channel], full_bm25(sought.terms, size))}
            for (sought, channel), hits in zip(searches, answered or [[] for _ in searches], strict=True)
        ]

    async def _size(self, index_name: str) -> int:
        """How many chunks a collection has, as of a minute ago at most."""
        until, size = self._sizes.get(index_name, (0.0, 0))
        if until < time.monotonic():
            size = await self._index.chunks(index_name)
            self._sizes[index_name] = (time.monotonic() + _SIZE_SECONDS, size)
        return size


def _channels(sought: ChannelQuery, query: Query, weights: Weights) -> list[Channel]:
    """The channels that can find something."""
    return [c for c in query.channels if weights.of(c) > 0 and (c != "bm25" or sought.terms.indices)]
