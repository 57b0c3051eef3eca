"""Looking up: entries of a source that hints name are brought up to date, without a listing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from shared.domain.runs import RunClaim
from shared.domain.sources import SourceDefinition
from shared.ledger.sources.hints import Hints, StoredHint
from shared.maintenance.runs.progress import RunTurn, watched
from shared.maintenance.runs.retries import retried, retried_for
from shared.maintenance.syncing.fetching import Fetcher
from shared.maintenance.syncing.merge import refusal
from shared.maintenance.syncing.watched_source import WatchedSource, close
from shared.maintenance.syncing.work import Syncing
from shared.sources.source import Entry

Find = Callable[[str], Awaitable[Entry | None]]


@dataclass(slots=True)
class _Looked:
    """The result of looking up some hints: entries to fetch, and items that exist although a listing lacked them."""

    fetched: list[Entry] = field(default_factory=list)
    new: set[str] = field(default_factory=set)
    present: list[str] = field(default_factory=list)

    def add(self, hint: StoredHint, entry: Entry) -> None:
        if hint.item is not None and hint.item.is_marked:
            self.present.append(hint.key)
        if refusal(entry) is not None or (hint.item is not None and hint.item.version == entry.version):
            return
        self.fetched.append(entry)
        if hint.item is None:
            self.new.add(entry.key)


@dataclass(frozen=True, slots=True)
class Looking:
    """Looks up the hints of claimed runs.

    Args:
        hints: hints of all sources.
        syncing: work on syncs, with the same services and limits.
    """

    hints: Hints
    syncing: Syncing

    async def work(self, claim: RunClaim) -> None:
        """Look up the hints of a source until none is left. The claim is released while the intake is closed.

        Raises:
            NotFound: the collection was deleted.
            LeaseLost: the source is being removed, the run gave way, or another worker has claimed it.
            Permanent: it made no progress for too long.
            Transient: the source, the ledger or the store failed for too long.
            Rejected, Misconfigured: the source cannot be opened any more.
        """
        services = self.syncing
        definition = await retried(self.hints.source_of)(claim)
        collection = await retried(services.collections.get)(claim.tenant, claim.collection)
        source = services.open_source(definition)
        try:
            async with watched(services.limits.stalled) as progressed:
                watched_source = WatchedSource(source, progressed)
                fetcher = services.fetcher_of(definition, collection, watched_source)
                find = retried_for(services.limits.timeout)(watched_source.find)
                turn = RunTurn(services.claims, claim, services.limits.turn)
                while hints := await retried(self.hints.next)(definition, services.limits.part.fetched):
                    if reason := await retried(services.intake.closed)(claim.tenant):
                        await retried(self.hints.wait)(claim, reason)
                        await retried(services.claims.release)(claim, pause=services.limits.pause)
                        return
                    await self._look(claim, definition, hints, find, fetcher)
                    progressed()
                    await turn.offer()
        finally:
            await close(source)
        await retried(self.hints.finish)(claim)

    async def _look(
        self, claim: RunClaim, definition: SourceDefinition, hints: Sequence[StoredHint], find: Find, fetcher: Fetcher
    ) -> None:
        looked = _Looked()
        for hint in hints:
            entry = await find(hint.key)
            if entry is not None:
                looked.add(hint, entry)
        fetched = await fetcher.fetch(looked.fetched, looked.new)
        submissions = await retried(self.hints.save)(
            claim, definition, hints, documents=fetched.documents, present=looked.present
        )
        if any(submission.accepted for submission in submissions):
            self.syncing.wake_parsers()
