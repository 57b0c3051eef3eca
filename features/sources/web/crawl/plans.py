"""Plans: the addresses with which a run starts, and the addresses to which it may lead."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from contextlib import aclosing

from features.sources.errors import COMPONENT
from features.sources.web.bodies import MOST_BYTES
from features.sources.web.crawl.addresses import is_trap
from features.sources.web.options import CrawlOptions, PageOptions
from features.sources.web.reading.contents import AddressesKind, read_addresses
from features.sources.web.visitor import NOT_PERMITTED, PageError, Visitor
from shared.domain.errors import InvalidInput, Misconfigured, Transient, Unavailable, Unreadable
from shared.ingest.parse.web.addresses import normal, origin_of, path_of

_ADDRESSES_PER_PAGE = 10  # that are read, for each page that a run may visit
_MOST_SITEMAPS = 50_000  # of an index, by its protocol
_MOST_REDIRECTS = 5
_OK = 200
_NEVER = 1 << 30


class Plan(ABC):
    """A plan.

    Args:
        start: normal address of the list, sitemap, feed or first page.
        options: selection of pages.
    """

    depth = 0
    same_pattern = _NEVER
    keeps_known = False
    """Whether pages of earlier runs are visited, too."""

    starts_with_page = False
    """Whether the first address is a page, without which nothing can be listed."""

    reports_unsupported = True
    """Whether a page of an unsupported type is refused; a crawl ignores it, because links lead to pictures, too."""

    names_all_pages = True
    """Whether its first addresses are all its pages; a crawl also has the pages to which links lead."""

    def __init__(self, start: str, options: PageOptions) -> None:
        self.start = start
        self.options = options
        self._left = 0  # addresses that may still be read

    @property
    def _most_addresses(self) -> int:
        return self.options.pages * _ADDRESSES_PER_PAGE

    @abstractmethod
    def seeds(self, visitor: Visitor) -> AsyncIterator[str]:
        """Yield the first normal addresses.

        Raises:
            Unavailable: they cannot be read now.
            Misconfigured: they cannot be read until the source is changed.
        """

    async def _addresses(
        self, visitor: Visitor, kind: AddressesKind, address: str
    ) -> AsyncIterator[tuple[list[str], list[str]]]:
        """Yield batches of the addresses of pages and sitemaps in a file. The run reads ten times its pages at most.

        Raises:
            Unavailable: the file cannot be read now.
            Misconfigured: it cannot be read until it is changed.
        """
        content, base = await read_file(visitor, address)
        try:
            async with aclosing(read_addresses(visitor.reader, kind, content, base, self._left)) as batches:
                async for pages, sitemaps in batches:
                    self._left -= len(pages) + len(sitemaps)
                    yield pages, sitemaps
        except Unreadable as error:
            raise _misconfigured(f"{address} cannot be used: {error.message}.") from error
        except Transient as error:
            raise Unavailable(error.message, component="parser") from error

    def canonical_address(self, address: str) -> str | None:
        """Return the address under which a page is visited; None if the source does not contain it."""
        return address if self.options.selects(address) else None


class ListPlan(Plan):
    """Pages of a list; they may be on any host."""

    async def seeds(self, visitor: Visitor) -> AsyncIterator[str]:
        self._left = self._most_addresses
        async for pages, _ in self._addresses(visitor, "list", self.start):
            for address in pages:
                yield address


class FeedPlan(Plan):
    """Pages of the entries of a feed; they may be on any host. Entries that the feed no longer has are visited, too."""

    keeps_known = True

    async def seeds(self, visitor: Visitor) -> AsyncIterator[str]:
        self._left = self._most_addresses
        async for pages, _ in self._addresses(visitor, "feed", self.start):
            for address in pages:
                yield address


class SitemapPlan(Plan):
    """Pages of a sitemap, on the sitemap's host. Of a site's address, robots.txt names the sitemaps."""

    def canonical_address(self, address: str) -> str | None:
        return super().canonical_address(address) if _host(address) == _host(self.start) else None

    async def seeds(self, visitor: Visitor) -> AsyncIterator[str]:
        self._left = self._most_addresses
        waiting, seen = await self._first(visitor), set[str]()
        while waiting and self._left:
            address = waiting.pop()
            if address in seen:
                continue
            seen.add(address)
            async for pages, sitemaps in self._addresses(visitor, "sitemap", address):
                waiting += [found for found in sitemaps if _host(found) == _host(self.start)]
                if len(seen) + len(waiting) > _MOST_SITEMAPS:
                    raise _misconfigured(f"{self.start} has more than {_MOST_SITEMAPS:,} sitemaps: use one of them.")
                for page in pages:
                    yield page

    async def _first(self, visitor: Visitor) -> list[str]:
        if path_of(self.start) != "/":
            return [self.start]
        named = [address for address in await visitor.sitemaps(self.start) if _host(address) == _host(self.start)]
        return named or [f"{origin_of(self.start)}/sitemap.xml"]


class CrawlPlan(Plan):
    """Pages of one host to which links lead from the first one."""

    starts_with_page = True
    reports_unsupported = False
    names_all_pages = False

    def __init__(self, start: str, options: CrawlOptions) -> None:
        super().__init__(start, options)
        self.depth = options.depth
        self.same_pattern = options.same_pattern
        self._prefix = options.prefix or path_of(start).partition("?")[0].rpartition("/")[0] + "/"
        if not path_of(start).startswith(self._prefix):
            raise InvalidInput(f"The start is not below the prefix {self._prefix}: change one of them.", field="prefix")

    async def seeds(self, visitor: Visitor) -> AsyncIterator[str]:
        if not await visitor.allows(self.start):
            raise _misconfigured(f"robots.txt of the host forbids reading {self.start}.")
        yield self.start

    def canonical_address(self, address: str) -> str | None:
        if _host(address) != _host(self.start):
            return None
        address = origin_of(self.start) + path_of(address)  # http:// and https:// are one site
        if not path_of(address).startswith(self._prefix) or is_trap(address):
            return None
        return address if address == self.start else super().canonical_address(address)


async def read_file(visitor: Visitor, address: str) -> tuple[bytes, str]:
    """Return the content of a list, sitemap or feed, which may be packed, and the address to which its redirects led.

    Raises:
        Unavailable: it cannot be read now; an unread list would look like deletions.
        Misconfigured: robots.txt forbids reading it.
    """
    for _ in range(_MOST_REDIRECTS):
        if not visitor.permits(address):
            raise _misconfigured(f"{address} cannot be read: {NOT_PERMITTED}")
        if not await visitor.allows(address):
            raise _misconfigured(f"robots.txt of the host forbids reading {address}.")
        try:
            reply = await visitor.get(address, max_bytes=MOST_BYTES)
            if reply.status == _OK:
                return reply.body, address
        except PageError as error:
            kind = Unavailable if error.fault == "server" else Misconfigured
            raise kind(f"{address} cannot be read: {error}", component=COMPONENT) from error
        if (target := reply.redirect_from(address)) is None:
            raise Unavailable(f"{address} answers with status {reply.status}.", component=COMPONENT)
        address = target
    raise _misconfigured(f"{address} is reached only after more than {_MOST_REDIRECTS} redirects.")


def start_of(uri: str) -> str:
    """Return the normal form of a source's address.

    Raises:
        InvalidInput: a page cannot have this address.
    """
    address = normal(uri)
    if address is None:
        raise InvalidInput("The address must have the form https://example.org/docs/, without a password.", field="uri")
    return address


def _host(address: str) -> str:
    return origin_of(address).partition("://")[2]


def _misconfigured(message: str) -> Misconfigured:
    return Misconfigured(message, component=COMPONENT)
