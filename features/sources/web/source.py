"""Pages of the web as a source: a document's key is the address of its page, its version the hash of its text."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field

from features.sources.errors import COMPONENT
from features.sources.source import Entry, Item, Source
from features.sources.web.crawl.crawl import Crawl
from features.sources.web.crawl.crawl_state import CrawlState, Visit
from features.sources.web.crawl.memory import Memory, NoMemory, VisitOutcome
from features.sources.web.crawl.plans import CrawlPlan, FeedPlan, ListPlan, Plan, SitemapPlan, start_of
from features.sources.web.crawl.texts import Texts
from features.sources.web.examination import MARKDOWN, Examiner, filename_of
from features.sources.web.extraction import SandboxExtractor
from features.sources.web.options import CrawlOptions, FeedOptions, ListOptions, PageOptions, SitemapOptions
from features.sources.web.visitor import Politeness, Visitor
from shared.confined.reading import Reader
from shared.domain.errors import ForeaskError, NotFound, TooLarge, Unavailable, Unreadable
from shared.ingest.parse.web.addresses import normal


@dataclass(frozen=True, slots=True)
class Web:
    """The dependencies of a source of pages.

    Args:
        extractor: reads pages in a confined process.
        reader: reads the other contents of sites in a confined process.
        memory: notes of the source.
        politeness: behaviour towards servers.
        permits: whether the operator allows an address for the tenant. A list may name any host, and a redirect, too.
    """

    extractor: SandboxExtractor
    reader: Reader
    memory: Memory = field(default_factory=NoMemory)
    politeness: Politeness = field(default_factory=Politeness)
    permits: Callable[[str], bool] = lambda _: True


class PageSource(Source):
    """Pages of the web.

    The first listing visits all pages, which takes a second or more per page, because pages can be sorted and compared
    only when all were visited. These visits are a run. A later listing of the same object has the same run, and
    continues it if it has failed. Another object continues it if the listing has the same name. Pages that were
    downloaded during the run are fetched from a temporary folder.
    """

    is_resumable = True

    def __init__(self, plan: Plan, web: Web) -> None:
        self._plan = plan
        self._web = web
        self._texts = Texts()
        self._state = CrawlState(self._texts.folder)
        self._visitor = Visitor(web.politeness, web.reader, web.permits)
        self._examiner = Examiner(self._visitor, web.extractor, self._texts)
        self._loaded: asyncio.Task[None] | None = None
        self._crawl = Crawl(
            plan, self._state, self._visitor, self._examiner, self._texts, progressed=self._has_progressed
        )
        self._run: asyncio.Task[None] | None = None
        self._found: dict[str, tuple[str | None, str | None]] = {}  # media type and title of pages that were read alone
        self._named: set[str] | None = None
        self._listing = ""

    def name_listing(self, listing: str) -> None:
        self._listing = listing

    @property
    def waiting_seconds(self) -> float:
        return self._visitor.waiting_seconds

    async def rest(self) -> None:
        self._visitor.rest()
        await self._state.store_pages(self._web.memory, at_once=True)

    def resume(self) -> None:
        self._visitor.resume()

    async def aclose(self) -> None:
        tasks = [task for task in (self._loaded, self._run) if task]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._visitor.aclose()
        self._state.close()
        self._texts.remove()

    @property
    def counts(self) -> dict[str, int]:
        """The number of pages by outcome, such as `duplicate`."""
        return self._state.counts()

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        await self._load()
        if self._run is None or _has_failed(self._run):
            self._run = asyncio.create_task(self._crawl.run(self._web.memory))
        await asyncio.shield(self._run)
        for address, text_hash, size_bytes, reason in self._state.entries(after):
            yield Entry(address, text_hash or "", size_bytes, refused=reason)

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        item = self._downloaded(entry.key, entry.version) or await self._download(entry.key)
        if len(item.content) > max_bytes:
            raise TooLarge(f"The page has {len(item.content):,} bytes, more than the {max_bytes:,} allowed.")
        return item

    async def find(self, key: str) -> Entry | None:
        address = normal(key)
        if address != key or self._plan.canonical_address(key) != key:
            return None
        await self._load()
        note = self._state.known_note(key)
        if note is None and self._plan.names_all_pages and key not in await self._named_pages():
            return None
        visit = await self._examiner.examine(key, note)
        if visit.outcome is VisitOutcome.REFUSED:
            return Entry(key, visit.text_hash or "", refused=visit.reason)
        if visit.outcome is not VisitOutcome.LISTED or self._state.has_earlier(key, visit.text_hash or ""):
            return None
        self._keep(key, visit)
        return Entry(key, visit.text_hash or "", visit.size_bytes)

    async def _named_pages(self) -> set[str]:
        """Return the pages of the list, sitemap or feed, which is read once: a hint may name any other address."""
        if self._named is None:
            addresses = {self._plan.canonical_address(address) async for address in self._plan.seeds(self._visitor)}
            self._named = {address for address in addresses if address is not None}
        return self._named

    def _has_progressed(self) -> None:
        self.progressed()  # the function of the current run, which may follow a run that gave way

    async def _load(self) -> None:
        """Load the notes, once."""
        if self._loaded is None or _has_failed(self._loaded):
            self._loaded = asyncio.create_task(self._state.load(self._web.memory, self._listing))
        await asyncio.shield(self._loaded)

    def _downloaded(self, key: str, version: str) -> Item | None:
        document = self._found.get(key) or self._state.document(key)
        content = self._texts.read(version)
        return None if content is None or document is None else _item(key, version, content, *document)

    async def _download(self, key: str) -> Item:
        visit = await self._examiner.examine(key, None)
        if visit.content is not None and visit.text_hash:
            self._keep(key, visit)  # the sync may give way before it has read the other pages
            return _item(key, visit.text_hash, visit.content, visit.media_type, visit.title)
        raise _error(key, visit)

    def _keep(self, key: str, visit: Visit) -> None:
        self._found[key] = visit.media_type, visit.title
        if visit.content is not None and visit.text_hash:
            self._texts.store(visit.text_hash, visit.content)


def open_pages(uri: str, options: PageOptions, web: Web) -> Source:
    """Return the pages of a list, a sitemap or a feed at this address, or those to which links lead from it.

    Args:
        uri: the address.
        options: the options of one of these kinds.
        web: dependencies of the source.

    Raises:
        InvalidInput: the address or an option is wrong.
    """
    return PageSource(_plan(start_of(uri), options), web)


def _plan(start: str, options: PageOptions) -> Plan:
    match options:
        case ListOptions():
            return ListPlan(start, options)
        case SitemapOptions():
            return SitemapPlan(start, options)
        case FeedOptions():
            return FeedPlan(start, options)
        case CrawlOptions():
            return CrawlPlan(start, options)
    raise AssertionError(f"no plan has {options!r}")


def _has_failed(task: asyncio.Task[None]) -> bool:
    return task.done() and (task.cancelled() or task.exception() is not None)


def _item(key: str, version: str, content: bytes, media_type: str | None, title: str | None) -> Item:
    filename = None if media_type == MARKDOWN else filename_of(key)
    return Item(content, version, filename, title, media_type, metadata={"url": key})


def _error(key: str, visit: Visit) -> ForeaskError:
    """Return the error of a page that has no document now."""
    if visit.outcome is not VisitOutcome.REFUSED:
        return NotFound(f"{key} is not a page any more.")
    reason = visit.reason or ""
    return Unavailable(reason, component=COMPONENT) if visit.fault else Unreadable(reason)
