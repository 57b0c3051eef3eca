"""The interface of sources: a complete listing in a fixed order, and the content of an entry."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Entry:
    """An object, file, row or page of a source.

    Args:
        key: its name within the source, at most 1,024 bytes of UTF-8 without NUL.
        version: changes whenever the content changes, and otherwise never, such as an ETag or the hash of a row.
        size_bytes: size of its content; None if unknown.
        refused: why it cannot be read although it exists, as a sentence; None if it can. Its document is neither
            changed nor deleted.
        readable_by: readers of its document, as `shared.domain.access.persons` checks them; None: it names none.
    """

    key: str
    version: str
    size_bytes: int | None = None
    refused: str | None = None
    readable_by: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Item:
    """The content of an entry, and the fields of its document.

    Args:
        content: its bytes; empty content is refused by the sync.
        version: version of these bytes, which differs from the entry's if the content changed after the listing.
        filename: name whose ending shows the format; None if `media_type` shows it.
        title: its title; None: the parser finds one.
        media_type: such as `text/html`; None if unknown.
        metadata: metadata of its document.
        readable_by: readers at the time of this content; None: the readers of the entry.
    """

    content: bytes
    version: str
    filename: str | None = None
    title: str | None = None
    media_type: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    readable_by: tuple[str, ...] | None = None


class Source(ABC):
    """A corpus outside foreask. A source is used by one sync at a time, and closed afterwards."""

    is_snapshot = False
    """Whether it shows the content at the time of its first use, until it is opened again."""

    is_resumable = False
    """Whether it continues after `rest` without repeating its work, although its listing was cancelled."""

    progressed: Callable[[], None] = staticmethod(lambda: None)
    """Called when it makes progress before its next entry, as a crawl does with each page."""

    @abstractmethod
    def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        """Yield the entries whose keys follow `after`, in the order of the keys' UTF-8 bytes.

        A listing is complete only if it ends without an error. A part of a corpus that cannot be listed, such as a
        folder without permission, is an error: an incomplete listing would look like deletions.

        Raises:
            Unavailable: the source cannot be reached, or fails; another attempt may succeed.
            Misconfigured: its address, its options or its secret are wrong.
        """

    @abstractmethod
    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        """Return the content of an entry, in its current version.

        Raises:
            NotFound: it does not exist any more.
            TooLarge: it has more than `max_bytes`.
            Unreadable: it exists, but cannot be read; another attempt would not succeed.
            Unavailable: the source cannot be reached, or fails; another attempt may succeed.
        """

    @abstractmethod
    async def find(self, key: str) -> Entry | None:
        """Return the current entry of a key, or None if the source has none now; raises as `entries`."""

    def expect(self, entries: Sequence[Entry]) -> None:  # noqa: B027 - most sources read each entry alone
        """Name the entries that are read next, in any order, so that a source can fetch them together.

        Args:
            entries: entries as this source lists them now, or with versions for `content`. They replace the entries of
                the last call.
        """

    def expects(self, entry: Entry) -> bool:  # noqa: ARG002 - as `expect`
        """Return whether naming an entry with `expect` has no advantage, or was done."""
        return True

    async def content(self, entry: Entry, *, max_bytes: int) -> bytes:
        """Return the content of an entry in its version, or in the current one; raises as `fetch`."""
        return (await self.fetch(entry, max_bytes=max_bytes)).content

    @property
    def waiting_seconds(self) -> float:
        """The time for which it does nothing but wait, because its server demands it."""
        return 0.0

    async def rest(self) -> None:  # noqa: B027 - most sources do nothing between two calls
        """Send no further request until `resume`, and store everything that another process needs to continue."""

    def resume(self) -> None:  # noqa: B027 - as `rest`
        """Continue after `rest`."""

    def name_listing(self, listing: str) -> None:  # noqa: B027 - most listings continue after a key
        """Name the next listing, so that it can continue an interrupted one of the same name, in another process."""

    async def aclose(self) -> None:  # noqa: B027 - most sources have no connections
        """Close its connections."""
