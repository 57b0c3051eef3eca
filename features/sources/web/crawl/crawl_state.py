"""The state of one run, in a temporary SQLite file: it is larger than memory, and is sorted at the end.

The pages of a named listing are also stored in the memory from time to time, and loaded by the next process.
"""

from __future__ import annotations

import re
import sqlite3
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from features.sources.web.crawl.addresses import digest_of, pattern_of
from features.sources.web.crawl.memory import MOST_PARENTS, Memory, Note, VisitOutcome
from features.sources.web.crawl.progress import PREFIX, RunPage

_HERE = Path(__file__)
_SCHEMA = _HERE.with_suffix(".sql").read_text()
_BLOCKS = re.split(r"^-- name: (\w+)\n", _HERE.with_name("crawl_statements.sql").read_text(), flags=re.MULTILINE)
_SQL = dict(zip(_BLOCKS[1::2], _BLOCKS[2::2], strict=True))
_FASTEST = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA locking_mode = EXCLUSIVE;"
_PARENT_CHARS = MOST_PARENTS * 16
_BATCH = 1_000
_STORED_VISITS = 100  # after so many visits, or this time, the pages of a run are stored
_STORED_SECONDS = 60.0


class PageToVisit(NamedTuple):
    """A page to visit.

    Args:
        rank: pages with a smaller rank are visited first; in a crawl, the number of links from the start.
        hops: redirects that led to it.
        note: its note from the previous run.
    """

    address: str
    digest: str
    pattern: str
    rank: int
    hops: int
    note: Note | None


@dataclass(frozen=True, slots=True)
class Visit:
    """The result of a visit.

    Args:
        outcome: its outcome, before pages are compared.
        reason: why it is refused, as a sentence.
        note: note for the next run, without parents; None: the previous note stays valid.
        text_hash: hash of its text.
        content: content of the document, if it was downloaded.
        media_type: type of the document's content.
        title: title of the page.
        links: normal addresses to which it links.
        target: address to which it redirects, or its canonical address if that is another one.
        unchanged: whether it has the links of the last visit, because it has not changed or could not be read.
        fault: whether the server is at fault; other pages may fail, too.
    """

    outcome: VisitOutcome
    reason: str | None = None
    note: Note | None = None
    text_hash: str | None = None
    content: bytes | None = None
    media_type: str | None = None
    title: str | None = None
    links: tuple[str, ...] = ()
    target: str | None = None
    unchanged: bool = False
    fault: bool = False

    @property
    def size_bytes(self) -> int | None:
        return None if self.content is None else len(self.content)


