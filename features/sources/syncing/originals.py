"""Originals: the bytes of references are read again from their sources, in the version that a sync has seen."""

from __future__ import annotations

import asyncio
import copy
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from uuid import UUID

from features.sources.domain import SourceDefinition
from features.sources.ledger.hints import Hints
from features.sources.ledger.references import WaitingReferences
from features.sources.ledger.sources import Sources
from features.sources.source import Entry, Source
from features.sources.syncing.opened_sources import OpenedSource, OpenedSources
from shared.domain.errors import (
    InvalidInput,
    Misconfigured,
    NotFound,
    TooLarge,
    Transient,
    Unavailable,
    Unreadable,
)
from shared.process.temporary_folders import TemporaryFile
from shared.storage.references import Reference
from shared.storage.uploads import write_temporary

_COMPONENT = "source"
_CURRENT = timedelta(seconds=5)  # a snapshot that is opened again more often would be downloaded again and again
_FAILED_SECONDS = 5.0  # other documents of a failed source do not wait for its timeout, too
_RETRY_AFTER = timedelta(minutes=1)  # the next version usually replaces the document before


class SourceOriginals:
    """Opens the sources of references.

    Args:
        sources: definitions of the sources.
        hints: receives the keys of entries that have changed, whose current content is then read without a sync.
        waiting: references that workers read next, for sources that fetch entries together.
        open_source: opens a source; raises as `SourceAccess.open`.
        max_bytes: maximum size of a document.
        current: age below which a snapshot, such as a repository at one commit, counts as current.
    """

    def __init__(
        self,
        sources: Sources,
        hints: Hints,
        waiting: WaitingReferences,
        open_source: Callable[[SourceDefinition], Source],
        *,
        max_bytes: int,
        current: timedelta = _CURRENT,
    ) -> None:
        self._sources = sources
        self._hints = hints
        self._waiting = waiting
        self._opened = OpenedSources(open_source)
        self._max_bytes = max_bytes
        self._current = current
        self._failed: dict[UUID, tuple[float, Unavailable]] = {}

    @asynccontextmanager
    async def fetched(self, reference: Reference) -> AsyncIterator[Path]:
        """Yield a file with the bytes; see `Originals`."""
        definition = await self._sources.by_id(reference.source_id)
        if definition is None:
            raise _removed(reference)
        file = await self._written(definition, reference)
        if file is None:
            await self._hints.report(definition.id, [reference.key])
            raise _changed(definition, reference)
        try:
            yield file.path
        finally:
            file.remove()

    async def location(self, reference: Reference) -> str:
        """Return the entry and the name and address of its source."""
        source = await self._sources.by_id(reference.source_id)
        place = f"the source '{source.name}' ({source.uri})" if source else "a source that was removed"
        return f"'{reference.key}' of {place}"

    async def aclose(self) -> None:
        """Close the sources."""
        await self._opened.aclose()

    async def _written(self, definition: SourceDefinition, reference: Reference) -> TemporaryFile | None:
        """Write the bytes to a temporary file; None: the entry has other bytes now, or does not exist."""
        self._require_reachable(definition.id)
        try:
            async with self._opened.used(definition) as opened:
                file = await self._read(opened, definition, reference)
            if file is not None or opened.is_current(self._current):
                return file
            self._opened.replace(opened)
            async with self._opened.used(definition) as opened:
                return await self._read(opened, definition, reference)
        except InvalidInput as error:  # an operator can change the settings
            raise Misconfigured(error.message, component=_COMPONENT) from error
        except Unavailable as error:
            self._failed[definition.id] = time.monotonic() + _FAILED_SECONDS, error
            raise

    async def _read(
        self, opened: OpenedSource, definition: SourceDefinition, reference: Reference
    ) -> TemporaryFile | None:
        source, entry = opened.source, _entry(reference)
        if not source.expects(entry):
            source.expect([entry, *map(_entry, await self._waiting.of(definition))])
        try:
            content = await source.content(entry, max_bytes=self._max_bytes)
        except (NotFound, TooLarge):
            return None
        digest = await asyncio.to_thread(hashlib.sha256, content)
        if digest.digest() != reference.sha256:
            return None
        return await asyncio.to_thread(write_temporary, content)

    def _require_reachable(self, source_id: UUID) -> None:
        until, error = self._failed.get(source_id, (0.0, None))
        if error is not None and time.monotonic() < until:
            raise copy.copy(error)


def _entry(reference: Reference) -> Entry:
    return Entry(reference.key, reference.version)


def _changed(definition: SourceDefinition, reference: Reference) -> Transient:
    return Transient(
        f"'{reference.key}' of the source '{definition.name}' was changed or deleted after a sync had read this"
        " version, and its bytes were not copied. Its next version arrives with the next sync. To read old versions"
        " again, set the option copy_files of the source: it copies the bytes from then on.",
        retry_after=_RETRY_AFTER,
    )


def _removed(reference: Reference) -> Unreadable:
    return Unreadable(
        f"The bytes of '{reference.key}' were not copied, and its source was removed: upload the document, or add and"
        " sync the source again. The option copy_files of a source copies the bytes."
    )
