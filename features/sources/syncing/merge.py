"""The ordered merge of a listing with the items of its source: entries to fetch, and items that the listing lacks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from features.sources.domain import RefusedEntry
from features.sources.ledger.listings import StoredItem
from features.sources.source import Entry
from shared.domain.corpus.document_fields import MOST_KEY_BYTES, is_text, problem_of_id
from shared.domain.errors import Permanent

_SHOWN_CHARS = 200  # of the key of a refused entry


@dataclass(slots=True)
class PagePart:
    """A part of a merged page, small enough for one transaction.

    Args:
        after: last key of the part.
        fetched: entries whose content differs from their item's, or that have none.
        new: keys of those without an item.
        readers: new readers by the key of an entry whose document has other ones, and whose content is not fetched.
        unread: the same of entries whose content is fetched: their documents get the readers with the content, or
            without it if it cannot be read.
    """

    after: str
    seen: int = 0
    unchanged: int = 0
    fetched: list[Entry] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    present: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    refused: list[RefusedEntry] = field(default_factory=list)
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unread: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, entry: Entry, item: StoredItem | None) -> None:
        """Add an entry and its item, if it has one."""
        self.seen += 1
        reason = refusal(entry)
        is_fetched = reason is None and (item is None or item.version != entry.version)
        if reason is not None:
            self.refused.append(RefusedEntry(shown(entry.key), reason))
        elif is_fetched:
            self.fetched.append(entry)
        else:
            self.unchanged += 1
        (self.unread if is_fetched else self.readers).update(changed_readers(entry, item))
        if item is None:
            self.new.add(entry.key)
        elif item.is_marked:
            self.present.append(entry.key)
        if is_text(entry.key):
            self.after = entry.key

    def readers_without(self, read: Iterable[str]) -> dict[str, tuple[str, ...]]:
        """Return the new readers of documents without new content, if the content of these keys was read."""
        done = set(read)
        return self.readers | {key: readers for key, readers in self.unread.items() if key not in done}

    def add_missing(self, items: Iterable[StoredItem]) -> None:
        """Add items that the listing lacks."""
        for item in items:
            self.missing.append(item.key)
            self.after = item.key


@dataclass(frozen=True, slots=True)
class ListedPage:
    """A page of a listing: all its entries with keys after the last page and up to `end`.

    Args:
        entries: entries in order; invalid keys are between their neighbours.
        end: last key of the page; None: it is the last page.
    """

    entries: Sequence[Entry]
    end: str | None


@dataclass(frozen=True, slots=True)
class PartLimits:
    """Limits of a part.

    Args:
        fetched: maximum number of entries that it fetches.
        fetched_bytes: their maximum size, unless a single entry is larger.
        readers: maximum number of documents that get other readers only.
        unknown_bytes: assumed size of an entry with an unknown size.
    """

    fetched: int = 100
    fetched_bytes: int = 32 << 20
    readers: int = 500
    unknown_bytes: int = 1 << 20

    def size(self, part: PagePart) -> int:
        return sum(map(self.size_of, part.fetched))

    def size_of(self, entry: Entry) -> int:
        return self.unknown_bytes if entry.size_bytes is None else entry.size_bytes

    def is_full(self, part: PagePart) -> bool:
        is_long = len(part.fetched) >= self.fetched or len(part.readers) >= self.readers
        return is_long or self.size(part) >= self.fetched_bytes


def merged(page: ListedPage, items: Sequence[StoredItem], after: str, limits: PartLimits) -> Iterator[PagePart]:
    """Merge a page with the items after the last page, in parts that are saved one after another.

    Args:
        page: page of the listing.
        items: items in order, which were read before the page; items after its end are ignored.
        after: end of the last page.
        limits: limits of each part.
    """
    part, left = PagePart(after), deque(item for item in items if page.end is None or item.key <= page.end)
    for entry in page.entries:
        if limits.is_full(part):
            yield part
            part = PagePart(part.after)
        if is_text(entry.key):
            part.add_missing(_before(left, entry.key))
        is_same = bool(left) and left[0].key == entry.key
        part.add(entry, left.popleft() if is_same else None)
    part.add_missing(left)
    part.after = page.end or part.after
    yield part


def _before(items: deque[StoredItem], key: str) -> Iterator[StoredItem]:
    """Remove and yield the items before a key."""
    while items and items[0].key < key:
        yield items.popleft()


def require_ascending(last: str, entry: Entry) -> None:
    """Raise Permanent unless an entry's key follows the last one: unordered entries would look like deletions."""
    if is_text(entry.key) and entry.key <= last:
        raise Permanent(
            f"The listing of the source is not in order: '{shown(entry.key)}' follows '{shown(last)}'."
            " Nothing was deleted."
        )


def refusal(entry: Entry) -> str | None:
    """Return why an entry is refused, as a sentence, without reading it; None if it is not."""
    if problem := problem_of_id(entry.key, MOST_KEY_BYTES):
        return problem
    if not is_text(entry.version):
        return "Its version is not valid text."
    return entry.refused


def changed_readers(entry: Entry, item: StoredItem | None) -> dict[str, tuple[str, ...]]:
    """Return the readers of an entry by its key if its document has others; empty if the source does not name them."""
    if entry.readable_by is None or item is None or item.readable_by is None:
        return {}
    return {entry.key: entry.readable_by} if set(entry.readable_by) != set(item.readable_by) else {}


def shown(key: str) -> str:
    """Return a key as text that can be stored and shown."""
    return key[:_SHOWN_CHARS].encode(errors="backslashreplace").decode().replace("\0", "\\x00")
