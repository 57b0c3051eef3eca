"""The memory of a source of pages: a short note per address, from one run to the next.

With its note a page is requested on condition that it has changed, and a page that has not changed is listed with its
previous version. A lost note costs one download, and a stale one too: notes never decide that a page is deleted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import orjson

MOST_NOTE_BYTES = 1_024
MOST_PARENTS = 16
_MOST_ETAG_CHARS = 200
_MOST_DATE_CHARS = 64
_READING = 1
"""Number of the current way to read pages. A change of most texts increases it, so that all pages are read again."""


class VisitOutcome(StrEnum):
    """The outcome of a visit."""

    LISTED = "listed"
    REFUSED = "refused"
    MISSING = "missing"  # 404, 410, or a page that only looks as if it existed
    HIDDEN = "hidden"  # noindex
    MOVED = "moved"
    UNSUPPORTED = "unsupported"  # a picture, a style sheet
    FORBIDDEN = "forbidden"  # by robots.txt
    CANONICAL = "canonical"  # its canonical address is another listed page
    DUPLICATE = "duplicate"  # a page with a smaller address has the same text
    TRAPPED = "trapped"  # its pattern has enough pages


@dataclass(frozen=True, slots=True)
class Note:
    """Facts of a page from its last visit.

    Args:
        outcome: outcome of the visit, before pages were compared: `listed` also for duplicates.
        text_hash: hash of its text; of a refused page, of the last text that could be read.
        etag: `ETag` of its reply.
        modified: `Last-Modified` of its reply.
        canonical: digest of its canonical address, if it names another one.
        parents: digests of at most 16 pages that link to it.
        has_more_parents: whether more pages link to it.
        rank: number of links from the start.
    """

    outcome: VisitOutcome
    text_hash: str | None = None
    etag: str | None = None
    modified: str | None = None
    canonical: str | None = None
    parents: tuple[str, ...] = ()
    has_more_parents: bool = False
    rank: int = 0

    @property
    def conditions(self) -> dict[str, str]:
        """The headers of a conditional request, which are empty if the page must be downloaded."""
        given = {"if-none-match": self.etag, "if-modified-since": self.modified}
        return {name: value for name, value in given.items() if value}

    def encode(self) -> bytes:
        """Return the note in at most 1,024 bytes; a validator that is too long is omitted."""
        etag = self.etag if len(self.etag or "") <= _MOST_ETAG_CHARS else None
        modified = self.modified if len(self.modified or "") <= _MOST_DATE_CHARS else None
        fields = {
            "r": _READING,
            "o": self.outcome,
            "h": self.text_hash,
            "e": etag,
            "m": modified,
            "c": self.canonical,
            "p": "".join(self.parents[:MOST_PARENTS]),
            "+": self.has_more_parents,
            "d": self.rank,
        }
        return orjson.dumps({name: value for name, value in fields.items() if value})

    @classmethod
    def decode(cls, encoded: bytes) -> Note | None:
        """Return the note; None if it is of another way to read pages."""
        fields: dict[str, Any] = orjson.loads(encoded)
        if fields.get("r") != _READING:
            return None
        parents = fields.get("p", "")
        return cls(
            outcome=VisitOutcome(fields["o"]),
            text_hash=fields.get("h"),
            etag=fields.get("e"),
            modified=fields.get("m"),
            canonical=fields.get("c"),
            parents=tuple(parents[at : at + 16] for at in range(0, len(parents), 16)),
            has_more_parents=fields.get("+", False),
            rank=fields.get("d", 0),
        )


class Memory(ABC):
    """Notes of a source. Also addresses that are not listed have notes: duplicates, redirects and hidden pages.

    The progress of a run is stored as notes, too; their keys have a prefix that no address has.
    """

    @abstractmethod
    def notes(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield all notes as (address, note), in any order."""

    @abstractmethod
    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        """Store notes, each of at most 1,024 bytes, all or none of them; None removes a note.

        Raises:
            Unavailable: they cannot be stored.
        """


class NoMemory(Memory):
    """Forgets everything: each run downloads each page."""

    async def notes(self) -> AsyncIterator[tuple[str, bytes]]:
        for nothing in tuple[tuple[str, bytes]]():
            yield nothing

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        pass
