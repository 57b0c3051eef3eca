"""The dependencies of sources of pages, as the settings describe them."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version

from shared.domain.errors import InvalidInput
from shared.ingest.parse.sandbox import ParsingSandbox
from shared.ingest.parse.web_pages import SandboxExtractor
from shared.settings import Settings
from shared.sources.addresses import Address
from shared.sources.pages.memory import Memory
from shared.sources.pages.source import Web
from shared.sources.pages.visitor import ROBOT, Manners
from shared.sources.roots import Roots


def web_of(settings: Settings, sandbox: ParsingSandbox, memory: Memory, tenant: str) -> Web:
    """Return the dependencies of a tenant's sources of pages."""
    roots = Roots(settings.roots_of(tenant))
    return Web(SandboxExtractor(sandbox, tenant), memory, manners_of(settings), _permits(roots))


def manners_of(settings: Settings) -> Manners:
    """Return the behaviour towards servers."""
    contact = f" (+{settings.crawl_contact})" if settings.crawl_contact else ""
    return Manners(
        user_agent=f"{ROBOT}/{version('foreask')}{contact}",
        private=settings.sources_private,
        pause=settings.tuning.crawl_pause,
    )


def _permits(roots: Roots) -> Callable[[str], bool]:
    def permits(address: str) -> bool:
        try:
            roots.require(Address.parse(address))
        except InvalidInput:
            return False
        return True

    return permits
