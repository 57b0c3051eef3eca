"""Numbers of points or chunks of collections, without counting on each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from datetime import timedelta

from shared.domain.corpus.index_location import IndexLocation

_REST = 20  # validity of a count as a multiple of its duration: counting takes at most a twentieth of Qdrant's time
_REST_AFTER_CHANGE = 4  # the same for a count that is known to be outdated: at most a fifth of Qdrant's time
_MOST = 10_000
_SETTLED = 5_000  # a smaller collection may multiply within the minimum validity of a count


@dataclass(frozen=True, slots=True)
class CachedCount:
    """A count of a collection.

    Args:
        number: counted points or chunks.
        age: time since the start of the count.
        is_current: whether the count includes all changes before the call.
    """

    number: int
    age: timedelta
    is_current: bool


@dataclass(slots=True)
class _Size:
    """The last count of a collection with its times in monotonic seconds, and the running count."""

    count: int | None = None
    marker: Hashable = None  # the marker of the collection's state before the count
    started: float = 0.0
    ended: float = 0.0
    until: float = 0.0  # end of the count's validity
    counting: asyncio.Task[None] | None = None

    @property
    def rested_at(self) -> float:
        """The time after which an outdated count may be repeated."""
        return self.ended + _REST_AFTER_CHANGE * (self.ended - self.started)


class Sizes:
    """Counts, each cached for a while and shared by concurrent callers.

    Qdrant counts exactly by reading each point: a page that polls a collection of 500,000 points would block other
    work.

    Args:
        count: counts a collection exactly in Qdrant.
        seconds: minimum validity of a count, less for a small collection.
        now: clock in monotonic seconds.
    """

    def __init__(
        self,
        count: Callable[[IndexLocation], Awaitable[int]],
        *,
        seconds: float = 0.0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._count = count
        self._seconds = seconds
        self._now = now
        self._sizes: dict[IndexLocation, _Size] = {}

    async def count(self, location: IndexLocation) -> int:
        """Return a valid count, or count; a cancelled caller does not cancel the count.

        Raises:
            Transient: Qdrant did not answer.
        """
        size = self._start_read(location)
        if size.counting is not None:
            await asyncio.shield(size.counting)
        return size.count or 0

    async def about(self, location: IndexLocation) -> int:
        """Return a valid count as `count` does, but during a recount return the last count without waiting."""
        size = self._start_read(location)
        return await self.count(location) if size.count is None else size.count

    async def at(self, location: IndexLocation, marker: Hashable) -> CachedCount:
        """Return a valid count of a collection in the state of a marker, or count.

        If the collection has changed since a very recent count, that count is returned as not current.

        Args:
            location: the collection.
            marker: a value that the caller has read, and that changes with the number of points.

        Raises:
            Transient: Qdrant did not answer.
        """
        asked = self._now()
        while True:
            size = self._size(location)
            is_current = size.started >= asked or (size.marker == marker and self._now() < size.until)
            if size.counting is None and size.count is not None and (is_current or self._now() < size.rested_at):
                return self._count_of(size, is_current=is_current)
            if size.counting is None:
                self._start(location, size, marker)
            assert size.counting is not None
            await asyncio.shield(size.counting)

    def last(self, location: IndexLocation) -> CachedCount | None:
        """Return the last count of any age; None if the collection was never counted."""
        size = self._sizes.get(location)
        return None if size is None or size.count is None else self._count_of(size, is_current=False)

    def _count_of(self, size: _Size, *, is_current: bool) -> CachedCount:
        return CachedCount(size.count or 0, timedelta(seconds=self._now() - size.started), is_current)

    def _start_read(self, location: IndexLocation) -> _Size:
        """Start a count unless one is valid or running."""
        size = self._size(location)
        if size.counting is None and self._now() >= size.until:
            self._start(location, size, None)
        return size

    def _size(self, location: IndexLocation) -> _Size:
        if len(self._sizes) >= _MOST and location not in self._sizes:
            self._sizes = {each: size for each, size in self._sizes.items() if size.counting is not None}
        return self._sizes.setdefault(location, _Size())

    def _start(self, location: IndexLocation, size: _Size, marker: Hashable) -> None:
        size.counting = asyncio.create_task(self._counted(location, size, marker))
        # no caller may be waiting for it
        size.counting.add_done_callback(lambda task: task.cancelled() or task.exception())

    async def _counted(self, location: IndexLocation, size: _Size, marker: Hashable) -> None:
        started = self._now()
        try:
            count = await self._count(location)
            size.count, size.marker, size.started, size.ended = count, marker, started, self._now()
            least = self._seconds * min(1.0, count / _SETTLED)
            size.until = size.ended + max(least, _REST * (size.ended - started))
        finally:
            size.counting = None


@dataclass(frozen=True, slots=True)
class CollectionSizes:
    """Counts of collections: of all points, and of the chunks among them."""

    points: Sizes
    chunks: Sizes
