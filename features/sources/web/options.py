"""Options of the kinds of sources of pages."""

from __future__ import annotations

from fnmatch import fnmatchcase
from urllib.parse import unquote

from pydantic import Field

from features.sources.options import Options, Texts
from shared.ingest.parse.web.addresses import path_of


class PageOptions(Options):
    """Selection of pages. A pattern of a shell is compared with the address and with its path; `*` matches `/`."""

    pages: int = Field(10_000, ge=1, le=1_000_000, description="maximum pages that a run visits")
    include: Texts = Field((), description="patterns; if there are any, an address must match at least one")
    exclude: Texts = Field((), description="patterns; an address must not match any")

    def _names_of(self, key: str) -> tuple[str, ...]:
        return key, path_of(key), unquote(key), unquote(path_of(key))

    def selects(self, address: str) -> bool:
        """Return whether the patterns select an address."""
        return (not self.include or _matches(address, self.include)) and not _matches(address, self.exclude)


class ListOptions(PageOptions):
    """Options of a list of addresses."""


class SitemapOptions(PageOptions):
    """Options of a sitemap."""


class FeedOptions(PageOptions):
    """Options of a feed."""


class CrawlOptions(PageOptions):
    """Options of a crawl."""

    depth: int = Field(20, ge=0, le=100, description="maximum links between the start and a page")
    prefix: str | None = Field(
        None, pattern="^/", description="first part of the paths of all pages; default: the folder of the start"
    )
    same_pattern: int = Field(
        1_000, ge=1, description="maximum pages whose addresses differ only in numbers and in values of parameters"
    )


def _matches(address: str, patterns: tuple[str, ...]) -> bool:
    path = path_of(address)
    return any(fnmatchcase(address, pattern) or fnmatchcase(path, pattern) for pattern in patterns)
