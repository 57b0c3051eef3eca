"""Progress of documents for listeners: one feed per tenant, shared by its listeners."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from api.schemas.documents import DocumentView
from shared.domain.corpus.documents import Document
from shared.domain.errors import Transient
from shared.domain.states import DocumentState
from shared.http.event_stream import event
from shared.http.problems import problem_of
from shared.ledger.documents.documents import Documents
from shared.ledger.model import states
from shared.settings import Settings

_CACHE_SECONDS = 0.5  # each listener polls once a second, at its own time
_MOST_DOCUMENTS = 200  # per read
_MOST_EVENTS = 1_000  # retained for the next poll
# A client that was disconnected for longer starts again, because deletions may be missing.
_RESUMABLE_FOR = timedelta(hours=1)
_RESET = event("reset", {})

ReadStatus = Callable[[str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Event:
    """An event as last sent.

    Args:
        number: later events have higher numbers.
        piece: the encoded event.
        is_open: whether its document is in progress, so that it is retained without changes.
        collection: collection of the document; None for an event about all collections.
    """

    number: int
    piece: bytes
    is_open: bool
    collection: str | None = None

    def is_of(self, collection: str | None) -> bool:
        return None in (collection, self.collection) or collection == self.collection


class ProgressFeed:
    """The progress of a tenant's documents, read from the ledger once for all listeners.

    The last event of a batch has an id: the ledger's time when the batch was read. It is valid in every process, so
    that a disconnected client can resume anywhere.

    Args:
        read_status: returns the tenant's open work, which is sent as `status` while there is any; None: it is not sent.
        now: clock in monotonic seconds.
    """

    def __init__(
        self,
        tenant: str,
        documents: Documents,
        settings: Settings,
        read_status: ReadStatus | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.listeners = 0
        self._read_status = read_status
        self._is_working = False
        self._tenant = tenant
        self._documents = documents
        self._settings = settings
        self._now = now
        self._seen_at: datetime | None = None  # by PostgreSQL's clock
        self._read_at = self._whole_at = -math.inf  # by this process's
        self._counts: dict[str, int] = {}
        self._number = 0
        self._events: dict[UUID | str, _Event] = {}  # the latest of each document and of each kind, in order of number
        self._lock = asyncio.Lock()

    async def news(self, after: int | None, collection: str | None = None) -> tuple[int, bytes]:
        """Read changes, unless another listener just did, and return the events that a listener has not received.

        Args:
            after: number returned by the last call; None for a new listener. It receives the progress, the documents in
                progress and all documents changed in the last seconds: its lists may be older.
            collection: collection of the events; None for all.

        Returns:
            The number for the next call, and the encoded events; empty if there are none.
        """
        async with self._lock:
            is_new = after is None and self._now() - self._whole_at >= _CACHE_SECONDS
            if is_new or self._now() - self._read_at >= _CACHE_SECONDS:
                await self._read(None if is_new else self._seen_at)
                self._read_at = self._now()
        pieces = []
        for sent in reversed(self._events.values()):
            if after is not None and sent.number <= after:
                break
            if sent.is_of(collection):
                pieces.append(sent.piece)
        return self._number, _with_id(pieces[::-1], self._seen_at)

    async def resumed(self, last_id: str, collection: str | None = None) -> tuple[int, bytes]:
        """Return the changes since an event id, as `news` does; if the id is too old, start again.

        In that case the first event is `reset`: changes and deletions may be missing.
        """
        number, pieces = await self.news(None, collection)
        since = _time_of(last_id)
        if since is None or self._seen_at is None or self._seen_at - since > _RESUMABLE_FOR:
            return number, _RESET + pieces
        try:
            changes = await self._documents.changes(self._tenant, since, limit=_MOST_DOCUMENTS)
        except Transient:
            return number, _RESET + pieces
        if changes.more:
            return number, _RESET + pieces
        changed = [d for d in reversed(changes.documents) if collection in (None, d.collection)]
        kinds = [self._events[kind].piece for kind in ("progress", "status") if kind in self._events]
        documents = [event("document", DocumentView.of(document, self._settings)) for document in changed]
        return number, _with_id([*documents, *kinds], self._seen_at)

    async def _read(self, since: datetime | None) -> None:
        """Read changes since a time; None for all documents in progress."""
        try:
            changes = await self._documents.changes(self._tenant, since, limit=_MOST_DOCUMENTS)
            await self._count()
            work = await self._work()
        except Transient as error:
            self._add("error", event("error", problem_of(error, "/v1/events")), again=True)
            return  # these changes are read when the ledger is available again
        self._seen_at = changes.at
        if since is None:
            self._whole_at = self._now()
        more = {"more": True} if changes.more else {}
        self._add("progress", event("progress", {"documents": self._counts} | more))
        self._forget({document.id for document in changes.documents}, whole=since is None)
        for document in reversed(changes.documents):
            self._add_document(document)
        if work is not None:
            self._add("status", event("status", work))

    async def _work(self) -> Any:
        """Read the open work, and again after it has finished; return None if nothing changed."""
        was_working, self._is_working = (
            self._is_working,
            any(n for s, n in self._counts.items() if s not in states.FINAL_DOCUMENTS),
        )
        return (
            await self._read_status(self._tenant) if self._read_status and (self._is_working or was_working) else None
        )

    async def _count(self) -> None:
        counts = await self._documents.counts(self._tenant)
        self._counts = {state.value: n for state, n in counts.items() if state is not DocumentState.DELETING}

    def _add_document(self, document: Document) -> None:
        piece = event("document", DocumentView.of(document, self._settings))
        is_open = document.state in states.PROGRESSING_DOCUMENTS
        self._add(document.id, piece, is_open=is_open, collection=document.collection)

    def _add(
        self,
        key: UUID | str,
        piece: bytes,
        *,
        is_open: bool = True,
        again: bool = False,
        collection: str | None = None,
    ) -> None:
        """Append an event if it differs from the previous one of this key."""
        previous = self._events.get(key)
        if previous is None or previous.piece != piece or again:
            self._number += 1
            self._events.pop(key, None)
            self._events[key] = _Event(self._number, piece, is_open, collection)

    def _forget(self, read: set[UUID], *, whole: bool) -> None:
        """Forget finished documents, and the least recently sent documents in progress if there are too many."""
        others = [key for key in self._events if key not in {"progress", "status", *read}]
        retained = (
            [] if whole else [key for key in others if key != "error" and self._events[key].is_open][-_MOST_EVENTS:]
        )
        for key in set(others) - set(retained):
            del self._events[key]


class ProgressFeeds:
    """The feeds of all tenants with listeners; for the arguments see `ProgressFeed`."""

    def __init__(
        self,
        documents: Documents,
        settings: Settings,
        read_status: ReadStatus | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._documents = documents
        self._settings = settings
        self._read_status = read_status
        self._now = now
        self._feeds: dict[str, ProgressFeed] = {}

    @contextmanager
    def joined(self, tenant: str) -> Iterator[ProgressFeed]:
        """Listen to a tenant's feed within the block; the last listener closes it."""
        new = ProgressFeed(tenant, self._documents, self._settings, self._read_status, self._now)
        feed = self._feeds.setdefault(tenant, new)
        feed.listeners += 1
        try:
            yield feed
        finally:
            feed.listeners -= 1
            if not feed.listeners:
                del self._feeds[tenant]


def _with_id(pieces: Sequence[bytes], read_at: datetime | None) -> bytes:
    """Join events; only the last event has the id.

    A client that disconnects within a batch therefore receives the entire batch again.
    """
    if not pieces or read_at is None:
        return b"".join(pieces)
    return b"".join([*pieces[:-1], b"id: ", read_at.isoformat().encode(), b"\n", pieces[-1]])


def _time_of(last_id: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(last_id)
    except ValueError:
        return None
    return at if at.tzinfo and 2000 <= at.year <= 3000 else None  # noqa: PLR2004  PostgreSQL refuses years far from these
