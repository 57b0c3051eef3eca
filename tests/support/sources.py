"""A source in memory whose listings can fail, be short, be late or lack everything."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta

from features.sources.domain import NewSource, SourceDefinition, SyncState
from features.sources.ledger.sources import Sources
from features.sources.ledger.syncs import Syncs
from features.sources.services import syncing_of
from features.sources.source import Entry, Item, Source
from features.sources.syncing.merge import PartLimits
from features.sources.syncing.quota import UploadLimits
from features.sources.syncing.work import Syncing, SyncLimits
from shared.domain.errors import ForeaskError, NotFound, Unavailable
from shared.domain.jobs import JobKind, JobState
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.job_claims import JobClaims
from shared.ledger.model.collections import Collections
from shared.maintenance.jobs.runner import Runner
from shared.services.all import AllServices
from tests.support.waiting import eventually

# Small pages and parts, so that few entries reach each boundary.
LIMITS = SyncLimits(
    max_bytes=10_000, timeout=timedelta(seconds=0.5), pause=timedelta(seconds=0.05), page=4, part=PartLimits(fetched=3)
)


_TIMES = {"syncs": ("started_at", "listed_at", "ended_at"), "source_items": ("created_at", "missing_from")}


@dataclass
class Corpus:
    """Texts by their keys, and the faults of its listings.

    Args:
        texts: content by key.
        refused: reasons by key of entries that cannot be read.
        fails_after: number of entries after which a listing fails; None: it does not.
        is_reversed: whether a listing has the wrong order.
        ends_after: number of entries after which a listing ends as if it were complete; None: it does not.
        failing: keys whose fetch fails, by the error.
        at: called before the entry with a key is listed or found.
    """

    texts: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)
    fails_after: int | None = None
    ends_after: int | None = None
    is_reversed: bool = False
    failing: dict[str, ForeaskError] = field(default_factory=dict)
    at: dict[str, Callable[[], Awaitable[None]]] = field(default_factory=dict)
    listed: list[str] = field(default_factory=list)
    fetched: list[str] = field(default_factory=list)
    closed: int = 0

    def put(self, *keys: str, text: str = "The harbour of {key} opens at six.") -> None:
        for key in keys:
            self.texts[key] = text.format(key=key)

    def remove(self, *keys: str) -> None:
        for key in keys:
            del self.texts[key]

    def restore(self) -> None:
        """Remove all faults."""
        self.fails_after = self.ends_after = None
        self.is_reversed = False
        self.failing.clear()
        self.at.clear()

    def version(self, key: str) -> str:
        return self.versions.get(key) or hashlib.sha256(self.texts[key].encode()).hexdigest()

    def open(self, _: SourceDefinition) -> ScriptedSource:
        return ScriptedSource(self)


class ScriptedSource(Source):
    def __init__(self, corpus: Corpus) -> None:
        self._corpus = corpus

    async def entries(self, after: str = "") -> AsyncGenerator[Entry, None]:
        corpus, number = self._corpus, 0
        snapshot = dict(corpus.texts)
        for key in sorted(snapshot, reverse=corpus.is_reversed):
            if key <= after:
                continue
            if (action := corpus.at.get(key)) is not None:
                await action()
            if number == corpus.fails_after:
                raise Unavailable("the corpus does not answer", component="source")
            if number == corpus.ends_after:
                return
            number += 1
            corpus.listed.append(key)
            version = corpus.versions.get(key) or hashlib.sha256(snapshot[key].encode()).hexdigest()
            yield Entry(key, version, len(snapshot[key].encode()), corpus.refused.get(key))
        if corpus.fails_after is not None and number <= corpus.fails_after:
            raise Unavailable("the corpus does not answer", component="source")

    async def fetch(self, entry: Entry, *, max_bytes: int) -> Item:
        del max_bytes
        corpus = self._corpus
        corpus.fetched.append(entry.key)
        if entry.key in corpus.failing:
            raise corpus.failing[entry.key]
        if entry.key not in corpus.texts:
            raise NotFound(f"There is no {entry.key}.")
        return Item(corpus.texts[entry.key].encode(), corpus.version(entry.key), media_type="text/plain")

    async def find(self, key: str) -> Entry | None:
        if (action := self._corpus.at.get(key)) is not None:
            await action()
        return Entry(key, self._corpus.version(key)) if key in self._corpus.texts else None

    async def aclose(self) -> None:
        self._corpus.closed += 1


async def make_older(services: AllServices, hours: int = 2) -> None:
    """Move all listings, items and marks of missing items into the past."""
    shift = f"interval '{hours} hours'"
    async with services.database.begin() as connection:
        for table, columns in _TIMES.items():
            moved = ", ".join(f"{column} = {column} - {shift}" for column in columns)
            await connection.execute_sql(f"UPDATE {table} SET {moved}")


@dataclass
class SyncedCorpus:
    """A corpus, its source, and the ledger's view of it."""

    services: AllServices
    corpus: Corpus
    name: str = "docs"
    collection: str = "default"
    tenant: str = "default"
    limits: SyncLimits = LIMITS
    most_open: int = 200_000
    upload_limits: UploadLimits = UploadLimits()

    async def add(self, **options: object) -> SourceDefinition:
        ledger, model = self.services.ledger, self.services.settings.embedding_model
        assert model is not None
        collection = await ledger[Collections].ensure(self.tenant, self.collection, embedding_model=model)
        new = NewSource(self.name, "scripted", "memory:", **options)  # type: ignore[arg-type]
        return await ledger[Sources].add(collection, new)

    async def sync(self) -> SyncState:
        """Start a sync, and work on it to its end."""
        return await self.work(await self.services.ledger[Syncs].start(self.tenant, self.name))

    async def due(self) -> bool:
        """Return whether a sync may be claimed."""
        return JobKind.SYNC in await self.services.ledger[JobClaims].due()

    async def work(self, sync: SyncState) -> SyncState:
        """Do the run of a sync."""
        async with self.running() as runner:
            await eventually(lambda: runner.claimed == 0, poll_seconds=0.002)
        return await self.services.ledger[Syncs].get(self.tenant, sync.id)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Runner]:
        """Yield a runner that has claimed the queued syncs; it is stopped afterwards, as with its process."""
        runner = Runner(self.services.ledger[JobClaims], {JobKind.SYNC: self.syncing})
        try:
            await runner.take()
            yield runner
        finally:
            await runner.aclose()

    def syncing(self) -> Syncing:
        syncing = syncing_of(self.services.parts, self.corpus.open)
        quota = replace(syncing.intake.quota, limits_of=lambda _: self.upload_limits)
        intake = replace(syncing.intake, quota=quota, most_open=self.most_open, least_free=0.0)
        return replace(syncing, limits=self.limits, intake=intake)

    async def require_waiting(self, sync: SyncState, reason: str) -> None:
        """Check that a sync waits in the queue, and says why."""
        found = await self.services.ledger[Syncs].get(self.tenant, sync.id)
        assert found.state == JobState.QUEUED
        assert found.waiting is not None
        assert found.waiting.startswith(reason)

    async def documents(self) -> set[str]:
        """Return the keys of the source's documents."""
        page = await self.services.ledger[Documents].page(self.tenant, limit=10_000)
        prefix = f"{self.name}/"
        return {each.external_id.removeprefix(prefix) for each in page if each.external_id.startswith(prefix)}
