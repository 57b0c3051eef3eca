"""Opened sources that several readers share, because opening a repository fetches the names of all its files."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from uuid import UUID

from features.sources.domain import SourceDefinition
from features.sources.source import Source

_IDLE_SECONDS = 60.0
_READS_AT_ONCE = 2  # of one source: each holds a document in memory, and a slow source must not occupy all slots


@dataclass(slots=True, eq=False)
class OpenedSource:
    """An opened source.

    Args:
        definition: its definition when it was opened.
        source: the source.
        room: limits its concurrent reads.
        opened_at: monotonic time, in seconds.
        users: number of its readers.
        closing: closes it after a while without readers.
    """

    definition: SourceDefinition
    source: Source
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_READS_AT_ONCE))
    opened_at: float = field(default_factory=time.monotonic)
    users: int = 0
    closing: asyncio.Task[None] | None = None

    def is_current(self, most: timedelta) -> bool:
        """Return whether it shows the current content, or content of an age below a limit."""
        return not self.source.is_snapshot or time.monotonic() - self.opened_at < most.total_seconds()


class OpenedSources:
    """Opens sources on first use, and closes them when they have had no reader for a minute.

    Args:
        open_source: opens a source; raises as `SourceAccess.open`.
    """

    def __init__(self, open_source: Callable[[SourceDefinition], Source]) -> None:
        self._open_source = open_source
        self._opened: dict[UUID, OpenedSource] = {}  # by source: the one for the next reader
        self._left = set[OpenedSource]()  # not closed yet

    @asynccontextmanager
    async def used(self, definition: SourceDefinition) -> AsyncIterator[OpenedSource]:
        """Yield the opened source of a definition; it stays open during the block."""
        opened = self._opened.get(definition.id)
        if opened is None or opened.definition != definition:
            self.replace(opened)
            opened = self._opened[definition.id] = OpenedSource(definition, self._open_source(definition))
            self._left.add(opened)
        opened.users += 1
        if opened.closing is not None:
            opened.closing.cancel()
            opened.closing = None
        try:
            async with opened.room:
                yield opened
        finally:
            opened.users -= 1
            if not opened.users:
                self._close_later(opened)

    def replace(self, opened: OpenedSource | None) -> None:
        """Open the source again for the next reader; its current readers continue with this one."""
        if opened is not None and self._opened.get(opened.definition.id) is opened:
            del self._opened[opened.definition.id]

    async def aclose(self) -> None:
        """Close all sources; none is read any more."""
        self._opened.clear()
        for opened in list(self._left):
            if opened.closing is not None:
                opened.closing.cancel()
            await opened.source.aclose()
        self._left.clear()

    def _close_later(self, opened: OpenedSource) -> None:
        is_current = self._opened.get(opened.definition.id) is opened
        opened.closing = asyncio.create_task(self._close(opened, _IDLE_SECONDS if is_current else 0))

    async def _close(self, opened: OpenedSource, after: float) -> None:
        await asyncio.sleep(after)
        self.replace(opened)
        await opened.source.aclose()
        self._left.discard(opened)