class CrawlState:
    """Pages of a run: found, visited, and compared at the end.

    Args:
        folder: folder for its file.
    """

    def __init__(self, folder: Path) -> None:
        self._database = sqlite3.connect(folder / "state.sqlite", isolation_level=None, check_same_thread=False)
        self._database.executescript(_FASTEST + _SCHEMA)
        self._database.execute("BEGIN")  # it is never committed: the file is used by this connection only
        self._listing = ""
        self._visits = 0  # since pages were stored
        self._stored_at = time.monotonic()
        self._has_stored = False

    def close(self) -> None:
        self._database.close()

    async def load(self, memory: Memory, listing: str = "") -> None:
        """Read the notes of the previous run, and the pages that an interrupted run of the same listing has stored.

        Args:
            memory: notes of the source.
            listing: name of the listing; if it is empty, pages are neither loaded nor stored.
        """
        self._listing = listing
        async for address, encoded in memory.notes():
            if address.startswith(PREFIX):
                self._restore(address, encoded)
            elif note := Note.decode(encoded):
                row = (address, note.outcome, note.text_hash, note.has_more_parents, encoded)
                self._database.execute("INSERT OR REPLACE INTO known VALUES (?, ?, ?, ?, ?)", row)
                links = [(parent, address) for parent in note.parents]
                self._database.executemany("INSERT OR IGNORE INTO known_links VALUES (?, ?)", links)

    def _restore(self, key: str, encoded: bytes) -> None:
        page = RunPage.decode(key, encoded, self._listing)
        if page is None:
            self._database.execute("INSERT OR REPLACE INTO outdated VALUES (?)", (key,))
            return
        self._has_stored = True
        note = Note.decode(page.note) if page.note else None
        row = {
            **asdict(page),
            "digest": digest_of(page.address),
            "pattern": pattern_of(page.address),
            "canonical": note.canonical if note else None,
        }
        self._database.execute(_SQL["restore"], row)

    async def store_pages(self, memory: Memory, *, is_last: bool = False, at_once: bool = False) -> None:
        """Store the pages that changed, if many were visited or a long time has passed since they were stored.

        A run that ends before this stores nothing, unless it rests (`at_once`).
        """
        is_due = self._visits >= _STORED_VISITS or time.monotonic() - self._stored_at > _STORED_SECONDS
        is_due |= at_once and self._visits > 0
        if not self._listing or not (is_due or (is_last and self._has_stored)):
            return
        pages = [RunPage(*row) for row in self._database.execute(_SQL["to_store"])]
        await memory.write({page.key: page.encode(self._listing) for page in pages})
        stored = [(page.address,) for page in pages]
        self._database.executemany("UPDATE pages SET is_stored = 1 WHERE address = ?", stored)
        self._database.executemany("DELETE FROM outdated WHERE key = ?", [(page.key,) for page in pages])
        self._visits, self._stored_at, self._has_stored = 0, time.monotonic(), True

    def visits_by_pattern(self) -> Counter[str]:
        """Return the number of visits of this run by pattern of the address; earlier processes count, too."""
        return Counter(dict(self._database.execute(_SQL["visits_by_pattern"]).fetchall()))

    @property
    def is_continued(self) -> bool:
        """Whether an earlier process has stored pages of this run, or this one has."""
        return self._has_stored

    def add(self, addresses: Iterable[str], *, rank: int, parent: str = "", hops: int = 0) -> None:
        """Add pages to visit; `parent` is the digest of the page that links to them."""
        rows = [
            {
                "address": address,
                "digest": digest_of(address),
                "pattern": pattern_of(address),
                "rank": rank,
                "hops": hops,
                "parent": parent,
                "most_parents": _PARENT_CHARS,
            }
            for address in addresses
        ]
        self._database.executemany(_SQL["add_page"], rows)

    def next(self) -> PageToVisit | None:
        """Return the page to visit next; None if there is none."""
        row = self._database.execute(_SQL["next_page"]).fetchone()
        if row is None:
            return None
        address, digest, pattern, rank, hops, encoded = row
        return PageToVisit(address, digest, pattern, rank, hops, Note.decode(encoded) if encoded else None)

    def record(self, page: PageToVisit, visit: Visit) -> None:
        """Record the result of a visit."""
        note = visit.note or page.note
        row = {
            "address": page.address,
            "outcome": visit.outcome,
            "reason": visit.reason,
            "text_hash": visit.text_hash,
            "canonical": note.canonical if note else None,
            "note": replace(note, rank=page.rank, parents=()).encode() if note else None,
            "size_bytes": visit.size_bytes,
            "media_type": visit.media_type,
            "title": visit.title,
        }
        self._database.execute(_SQL["record"], row)
        self._visits += 1

    def known_children(self, digest: str) -> list[str]:
        """Return the addresses to which a page linked at its last visit, in order."""
        return self._column("children_in_memory", digest=digest)

    def add_linked_by_more(self) -> None:
        """Add pages with a text in the previous run that have more parents than were stored, and were not found."""
        for address in self._column("linked_by_more"):
            note = self.known_note(address)
            self.add([address], rank=note.rank if note else 0)

    def known_addresses(self) -> list[str]:
        """Return the addresses of the pages that had a text in the previous run, in order."""
        listed = "SELECT address FROM known WHERE text_hash IS NOT NULL ORDER BY address"
        return [address for (address,) in self._database.execute(listed)]

    def known_note(self, address: str) -> Note | None:
        """Return the note of the previous run."""
        row = self._database.execute("SELECT note FROM known WHERE address = ?", (address,)).fetchone()
        return Note.decode(row[0]) if row else None

    def has_earlier(self, address: str, text_hash: str) -> bool:
        """Return whether the previous run had a page with this text and a smaller address."""
        return bool(self._column("earlier_page_with_text", address=address, text_hash=text_hash))

    def refuse_unvisited(self, reason: str, *, also_unfound: bool) -> None:
        """Refuse the pages that had a text in the previous run and were not visited in this one, because of a limit."""
        if also_unfound:
            self._database.execute(_SQL["add_unvisited"])
        self._database.execute(_SQL["refuse_unvisited"], {"reason": reason})

    def compare(self) -> None:
        """Choose one page of each text, and canonical pages."""
        self._database.execute(_SQL["prefer_canonical"])
        self._database.execute(_SQL["prefer_first"])

    def entries(self, after: str) -> Iterator[tuple[str, str | None, int | None, str | None]]:
        """Yield (address, hash of the text, size in bytes, reason for refusal) in the order of addresses."""
        for row in self._batches("entries", after):
            yield row[0], row[1], row[2], row[3]

    def document(self, address: str) -> tuple[str | None, str | None] | None:
        """Return media type and title of a listed page; None if it was not downloaded in this run."""
        found = "SELECT media_type, title FROM pages WHERE address = ? AND media_type IS NOT NULL"
        row: tuple[str | None, str | None] | None = self._database.execute(found, (address,)).fetchone()
        return row

    def counts(self) -> dict[str, int]:
        """Return the number of pages by outcome."""
        counted = "SELECT outcome, count(*) FROM pages WHERE outcome IS NOT NULL GROUP BY outcome"
        return dict(self._database.execute(counted).fetchall())

    async def save(self, memory: Memory) -> None:
        """Replace the notes of the previous run by new ones; an equal note is not written."""
        async for changes in self._changes():
            await memory.write(changes)

    async def _changes(self) -> AsyncIterator[dict[str, bytes | None]]:
        changes: dict[str, bytes | None] = {}
        for address, encoded, parents, has_more in self._batches("parents_of", ""):
            note = _with_parents(encoded, parents, has_more=bool(has_more))
            if self._known(address) != note:
                changes[address] = note
            if len(changes) >= _BATCH:
                yield changes
                changes = {}
        for (address,) in chain(self._batches("forgotten", ""), self._batches("outdated", "")):
            changes[address] = None
            if len(changes) >= _BATCH:
                yield changes
                changes = {}
        if changes:
            yield changes

    def _known(self, address: str) -> bytes | None:
        row = self._database.execute("SELECT note FROM known WHERE address = ?", (address,)).fetchone()
        return row[0] if row else None

    def _batches(self, statement: str, after: str) -> Iterator[tuple[Any, ...]]:
        """Yield the rows of a statement that returns those after an address, which is their first column."""
        while rows := self._database.execute(_SQL[statement], {"after": after, "most": _BATCH}).fetchall():
            yield from rows
            after = rows[-1][0]

    def _column(self, statement: str, **values: str) -> list[str]:
        return [row[0] for row in self._database.execute(_SQL[statement], values)]


def _with_parents(encoded: bytes, parents: str, *, has_more: bool) -> bytes:
    note = Note.decode(encoded)
    if note is None:
        return encoded
    digests = tuple(sorted({parents[at : at + 16] for at in range(0, len(parents), 16)}))
    return replace(note, parents=digests, has_more_parents=has_more).encode()
