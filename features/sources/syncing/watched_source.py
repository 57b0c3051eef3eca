"""A source that reports progress whenever it answers, whose versions can be stored, and whose entries have readers.

Progress is reported so that a hanging source does not keep its job.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from typing import TypeVar

from features.sources.errors import COMPONENT
from features.sources.options import Options
from features.sources.source import Entry, Item, Source
from shared.domain.corpus.document_fields import short_version
from shared.domain.errors import Unavailable
from shared.process.full_disk import FULL, is_full

F = TypeVar("F", Entry, Item)

_CLOSE_SECONDS = 30.0


class WatchedSource(Source):
    """An opened source.

    Args:
        source: the source.
        progressed: reports progress.
        options: its options, which decide who reads the documents of its entries.
    """

    def __init__(self, source: Source, progressed: Callable[[], None], options: Options | None = None) -> None:
        self.progressed = source.progressed = progressed
        self.is_resumable = source.is_resumable
        self._source = source
        self._options = options or Options()

    @property
    def names_readers(self) -> bool:
        """Whether the source decides who reads its documents."""
        return self._options.names_readers

    @property
    def waiting_seconds(self) -> float:
        return self._source.waiting_seconds

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        with room():
            async with aclosing(self._source.entries(after)) as entries:
                async for entry in entries:
                    self.progressed()
                    yield self._readable(_storable(entry))

    def expect(self, entries: Sequence[Entry]) -> None:
        self._source.expect(entries)

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        with room():
            item = await self._source.fetch(entry, max_bytes=max_bytes)
        self.progressed()
        return _storable(item)

    async def find(self, key: str) -> Entry | None:
        with room():
            entry = await self._source.find(key)
        self.progressed()
        return None if entry is None else self._readable(_storable(entry))

    def _readable(self, entry: Entry) -> Entry:
        if entry.refused is not None and self._options.entries_name_readers:
            return entry  # it could not say them, and its document is not changed
        readers = self._options.readers_of(entry.key, entry.readable_by)
        return entry if readers == entry.readable_by else replace(entry, readable_by=readers)


def _storable(found: F) -> F:
    version = short_version(found.version)
    return found if version is found.version else replace(found, version=version)


async def close(source: Source) -> None:
    """Close a source; a source that hangs stays open."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await source.aclose()


@contextmanager
def room() -> Iterator[None]:
    """Name the remedy if the source needs more temporary files than this machine has room for.

    Raises:
        Unavailable: the folder for temporary files is full. Other work may need less of it soon.
    """
    try:
        yield
    except (OSError, sqlite3.Error) as error:
        if not is_full(error):
            raise
        raise Unavailable(f"The source cannot be read: {FULL}.", component=COMPONENT) from error
