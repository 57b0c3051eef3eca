"""The work on a sync. It is saved after each part of the listing, and continues there after the loss of its worker."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta

from features.sources.domain import PUSH, SourceDefinition
from features.sources.ledger.listings import ClaimedSync, JobPaused, Listings, StoredItem, SyncedPart
from features.sources.ledger.pushes import Pushes
from features.sources.opening import keeps_bytes, options_of
from features.sources.push.ending import end_pushed
from features.sources.source import Entry, Source
from features.sources.syncing.fetching import Fetcher
from features.sources.syncing.intake import Intake
from features.sources.syncing.merge import ListedPage, PagePart, PartLimits, merged, require_ascending
from features.sources.syncing.parked_sources import ParkedSources
from features.sources.syncing.watched_source import WatchedSource, close, room
from shared.domain.corpus.collections import Collection
from shared.domain.corpus.document_fields import is_text
from shared.domain.jobs import JobClaim
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model.collections import Collections
from shared.maintenance.jobs.progress import STALLED, TURN, JobTurn, JobYielded, watched
from shared.maintenance.jobs.retries import retried, retried_for, retried_while
from shared.maintenance.jobs.runner import JobWork
from shared.storage.uploads import Uploads

OpenSource = Callable[[SourceDefinition], Source]
"""Opens a source; raises Misconfigured if its address, its options or its secret are wrong."""

_PAGE_SECONDS = 10.0  # a slow listing, such as a crawl's, is saved this often


@dataclass(frozen=True, slots=True)
class SyncLimits:
    """Limits of the work on syncs.

    Args:
        page: entries of one page, and items of one query.
        part: limits of the entries that are fetched and saved together.
        max_bytes: maximum size of a document.
        timeout: time without progress after which a failing source fails the sync.
        pause: time until a sync with a closed intake is claimed again.
        stalled: time without progress after which a hanging source fails the sync.
        turn: time after which a sync gives way to a waiting one.
    """

    max_bytes: int
    timeout: timedelta
    pause: timedelta
    stalled: timedelta = STALLED
    turn: timedelta = TURN
    page: int = 1_000
    part: PartLimits = field(default_factory=PartLimits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Syncing(JobWork):
    """Syncs the sources of claimed jobs.

    Args:
        open_source: opens a source; the sync closes it.
        wake_parsers: wakes the workers that parse submitted documents.
        parked: sources of jobs that gave way.
    """

    listings: Listings
    pushes: Pushes
    collections: Collections
    claims: JobClaims
    uploads: Uploads
    intake: Intake
    open_source: OpenSource
    wake_parsers: Callable[[], None]
    limits: SyncLimits
    parked: ParkedSources = field(default_factory=ParkedSources)

    async def work(self, claim: JobClaim) -> None:
        """List the source from the saved position on, then delete the documents that may be deleted.

        Nothing is deleted unless the listing is complete. The claim is released while the job is paused, while the
        intake is closed, and if other syncs wait when the turn is over or this one only waits for a server.

        Raises:
            NotFound: the collection was deleted.
            LeaseLost: the sync was cancelled, or another worker has claimed it.
            Transient: the source, the ledger or the store failed, and nothing was saved, for too long.
            Permanent: the listing is not in order, it made no progress for too long, or its program did not end it.
        """
        sync = await retried(self.listings.start)(claim)
        try:
            if not sync.is_listed:
                if sync.source.kind == PUSH:
                    await end_pushed(self.pushes, self.listings, claim, sync)
                else:
                    await self._list(claim, sync)
                await retried(self.listings.end_listing)(claim, sync.source)
            while await retried(self.pushes.forget_some)(claim, sync.source):
                pass
            while await retried(self.listings.delete_some)(claim, sync.source):
                pass
            await retried(self.listings.finish)(claim)
        except JobPaused:
            await retried(self.claims.release)(claim)
        except _IntakeClosed as closed:
            await retried(self.claims.release)(claim, closed.reason, pause=self.limits.pause)

    async def aclose(self) -> None:
        """Close the parked sources."""
        await self.parked.aclose()

    async def _list(self, claim: JobClaim, sync: ClaimedSync) -> None:
        collection = await retried(self.collections.get)(claim.tenant, claim.collection)
        async with self.opened(sync.listing, sync.source) as source:
            source.name_listing(sync.listing)
            async with watched(self.limits.stalled) as progressed:
                options = options_of(sync.source.kind, sync.source.options)
                watched_source = WatchedSource(source, progressed, options)
                fetcher = self.fetcher_of(sync.source, collection, watched_source)
                turn = JobTurn(self.claims, claim, self.limits.turn)
                listing = _Listing(self, claim, sync, watched_source, fetcher=fetcher, turn=turn)
                await retried_while(lambda: listing.idle_seconds, self.limits.timeout, turn.sleep)(listing.read)

    @asynccontextmanager
    async def opened(self, job: str, definition: SourceDefinition) -> AsyncIterator[Source]:
        """Yield an opened source. It stays open for a while if its job gives way, and is the same in the next turn."""
        name = job, definition.id, definition.uri, str(definition.options)
        with room():
            source = self.parked.resume(name) or self.open_source(definition)
        try:
            yield source
        except JobYielded:
            await self.parked.park(name, source)
            raise
        except BaseException:
            await close(source)
            raise
        await close(source)

    def fetcher_of(self, definition: SourceDefinition, collection: Collection, source: Source) -> Fetcher:
        """Return a fetcher of an opened source, which retries while the source is unavailable."""
        return Fetcher(
            read=retried_for(self.limits.timeout)(source.fetch),
            definition=definition,
            collection=collection,
            uploads=self.uploads,
            keeps_bytes=keeps_bytes(definition.kind, definition.options),
            quota=self.intake.quota,
            max_bytes=self.limits.max_bytes,
            limits=self.limits.part,
        )


class _IntakeClosed(Exception):
    """The sync waits, because its tenant has much open work, or the disk is nearly full."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class _Listing:
    """The listing of one claimed sync."""

    def __init__(
        self,
        services: Syncing,
        claim: JobClaim,
        sync: ClaimedSync,
        source: WatchedSource,
        *,
        fetcher: Fetcher,
        turn: JobTurn,
    ) -> None:
        self._services = services
        self._turn = turn
        self._claim = claim
        self._definition = sync.source
        self._source = source
        self._fetcher = fetcher
        self._after = sync.after
        self._saved_at = time.monotonic()
        self._has_saved = False

    @property
    def idle_seconds(self) -> float:
        """The time since a part was saved, in seconds."""
        return time.monotonic() - self._saved_at

    def _waiting_seconds(self) -> float:
        return self._source.waiting_seconds

    async def read(self) -> None:
        """Read and save the listing from the saved position to its end."""
        async with aclosing(_Entries(self._source.entries(self._after), self._after)) as entries:
            is_last = False
            while not is_last:
                items = await self._items()
                page = await self._turn.during(
                    entries.page(self._services.limits.page, self._last_key_of(items)),
                    waiting_seconds=self._waiting_seconds,
                    is_resumable=self._source.is_resumable,
                )
                parts = list(merged(page, items, self._after, self._services.limits.part))
                self._source.expect([entry for part in parts for entry in part.fetched])
                for part in parts:
                    await self._save(part)
                is_last = page.end is None

    async def _items(self) -> list[StoredItem]:
        # They are read before their page, so that an item that is made meanwhile is not compared with it.
        limit, reads = self._services.limits.page, self._source.names_readers
        return await self._services.listings.items(self._definition, after=self._after, limit=limit, with_readers=reads)

    def _last_key_of(self, items: list[StoredItem]) -> str | None:
        """Return the last key up to which these items are complete; None if they are the last ones."""
        return items[-1].key if len(items) == self._services.limits.page else None

    async def _save(self, part: PagePart) -> None:
        """Fetch and save a part; give way before it, if a part was saved in this turn.

        After the last part the listing ends without an offer: otherwise two jobs could give way to each other for ever.

        Raises:
            JobPaused: the part is saved, and the job is paused.
            JobYielded: the part is not saved, and another sync has the worker.
            _IntakeClosed: the part is not saved.
        """
        if self._has_saved:
            await self._turn.offer()
        if part.fetched and (reason := await self._services.intake.closed(self._claim.tenant)):
            raise _IntakeClosed(reason)
        fetched = await self._turn.during(
            self._fetcher.fetch(part.fetched, part.new), waiting_seconds=self._waiting_seconds, is_resumable=False
        )
        done = SyncedPart(
            after=part.after,
            seen=part.seen,
            unchanged=part.unchanged,
            documents=fetched.documents,
            present=part.present,
            missing=part.missing,
            refused=[*part.refused, *fetched.refused],
            readers=part.readers_without(document.key for document in fetched.documents),
        )
        saved = await self._services.listings.save(self._claim, self._definition, done)
        self._after, self._saved_at, self._has_saved = part.after, time.monotonic(), True
        if any(submission.accepted for submission in saved.submissions):
            self._services.wake_parsers()
        self._source.progressed()
        if saved.is_paused:
            raise JobPaused


