"""The dependencies of sources of pages, as the settings describe them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from importlib.metadata import version
from uuid import UUID

from shared.confined.reading import Readers
from shared.domain.sources import SourceDefinition
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.ingest.parse.isolation.web_pages import SandboxExtractor
from shared.ledger.sources.notes import Notes
from shared.settings import Settings
from shared.sources.pages.memory import Memory
from shared.sources.pages.reading.robots import ROBOT
from shared.sources.pages.source import Web
from shared.sources.pages.visitor import Manners
from shared.sources.roots import Roots


class LedgerMemory(Memory):
    """The notes of a source in the ledger."""

    def __init__(self, notes: Notes, source: UUID) -> None:
        self._notes = notes
        self._source = source

    def notes(self) -> AsyncIterator[tuple[str, bytes]]:
        return self._notes.of(self._source)

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        await self._notes.write(self._source, changes)


def web_of(
    settings: Settings, sandbox: ParsingSandbox, readers: Readers, notes: Notes, source: SourceDefinition
) -> Web:
    """Return the dependencies of a source of pages."""
    roots = Roots(settings.roots_of(source.tenant))
    extractor = SandboxExtractor(sandbox, source.tenant)
    reader = readers.of(source.tenant)
    return Web(extractor, reader, LedgerMemory(notes, source.id), manners_of(settings), roots.permits)


def manners_of(settings: Settings) -> Manners:
    """Return the behaviour towards servers."""
    contact = f" (+{settings.crawl_contact})" if settings.crawl_contact else ""
    return Manners(
        user_agent=f"{ROBOT}/{version('foreask')}{contact}",
        private=settings.sources_private_networks,
        pause=settings.tuning.crawl_pause,
    )
