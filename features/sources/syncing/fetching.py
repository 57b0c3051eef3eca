"""Fetching: the content of entries is read from the source, and stored, or referred to, as the bytes of documents."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass
from functools import partial

from features.sources.domain import RefusedEntry, SourceDefinition
from features.sources.ledger.listings import SyncedDocument
from features.sources.source import Entry, Item
from features.sources.syncing.merge import PartLimits, shown
from features.sources.syncing.quota import Quota
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.document_fields import CheckedFields, content_hash, described
from shared.domain.corpus.documents import NewDocument
from shared.domain.corpus.filterable import require_fit
from shared.domain.errors import InvalidInput, NotFound, TooLarge, Unreadable
from shared.domain.lanes import Lane
from shared.storage.references import Reference
from shared.storage.uploads import Upload, Uploads

_CONCURRENT = 8
_SMALL_BYTES = 256 << 10  # larger documents are separate objects, so that their deletion rewrites no pack


@dataclass(frozen=True, slots=True)
class Fetched:
    """The fetched entries of a part in their order; `refused` have no document."""

    documents: Sequence[SyncedDocument]
    refused: Sequence[RefusedEntry]


@dataclass(frozen=True, slots=True)
class Fetcher:
    """Fetches entries of one source.

    Args:
        read: `fetch` of the source, with retries.
        keeps_bytes: whether contents are stored; otherwise only their hashes are, and they are read again later.
        quota: limits of the tenant.
        max_bytes: maximum size of a document.
        limits: assumed size of an entry without a size, and the bytes that are in memory at a time.
    """

    read: Callable[..., Awaitable[Item]]
    definition: SourceDefinition
    collection: Collection
    uploads: Uploads
    keeps_bytes: bool
    quota: Quota
    max_bytes: int
    limits: PartLimits

    async def fetch(self, entries: Sequence[Entry], new: set[str]) -> Fetched:
        """Fetch and store entries, some of them concurrently. Entries that do not exist any more are left out.

        Args:
            entries: entries in order.
            new: keys of entries without an item.

        Raises:
            Unavailable: the source or the store of uploads is unavailable.
        """
        without_room = await self._without_room(entries, new)
        read = await self._all([entry for entry in entries if entry.key not in without_room])
        await self.quota.count(self.definition.tenant, sum(each.size_bytes for each in read if isinstance(each, _Read)))
        uploads = iter(await self._packed([each for each in read if isinstance(each, _Read)]))
        documents = [self._document(each, next(uploads), new) for each in read if isinstance(each, _Read)]
        refused = [RefusedEntry(shown(key), self.quota.no_room(self.definition.tenant)) for key in without_room]
        return Fetched(documents, refused + [each for each in read if isinstance(each, RefusedEntry)])

    async def adopt(self, entry: Entry, item: Item, upload: Upload, new: set[str]) -> SyncedDocument | RefusedEntry:
        """Return the document of an entry whose content is stored already; `item` has its other fields.

        Args:
            entry: the entry.
            item: its fields; its content is not used.
            upload: the stored content.
            new: keys of entries without an item.
        """
        if await self._without_room([entry], new):
            return RefusedEntry(shown(entry.key), self.quota.no_room(self.definition.tenant))
        try:
            _require_content(upload.size_bytes)
            self.quota.require_possible(self.definition.tenant, upload.size_bytes)
            read = _Read(entry, item.version, _fields(item, self.collection), _readers(item, entry), b"", upload)
        except (TooLarge, InvalidInput) as error:
            return RefusedEntry(shown(entry.key), error.message)
        await self.quota.count(self.definition.tenant, upload.size_bytes)
        return self._document(read, upload, new)

    async def _without_room(self, entries: Sequence[Entry], new: set[str]) -> list[str]:
        """Return the keys of new entries whose documents the tenant may not add."""
        names = {self.definition.external_id(entry.key): entry.key for entry in entries if entry.key in new}
        refused = await self.quota.without_room(self.collection, list(names))
        return [key for name, key in names.items() if name in refused]

    async def _all(self, entries: Sequence[Entry]) -> list[_Read | RefusedEntry | None]:
        room = _ReadCapacity(_CONCURRENT, self.limits.fetched_bytes)
        tasks = []
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(entry, room)) for entry in entries]
        except BaseExceptionGroup as errors:  # one error is enough: its class determines the next step
            raise errors.exceptions[0] from None
        return [task.result() for task in tasks]

    async def _one(self, entry: Entry, room: _ReadCapacity) -> _Read | RefusedEntry | None:
        """Read an entry; store it at once if it is large and stored at all. None: it does not exist any more."""
        try:
            if (entry.size_bytes or 0) > self.max_bytes:
                raise TooLarge(f"It has {entry.size_bytes:,} bytes; a document has at most {self.max_bytes:,}.")
            self.quota.require_possible(self.definition.tenant, entry.size_bytes or 0)
            async with room.taken(self.limits.size_of(entry)):
                item = await self.read(entry, max_bytes=self.max_bytes)
                _require_content(len(item.content))
                self.quota.require_possible(self.definition.tenant, len(item.content))
                read = partial(_Read, entry, item.version, _fields(item, self.collection), _readers(item, entry))
                if not self.keeps_bytes:
                    return read(b"", await self._referred(entry, item))
                if len(item.content) <= _SMALL_BYTES:
                    return read(item.content, None)
                return read(b"", await self.uploads.store_bytes(item.content, max_bytes=self.max_bytes))
        except NotFound:
            return None
        except (TooLarge, Unreadable, InvalidInput) as error:
            return RefusedEntry(shown(entry.key), error.message)

    async def _referred(self, entry: Entry, item: Item) -> Upload:
        digest = await asyncio.to_thread(hashlib.sha256, item.content)
        reference = Reference(self.definition.id, digest.digest(), item.version, entry.key)
        return Upload(reference.name, len(item.content), digest.digest())

    async def _packed(self, read: Sequence[_Read]) -> list[Upload]:
        """Store the small contents as one pack; return the upload of each entry."""
        small = [each.content for each in read if each.upload is None]
        packed = iter(await self.uploads.store_pack(small) if small else ())
        return [each.upload or next(packed) for each in read]

    def _document(self, read: _Read, upload: Upload, new: set[str]) -> SyncedDocument:
        fields = asdict(read.fields)
        document = NewDocument(
            collection=self.collection,
            external_id=self.definition.external_id(read.entry.key),
            ready_questions=None,
            upload=upload.name,
            size_bytes=upload.size_bytes,
            content_hash=content_hash({"content": upload.sha256.hex(), **fields, "questions": None}),
            lane=Lane.BULK,
            readable_by=read.readable_by,
            **fields,
        )
        return SyncedDocument(read.entry.key, read.version, document, is_new=read.entry.key in new)


@dataclass(frozen=True, slots=True)
class _Read:
    """A read entry; its content is empty unless it is still to be stored."""

    entry: Entry
    version: str
    fields: CheckedFields
    readable_by: tuple[str, ...] | None
    content: bytes
    upload: Upload | None

    @property
    def size_bytes(self) -> int:
        return len(self.content) if self.upload is None else self.upload.size_bytes


class _ReadCapacity:
    """Room for concurrent reads, by their number and their bytes; one read is always possible."""

    def __init__(self, number: int, size: int) -> None:
        self._number = number
        self._size = size
        self._taken = list[int]()
        self._changed = asyncio.Condition()

    @asynccontextmanager
    async def taken(self, size: int) -> AsyncIterator[None]:
        """Wait for room, and take it within the block."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._fits(size))
            self._taken.append(size)
        try:
            yield
        finally:
            self._taken.remove(size)
            async with self._changed:
                self._changed.notify_all()

    def _fits(self, size: int) -> bool:
        return not self._taken or (len(self._taken) < self._number and sum(self._taken) + size <= self._size)


def _readers(item: Item, entry: Entry) -> tuple[str, ...] | None:
    """Return who reads the document of an item; the item knows it from the same moment as its content."""
    return entry.readable_by if item.readable_by is None else item.readable_by


def _require_content(size_bytes: int) -> None:
    if not size_bytes:
        raise InvalidInput("It is empty.")


def _fields(item: Item, collection: Collection) -> CheckedFields:
    """Return the descriptive fields of a document, as an upload has them.

    Raises:
        InvalidInput: a field cannot be stored or does not fit the collection.
    """
    fields = described(filename=item.filename, media_type=item.media_type, title=item.title, metadata=item.metadata)
    require_fit(collection.options.filterable, fields.metadata)
    return fields
