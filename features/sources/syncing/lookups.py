"""Lookups: entries of a source that hints name are brought up to date, without a listing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from features.sources.domain import SourceDefinition
from features.sources.ledger.hints import Hints, StoredHint
from features.sources.opening import options_of
from features.sources.source import Entry
from features.sources.syncing.fetching import Fetched
from features.sources.syncing.merge import changed_readers, refusal
from features.sources.syncing.watched_source import WatchedSource
from features.sources.syncing.work import Syncing
from shared.domain.jobs import JobClaim, JobKind
from shared.maintenance.jobs.progress import JobTurn, watched
from shared.maintenance.jobs.retries import retried, retried_for
from shared.maintenance.jobs.runner import JobWork

Find = Callable[[str], Awaitable[Entry | None]]

_PART_SECONDS = 10.0  # the hints of a slow source are saved this often


@dataclass(slots=True)
class _LookupResult:
    """The result of looking up some hints: entries to fetch, new readers of others, and items that exist again."""

    hints: list[StoredHint] = field(default_factory=list)
    fetched: list[Entry] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    present: list[str] = field(default_factory=list)
    readers: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def add(self, hint: StoredHint, entry: Entry | None) -> None:
        self.hints.append(hint)
        if entry is None:
            return
        if hint.item is not None and hint.item.is_marked:
            self.present.append(hint.key)
        self.readers.update(changed_readers(entry, hint.item))
        if refusal(entry) is not None or (hint.item is not None and hint.item.version == entry.version):
            return
        self.fetched.append(entry)
        if hint.item is None:
            self.new.add(entry.key)


@dataclass(frozen=True, slots=True)
class Lookups(JobWork):
    """Looks up the hints of claimed jobs.

    Args:
        hints: hints of all sources.
        syncing: work on syncs, with the same services and limits.
    """

    hints: Hints
    syncing: Syncing

    async def work(self, claim: JobClaim) -> None:
        """Look up the hints of a source until none is left. The claim is released while the intake is closed.

        Raises:
            NotFound: the collection was deleted.
            LeaseLost: the source is being removed, the job gave way, or another worker has claimed it.
            Permanent: it made no progress for too long.
            Transient: the source, the ledger or the store failed for too long.
            Rejected, Misconfigured: the source cannot be opened any more.
        """
        services = self.syncing
        definition = await retried(self.hints.source_of)(claim)
        collection = await retried(services.collections.get)(claim.tenant, claim.collection)
        async with (
            services.opened(JobKind.LOOKUP, definition) as source,
            watched(services.limits.stalled) as progressed,
        ):
            watched_source = WatchedSource(source, progressed, options_of(definition.kind, definition.options))
            fetcher = services.fetcher_of(definition, collection, watched_source)
            find = retried_for(services.limits.timeout)(watched_source.find)
            turn = JobTurn(services.claims, claim, services.limits.turn)

            async def look(hints: Sequence[StoredHint]) -> tuple[_LookupResult, Fetched]:
                looked = await _look(hints, find)
                watched_source.expect(looked.fetched)
                return looked, await fetcher.fetch(looked.fetched, looked.new)

            some = services.limits.part.fetched
            while hints := await retried(self.hints.next)(definition, some, with_readers=watched_source.names_readers):
                if reason := await retried(services.intake.closed)(claim.tenant):
                    await retried(services.claims.release)(claim, reason, pause=services.limits.pause)
                    return
                looked, fetched = await turn.during(
                    look(hints), waiting_seconds=lambda: watched_source.waiting_seconds, is_resumable=False
                )
                await self._save(claim, definition, looked, fetched)
                progressed()
                await turn.offer()
        await retried(self.hints.finish)(claim)

    async def _save(
        self, claim: JobClaim, definition: SourceDefinition, looked: _LookupResult, fetched: Fetched
    ) -> None:
        read = {document.key for document in fetched.documents}  # these get their readers with their content
        submissions = await retried(self.hints.save)(
            claim,
            definition,
            looked.hints,
            documents=fetched.documents,
            present=looked.present,
            readers={key: readers for key, readers in looked.readers.items() if key not in read},
        )
        if any(submission.accepted for submission in submissions):
            self.syncing.wake_parsers()


async def _look(hints: Sequence[StoredHint], find: Find) -> _LookupResult:
    """Look up the first hint, and the following ones until some seconds have passed."""
    looked, until = _LookupResult(), asyncio.get_running_loop().time() + _PART_SECONDS
    for hint in hints:
        timeout = asyncio.timeout_at(until if looked.hints else None)
        try:
            async with timeout:
                looked.add(hint, await find(hint.key))
        except TimeoutError:
            if not timeout.expired():
                raise
            break
    return looked
