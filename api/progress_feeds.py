"""What follows the progress of documents: one feed a tenant, which all who listen for the tenant share."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from api.document_views import view
from api.http.event_stream import event
from api.http.problems import TooManyRequests, problem_of
from shared.domain.errors import Transient
from shared.domain.records import Document, DocumentState
from shared.ledger import states
from shared.ledger.documents import Documents
from shared.settings import Settings

_FRESH_SECONDS = 0.5  # listeners look once a second, each at its own time
_MOST_DOCUMENTS = 200  # of one read
_MOST_EVENTS = 1_000  # kept for whoever looks next
_FULL_RETRY_AFTER = timedelta(seconds=10)


@dataclass(frozen=True, slots=True)
class _Event:
    """An event as it was last told.

    Args:
        number: later events have higher ones.
        piece: the encoded event.
        first: whether who begins to listen is told it too.
    """

    number: int
    piece: bytes
    first: bool


class ProgressFeed:
    """The progress of a tenant's documents, read from the ledger once for all who listen."""

    def __init__(self, tenant: str, documents: Documents, settings: Settings) -> None:
        self.listeners = 0
        self._tenant = tenant
        self._documents = documents
        self._settings = settings
        self._seen_at: datetime | None = None  # by PostgreSQL's clock
        self._read_at = self._whole_at = -_FRESH_SECONDS  # by this process's
        self._counts: dict[str, int] = {}
        self._number = 0
        self._events: dict[UUID | str, _Event] = {}  # the latest of each document and of each kind, in order of number
        self._lock = asyncio.Lock()

    async def news(self, after: int | None) -> tuple[int, bytes]:
        """Read what has changed, unless somebody just did, and return what a listener has not been told.

        Args:
            after: the number that the last call returned; None for a listener that begins: it is told the progress,
                and of the documents those in work.

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
            if after is not None or told.first:
                pieces.append(told.piece)
        return self._number, b"".join(reversed(pieces))

    async def _read(self, since: datetime | None) -> None:
        """Read what has changed since a time; None: all documents in work."""
        try:
            changes = await self._documents.changes(self._tenant, since, limit=_MOST_DOCUMENTS)
            await self._count()
        except Transient as error:
            self._tell("error", event("error", problem_of(error, "/v1/events")), again=True)
            self._seen_at = None
            return
        self._seen_at = changes.at
        if since is None:
            self._whole_at = time.monotonic()
        more = {"more": True} if changes.more else {}
        self._tell("progress", event("progress", {"documents": self._counts} | more))
        self._forget({document.id for document in changes.documents}, whole=since is None)
        for document in reversed(changes.documents):
            self._tell_document(document)

    async def _count(self) -> None:
        counts = await self._documents.counts(self._tenant)
        self._counts = {state.value: n for state, n in counts.items() if state is not DocumentState.DELETING}

    def _tell_document(self, document: Document) -> None:
        piece = event("document", view(document, self._settings))
        self._tell(document.id, piece, first=document.state in states.OPEN_DOCUMENTS)

    def _tell(self, key: UUID | str, piece: bytes, *, first: bool = True, again: bool = False) -> None:
        """Put an event behind all others if it says anything new."""
        told = self._events.get(key)
        if told is None or told.piece != piece or again:
            self._number += 1
            self._events.pop(key, None)
            self._events[key] = _Event(self._number, piece, first)

    def _forget(self, read: set[UUID], *, whole: bool) -> None:
        """Forget what is over, and of the documents in work those that were told longest ago, if there are too many."""
        others = [key for key in self._events if key != "progress" and key not in read]
        kept = [] if whole else [key for key in others if key != "error" and self._events[key].first][-_MOST_EVENTS:]
        for key in set(others) - set(kept):
            del self._events[key]


class ProgressFeeds:
    """The feeds of all tenants for whom somebody listens."""

    def __init__(self, documents: Documents, settings: Settings) -> None:
        self._documents = documents
        self._settings = settings
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
        feed = self._feeds.setdefault(tenant, ProgressFeed(tenant, self._documents, self._settings))
        feed.listeners += 1
        try:
            yield feed
        finally:
            feed.listeners -= 1
            if not feed.listeners:
                del self._feeds[tenant]
