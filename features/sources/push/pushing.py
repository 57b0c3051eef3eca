"""Pages of entries that a program pushes: changes are saved at once, and each entry has a result."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from features.sources.domain import SourceDefinition
from features.sources.keys import substitute_key
from features.sources.ledger.listings import SyncedDocument
from features.sources.ledger.pushes import PushedPart, Pushes, StoredEntry
from features.sources.opening import options_of
from features.sources.options import Options
from features.sources.source import Entry, Item
from features.sources.syncing.fetching import Fetcher
from features.sources.syncing.intake import Intake
from features.sources.syncing.merge import PartLimits, changed_readers, shown
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.document_fields import MOST_KEY_BYTES, described, problem_of_id, short_version
from shared.domain.errors import InvalidInput, NotFound
from shared.http.problems import TooManyRequests
from shared.ledger.documents.documents import Documents
from shared.ledger.documents.submission import Submission
from shared.ledger.model.collections import Collections
from shared.storage.uploads import Upload, Uploads

_AT_ONCE = 100  # entries of one transaction: each deletion takes a few statements
_NO_BODY = "Its body was asked for, and was not pushed."
_NO_VERSION = "It has neither a version nor a body."


@dataclass(frozen=True, slots=True)
class PushedEntry:
    """An entry as a program pushes it.

    Args:
        key: its name within the source.
        version: changes whenever the body changes; None: the hash of the body.
        body: its content, or the stored bytes of its content; None: it is only listed, or deleted.
        title: title; None: the parser finds one, or the title of an unchanged document stays.
        metadata: metadata; None: none, or the metadata of an unchanged document stay.
        readable_by: readers; None: the document of a new entry names none, and others keep theirs.
        is_deleted: whether the program has lost it.
        problem: why it cannot be used, as a sentence.
    """

    key: str
    version: str | None = None
    body: bytes | Upload | None = None
    filename: str | None = None
    media_type: str | None = None
    title: str | None = None
    metadata: Mapping[str, Any] | None = None
    readable_by: tuple[str, ...] | None = None
    is_deleted: bool = False
    problem: str | None = None


class EntryOutcome(StrEnum):
    CREATED = "created"
    CHANGED = "changed"
    DESCRIBED = "described"  # its readers, title or metadata changed, and not its content
    UNCHANGED = "unchanged"
    DELETED = "deleted"
    BODY_NEEDED = "body_needed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class EntryResult:
    """The result of an entry; `reason` says why it is refused."""

    key: str
    outcome: EntryOutcome
    reason: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Pushing:
    """Saves pages of entries.

    Args:
        max_bytes: maximum size of a document.
        expires: time without a page after which an open listing fails.
        retry_after: time after which a page is sent again that the intake has refused.
        wake: wakes the workers that parse documents.
        update_points: updates the descriptions in the points of documents.
    """

    pushes: Pushes
    collections: Collections
    documents: Documents
    uploads: Uploads
    intake: Intake
    max_bytes: int
    expires: timedelta
    retry_after: timedelta
    wake: Callable[[], None]
    update_points: Callable[[Sequence[UUID]], Awaitable[None]]

    async def push(
        self,
        tenant: str,
        source: str,
        entries: Sequence[PushedEntry],
        *,
        listing: UUID | None = None,
        checkpoint: str | None = None,
    ) -> list[EntryResult]:
        """Save a page; repeating it has no further effect.

        If two entries have the same key, the last one counts.

        Args:
            tenant: tenant of the source.
            source: its name.
            entries: the entries, in any order.
            listing: the open listing that they belong to; None: the page is not a part of a listing.
            checkpoint: position of the program after this page, in its own terms.

        Returns:
            A result for each key, in the order of the keys' first entries.

        Raises:
            NotFound: there is no such source, listing or collection.
            Conflict: foreask reads the source itself, the listing has ended, or the collection is being erased.
            TooManyRequests: the tenant may not add bodies now. Some entries may be saved.
            Unavailable: the ledger or the store of uploads is unavailable. Some entries may be saved.
        """
        definition = await self.pushes.source(tenant, source)
        collection = await self.collections.get(tenant, definition.collection)
        page = _Page(self, definition, collection, listing)
        distinct = {entry.key: entry for entry in entries}
        results = dict[str, EntryResult]()
        for first in range(0, max(1, len(distinct)), _AT_ONCE):  # also an empty page proves that the program is alive
            part = list(distinct.values())[first : first + _AT_ONCE]
            results |= {result.key: result for result in await page.save(part)}
        if listing is not None and checkpoint is not None:
            await self.pushes.save_checkpoint(listing, checkpoint)
        return [results[key] for key in distinct]


@dataclass(frozen=True, slots=True)
class _NewDescription:
    """The new title and metadata of a document; None stands for the old value."""

    document_id: UUID
    title: str | None
    metadata: Mapping[str, Any] | None


@dataclass(slots=True)
class _Decided:
    """The decisions about the entries of a part, and its results so far."""

    unchanged: list[str] = field(default_factory=list)
    described: dict[str, _NewDescription] = field(default_factory=dict)
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    present: list[str] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    sent: list[tuple[Entry, PushedEntry]] = field(default_factory=list)
    problems: dict[str, str] = field(default_factory=dict)
    results: dict[str, EntryResult] = field(default_factory=dict)

    def refuse(self, key: str, reason: str) -> None:
        noted = key if problem_of_id(key, MOST_KEY_BYTES) is None else substitute_key(key)
        self.problems[noted] = reason
        self.results[key] = EntryResult(key, EntryOutcome.REFUSED, reason)


@dataclass(frozen=True, slots=True)
class _Page:
    services: Pushing
    definition: SourceDefinition
    collection: Collection
    listing: UUID | None

    async def save(self, entries: Sequence[PushedEntry]) -> list[EntryResult]:
        deleted = [entry.key for entry in entries if entry.is_deleted and not entry.problem]
        decided = await self._decided([entry for entry in entries if entry.problem or not entry.is_deleted])
        if deleted:
            await self._delete(deleted, decided)
        documents = await self._documents(decided)
        described = await self._describe(decided)
        read = {document.key for document in documents}  # these get their readers with their content
        part = PushedPart(
            documents=documents,
            present=decided.present,
            readers={key: names for key, names in decided.readers.items() if key not in read},
            unchanged=decided.unchanged,
            problems=decided.problems,
        )
        services = self.services
        saved = await services.pushes.save(self.definition, self.listing, part, expires=services.expires)
        if outdated := [*described, *saved.described]:
            await services.update_points(outdated)
        if any(submission.accepted for submission in saved.submissions):
            services.wake()
        for document, submission in zip(documents, saved.submissions, strict=True):
            decided.results[document.key] = EntryResult(document.key, _outcome(document, submission))
        return list(decided.results.values())

    async def _decided(self, entries: Sequence[PushedEntry]) -> _Decided:
        valid = [entry.key for entry in entries if problem_of_id(entry.key, MOST_KEY_BYTES) is None]
        stored = await self.services.pushes.stored(self.definition, valid)
        options, decided = options_of(self.definition.kind, self.definition.options), _Decided()
        for entry in entries:
            if problem := problem_of_id(entry.key, MOST_KEY_BYTES) or entry.problem:
                decided.refuse(entry.key, problem)
            else:
                _decide(decided, entry, stored[entry.key], options)
        return decided

    async def _delete(self, keys: Sequence[str], decided: _Decided) -> None:
        services = self.services
        await services.pushes.delete(self.definition, self.listing, keys, expires=services.expires)
        decided.results |= {key: EntryResult(key, EntryOutcome.DELETED) for key in keys}

    async def _documents(self, decided: _Decided) -> list[SyncedDocument]:
        """Store the bodies of entries; raises TooManyRequests if the tenant may not add any now."""
        if not decided.sent:
            return []
        services = self.services
        if reason := await services.intake.closed(self.definition.tenant):
            raise TooManyRequests(reason, retry_after=services.retry_after)
        fetcher = self._fetcher({entry.key: pushed for entry, pushed in decided.sent})
        of_bytes = [entry for entry, pushed in decided.sent if not isinstance(pushed.body, Upload)]
        fetched = await fetcher.fetch(of_bytes, decided.new)
        documents, refused = list(fetched.documents), list(fetched.refused)
        for entry, pushed in decided.sent:
            if isinstance(pushed.body, Upload):
                made = await fetcher.adopt(entry, _item(entry, pushed, b""), pushed.body, decided.new)
                if isinstance(made, SyncedDocument):
                    documents.append(made)
                else:
                    refused.append(made)
        reasons = {each.key: each.reason for each in refused}
        done = {document.key for document in documents}
        for entry, _ in decided.sent:
            if entry.key not in done:
                decided.refuse(entry.key, reasons[shown(entry.key)])
        return documents

    def _fetcher(self, pushed: Mapping[str, PushedEntry]) -> Fetcher:
        async def read(entry: Entry, *, max_bytes: int) -> Item:
            del max_bytes  # the page is in memory, and smaller
            body = pushed[entry.key].body
            assert isinstance(body, bytes)
            return _item(entry, pushed[entry.key], body)

        services = self.services
        return Fetcher(
            read=read,
            definition=self.definition,
            collection=self.collection,
            uploads=services.uploads,
            keeps_bytes=True,
            quota=services.intake.quota,
            max_bytes=services.max_bytes,
            limits=PartLimits(),
        )

    async def _describe(self, decided: _Decided) -> list[UUID]:
        """Change titles and metadata; return the rows of the documents, whose points are outdated now."""
        rows = list[UUID]()
        for key, new in decided.described.items():
            try:
                changed = await self.services.documents.describe(
                    self.definition.tenant, new.document_id, title=new.title, metadata=new.metadata
                )
            except NotFound:  # it was deleted meanwhile
                continue
            except InvalidInput as error:
                decided.unchanged.remove(key)
                decided.refuse(key, error.message)
                continue
            rows += changed.rows
        return rows


def _decide(decided: _Decided, entry: PushedEntry, stored: StoredEntry, options: Options) -> None:
    """Decide about an entry with a valid key."""
    key, item, document = entry.key, stored.item, stored.document
    version = _version(entry)
    if version is None:
        decided.refuse(key, _NO_VERSION)
        return
    size = entry.body.size_bytes if isinstance(entry.body, Upload) else len(entry.body or b"")
    listed = Entry(key, version, size, readable_by=options.readers_of(key, entry.readable_by))
    if item is not None and item.is_marked:
        decided.present.append(key)
    if item is not None and document is not None:
        decided.readers |= changed_readers(listed, replace(item, readable_by=document.readable_by))
    if item is None:
        decided.new.add(key)
    if item is not None and item.version == version:
        _keep(decided, entry, stored)
    elif entry.body is None:
        decided.problems[key] = _NO_BODY
        decided.results[key] = EntryResult(key, EntryOutcome.BODY_NEEDED)
    else:
        decided.sent.append((listed, entry))


def _keep(decided: _Decided, entry: PushedEntry, stored: StoredEntry) -> None:
    """Decide about an entry with the version of its item: its title and its metadata may be new."""
    key, document = entry.key, stored.document
    try:
        fields = described(filename=None, media_type=None, title=entry.title, metadata=entry.metadata or {})
    except InvalidInput as error:
        decided.refuse(key, error.message)
        return
    decided.unchanged.append(key)
    is_described = key in decided.readers
    if document is not None:
        title = fields.title if fields.title != document.title else None
        metadata = None if entry.metadata is None or fields.metadata == document.metadata else fields.metadata
        if title is not None or metadata is not None:
            is_described = True
            decided.described[key] = _NewDescription(document.document_id, title, metadata)
    decided.results[key] = EntryResult(key, EntryOutcome.DESCRIBED if is_described else EntryOutcome.UNCHANGED)


def _version(entry: PushedEntry) -> str | None:
    """Return the version of an entry, or the hash of its body; None if it has neither."""
    if entry.version is not None:
        return short_version(entry.version)
    if entry.body is None:
        return None
    digest = entry.body.sha256 if isinstance(entry.body, Upload) else hashlib.sha256(entry.body).digest()
    return f"sha256-{digest.hex()}"


def _item(entry: Entry, pushed: PushedEntry, content: bytes) -> Item:
    return Item(
        content,
        entry.version,
        filename=pushed.filename,
        title=pushed.title,
        media_type=pushed.media_type,
        metadata=pushed.metadata or {},
    )


def _outcome(document: SyncedDocument, submission: Submission) -> EntryOutcome:
    if submission.accepted:
        return EntryOutcome.CREATED if document.is_new else EntryOutcome.CHANGED
    return EntryOutcome.UNCHANGED if submission.described is None else EntryOutcome.DESCRIBED
