"""The dependencies of sources of pages, as the settings describe them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from uuid import UUID

from features.sources.domain import SourceDefinition
from features.sources.ledger.notes import SourceNotes
from features.sources.web.crawl.memory import Memory
from features.sources.web.extraction import SandboxExtractor
from features.sources.web.reading.robots import ROBOT
from features.sources.web.source import Web
from features.sources.web.visitor import Politeness
from shared.confined.reading import Readers
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.settings import Settings
from shared.settings.source_roots import Roots


class LedgerMemory(Memory):
    """The notes of a source in the ledger."""

    def __init__(self, notes: SourceNotes, source: UUID) -> None:
        self._notes = notes
        self._source = source

    def notes(self) -> AsyncIterator[tuple[str, bytes]]:
        return self._notes.read(self._source)

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        await self._notes.write(self._source, changes)


def web_of(
    settings: Settings, sandbox: ParsingSandbox, readers: Readers, notes: SourceNotes, source: SourceDefinition
) -> Web:
    """Return the dependencies of a source of pages."""
    roots = Roots(settings.roots_of(source.tenant))
    extractor = SandboxExtractor(sandbox, source.tenant)
    reader = readers.for_tenant(source.tenant)
    return Web(extractor, reader, LedgerMemory(notes, source.id), politeness_of(settings), roots.permits)


def politeness_of(settings: Settings) -> Politeness:
    """Return the behaviour towards servers."""
    contact = f" (+{settings.crawl_contact})" if settings.crawl_contact else ""
    return Politeness(
        user_agent=f"{ROBOT}/{version('foreask')}{contact}",
        private=settings.sources_private_networks,
        pause=settings.tuning.crawl_pause,
    )
