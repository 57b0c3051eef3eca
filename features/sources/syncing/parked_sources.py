"""Sources of syncs that gave way: they stay open for a while, so that this process continues without reading again."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta

from features.sources.source import Source
from features.sources.syncing.watched_source import close
from shared.domain.errors import Transient

_MOST = 8  # of a process: each may keep temporary files
_AGE = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class _Parked:
    source: Source
    closing: asyncio.Task[None]


class ParkedSources:
    """Resting sources, which send no request.

    The source that has waited longest is closed if there are too many. Its sync then starts at its stored position.
    """

    def __init__(self, most: int = _MOST, age: timedelta = _AGE) -> None:
        self._most = most
        self._age = age
        self._parked: dict[Hashable, _Parked] = {}

    async def park(self, name: Hashable, source: Source) -> None:
        """Take over an opened source; a source that cannot continue is closed."""
        if not source.is_resumable:
            await close(source)
            return
        with suppress(Transient):  # an entry that could not be stored is read again, if another process continues
            await source.rest()
        await self._remove(name)
        self._parked[name] = _Parked(source, asyncio.create_task(self._close_later(name)))
        if len(self._parked) > self._most:
            await self._remove(next(iter(self._parked)))

    def resume(self, name: Hashable) -> Source | None:
        """Return the parked source of this name, which the caller closes or parks; None if there is none."""
        parked = self._parked.pop(name, None)
        if parked is None:
            return None
        parked.closing.cancel()
        parked.source.resume()
        return parked.source

    async def aclose(self) -> None:
        for name in list(self._parked):
            await self._remove(name)

    async def _remove(self, name: Hashable) -> None:
        parked = self._parked.pop(name, None)
        if parked is not None:
            parked.closing.cancel()
            await close(parked.source)

    async def _close_later(self, name: Hashable) -> None:
        await asyncio.sleep(self._age.total_seconds())
        parked = self._parked.pop(name, None)
        if parked is not None:
            await close(parked.source)
