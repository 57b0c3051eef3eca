"""What follows the progress of documents: one feed a tenant, which all who listen for the tenant share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from api.http.event_stream import event
from api.http.problems import TooManyRequests, problem_of
from api.schemas.document_views import view
from shared.domain.documents import Document
from shared.domain.errors import Transient
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.model import states
from shared.settings import Settings

_FRESH_SECONDS = 0.5  # listeners look once a second, each at its own time
_MOST_DOCUMENTS = 200  # of one read
_MOST_EVENTS = 1_000  # kept for whoever looks next
_RESUMABLE_FOR = timedelta(hours=1)  # who was away for longer begins anew: documents may be gone that nobody tells
_FULL_RETRY_AFTER = timedelta(seconds=10)


_RESET = event("reset", {})

Look = Callable[[str], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class _Event:
    """An event as it was last told.

    Args:
        number: later events have higher ones.
        piece: the encoded event.
        first: whether who begins to listen is told it too.
        collection: of the document; None: the event is of all.
    """

    number: int
    piece: bytes
    first: bool
    collection: str | None = None

    def is_of(self, collection: str | None) -> bool:
        return None in (collection, self.collection) or collection == self.collection


class ProgressFeed:
    """The progress of a tenant's documents, read from the ledger once for all who listen.

    The last of the events that are told together has an id: the ledger's time when they were read. It means the same in
    every process, so that who was cut off goes on anywhere.

    Args:
        look: returns the tenant's open work, told as `status` while there is any; None: nobody tells it.
    """

    def __init__(self, tenant: str, documents: Documents, settings: Settings, look: Look | None = None) -> None:
        self.listeners = 0
        self._look = look
        self._works = False
        self._tenant = tenant
        self._documents = documents
        self._settings = settings
        self._seen_at: datetime | None = None  # by PostgreSQL's clock
        self._read_at = self._whole_at = -_FRESH_SECONDS  # by this process's
        self._counts: dict[str, int] = {}
        self._number = 0
        self._events: dict[UUID | str, _Event] = {}  # the latest of each document and of each kind, in order of number
        self._lock = asyncio.Lock()

    async def news(self, after: int | None, collection: str | None = None) -> tuple[int, bytes]:
        """Read what has changed, unless somebody just did, and return what a listener has not been told.

        Args:
            after: the number that the last call returned; None for a listener that begins: it is told the progress,
                and of the documents those in work.
            collection: whose documents are told; None: those of all.

        Returns:
            The number to ask with the next time, and the events, encoded; empty where there are none.
        """
        async with self._lock:
            begins = after is None and time.monotonic() - self._whole_at >= _FRESH_SECONDS
            if begins or time.monotonic() - self._read_at >= _FRESH_SECONDS:
                await self._read(None if begins else self._seen_at)
                self._read_at = time.monotonic()
        pieces = []
        for told in reversed(self._events.values()):
            if after is not None and told.number <= after:
                break
            if (after is not None or told.first) and told.is_of(collection):
                pieces.append(told.piece)
        return self._number, _with_id(pieces[::-1], self._seen_at)

    async def resumed(self, last_id: str, collection: str | None = None) -> tuple[int, bytes]:
        """Return what has changed since an event of this id, as `news` does; where that is not known, all from anew.

        Then the first event is `reset`: documents may have changed, and gone, of which nobody is told.
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
        told = [d for d in reversed(changes.documents) if collection in (None, d.collection)]
        kinds = [self._events[kind].piece for kind in ("progress", "status") if kind in self._events]
        documents = [event("document", view(document, self._settings)) for document in told]
        return number, _with_id([*documents, *kinds], self._seen_at)

    async def _read(self, since: datetime | None) -> None:
        """Read what has changed since a time; None: all documents in work."""
        try:
            changes = await self._documents.changes(self._tenant, since, limit=_MOST_DOCUMENTS)
            await self._count()
            work = await self._work()
        except Transient as error:
            self._tell("error", event("error", problem_of(error, "/v1/events")), again=True)
            return  # what changes until the ledger is back is read then
        self._seen_at = changes.at
        if since is None:
            self._whole_at = time.monotonic()
        more = {"more": True} if changes.more else {}
        self._tell("progress", event("progress", {"documents": self._counts} | more))
        self._forget({document.id for document in changes.documents}, whole=since is None)
        for document in reversed(changes.documents):
            self._tell_document(document)
        if work is not None:
            self._tell("status", event("status", work))

    async def _work(self) -> Any:
        """Look at the open work, and once more when it has ended; return None where there is nothing new to tell."""
        worked, self._works = self._works, any(n for s, n in self._counts.items() if s not in states.FINAL_DOCUMENTS)
        return await self._look(self._tenant) if self._look and (self._works or worked) else None

    async def _count(self) -> None:
        counts = await self._documents.counts(self._tenant)
        self._counts = {state.value: n for state, n in counts.items() if state is not DocumentState.DELETING}

    def _tell_document(self, document: Document) -> None:
        piece = event("document", view(document, self._settings))
        self._tell(document.id, piece, first=document.state in states.OPEN_DOCUMENTS, collection=document.collection)

    def _tell(
        self,
        key: UUID | str,
        piece: bytes,
        *,
        first: bool = True,
        again: bool = False,
        collection: str | None = None,
    ) -> None:
        """Put an event behind all others if it says anything new."""
        told = self._events.get(key)
        if told is None or told.piece != piece or again:
            self._number += 1
            self._events.pop(key, None)
            self._events[key] = _Event(self._number, piece, first, collection)

    def _forget(self, read: set[UUID], *, whole: bool) -> None:
        """Forget what is over, and of the documents in work those that were told longest ago, if there are too many."""
        others = [key for key in self._events if key not in {"progress", "status", *read}]
        kept = [] if whole else [key for key in others if key != "error" and self._events[key].first][-_MOST_EVENTS:]
        for key in set(others) - set(kept):
            del self._events[key]


class ProgressFeeds:
    """The feeds of all tenants for whom somebody listens."""

    def __init__(self, documents: Documents, settings: Settings, look: Look | None = None) -> None:
        self._documents = documents
        self._settings = settings
        self._look = look
        self._feeds: dict[str, ProgressFeed] = {}

    def require_room(self, tenant: str) -> None:
        """Return where one more may listen to a tenant's feed.

        Raises:
            TooManyRequests: too many listen already.
        """
        most = self._settings.limits_of(tenant).listeners
        if most is not None and tenant in self._feeds and self._feeds[tenant].listeners >= most:
            raise TooManyRequests(
                f"{most:,} clients listen to /v1/events already: close some.", retry_after=_FULL_RETRY_AFTER
            )

    @contextmanager
    def joined(self, tenant: str) -> Iterator[ProgressFeed]:
        """Listen to a tenant's feed within the block; the last one who leaves ends it."""
        feed = self._feeds.setdefault(tenant, ProgressFeed(tenant, self._documents, self._settings, self._look))
        feed.listeners += 1
        try:
            yield feed
        finally:
            feed.listeners -= 1
            if not feed.listeners:
                del self._feeds[tenant]


def _with_id(pieces: Sequence[bytes], read_at: datetime | None) -> bytes:
    """Join events; the last one has the id, so that who is cut off between them is told all of them again."""
    if not pieces or read_at is None:
        return b"".join(pieces)
    return b"".join([*pieces[:-1], b"id: ", read_at.isoformat().encode(), b"\n", pieces[-1]])


def _time_of(last_id: str) -> datetime | None:
    try:
        at = datetime.fromisoformat(last_id)
    except ValueError:
        return None
    return at if at.tzinfo else None
