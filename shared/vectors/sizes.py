"""Numbers of points or chunks of collections, without counting on each request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from shared.domain.index_location import IndexLocation

_REST = 20  # validity of a count as a multiple of its duration: counting takes at most a twentieth of Qdrant's time
_MOST = 10_000


@dataclass(slots=True)
class _Size:
    """The last count of a collection, its validity, and the running count."""

    count: int | None = None
    until: float = 0.0
    counting: asyncio.Task[None] | None = None


class Sizes:
    """Counts, each cached for a while and shared by concurrent callers.

    Qdrant counts exactly by reading each point: a page that polls a collection of 500,000 points would block other
    work.

    Args:
        count: counts a collection exactly in Qdrant.
        seconds: minimum validity of a count.
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

    async def of(self, location: IndexLocation) -> int:
        """Return a valid count, or count; a cancelled caller does not cancel the count.

        Raises:
            Transient: Qdrant did not answer.
        """
        size = self._start_read(location)
        if size.counting is not None:
            await asyncio.shield(size.counting)
        return size.count or 0

    async def about(self, location: IndexLocation) -> int:
        """Like `of`, but while a collection is counted again return its last count, without waiting."""
        size = self._start_read(location)
        return await self.of(location) if size.count is None else size.count

    def _start_read(self, location: IndexLocation) -> _Size:
        """Start a count unless one is valid or running."""
        if len(self._sizes) >= _MOST and location not in self._sizes:
            self._sizes = {each: size for each, size in self._sizes.items() if size.counting is not None}
        size = self._sizes.setdefault(location, _Size())
        if size.counting is None and self._now() >= size.until:
            size.counting = asyncio.create_task(self._counted(location, size))
            # no caller may be waiting for it
            size.counting.add_done_callback(lambda task: task.cancelled() or task.exception())
        return size

    async def _counted(self, location: IndexLocation, size: _Size) -> None:
        started = self._now()
        try:
            size.count = await self._count(location)
            size.until = self._now() + max(self._seconds, _REST * (self._now() - started))
        finally:
            size.counting = None