class _Entries:
    """The entries of a listing by pages."""

    def __init__(self, entries: AsyncGenerator[Entry, None], after: str) -> None:
        self._entries = entries
        self._newest = after  # last key that was read
        self._next: Entry | None = None  # read, and not returned yet
        self._is_ended = False

    async def page(self, most: int, until: str | None) -> ListedPage:
        """Return the next entries: at most `most`, up to the key `until`, and not many if they arrive slowly.

        Raises:
            Permanent: the entries are not in order.
        """
        entries = list[Entry]()
        deadline = time.monotonic() + _PAGE_SECONDS
        while (entry := await self._peek()) is not None and (until is None or entry.key <= until):
            end = _last_key(entries)
            if end is not None and (len(entries) >= most or time.monotonic() > deadline):
                return ListedPage(entries, end)
            entries.append(entry)
            self._next = None
        return ListedPage(entries, until)

    async def _peek(self) -> Entry | None:
        """Return the next entry, which the next page will contain; None at the end."""
        if self._next is None and not self._is_ended:
            self._next = await anext(self._entries, None)
            self._is_ended = self._next is None
            if self._next is not None:
                require_ascending(self._newest, self._next)
                self._newest = self._next.key if is_text(self._next.key) else self._newest
        return self._next

    async def aclose(self) -> None:
        await self._entries.aclose()


def _last_key(entries: list[Entry]) -> str | None:
    """Return the last key that can be stored as a position; None if there is none."""
    return next((entry.key for entry in reversed(entries) if is_text(entry.key)), None)
