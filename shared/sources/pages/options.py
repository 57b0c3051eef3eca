"""Options of the kinds of sources of pages."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from shared.sources.pages.reading.addresses import path_of


def _split(value: object) -> object:
    """Return the items of a text that is separated by commas, as the command line sends a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


Patterns = Annotated[tuple[str, ...], BeforeValidator(_split)]


class PageOptions(BaseModel):
    """Selection of pages. A pattern of a shell is compared with the address and with its path; `*` matches `/`."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    pages: int = Field(10_000, ge=1, le=1_000_000, description="maximum pages that a run visits")
    include: Patterns = Field((), description="patterns; if there are any, an address must match at least one")
    exclude: Patterns = Field((), description="patterns; an address must not match any")

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
