"""Looking up: entries of a source that hints name are brought up to date, without a listing."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from shared.domain.runs import RunClaim
from shared.domain.sources import SourceDefinition
from shared.ledger.model.collections import Collections
from shared.ledger.runs.run_claims import RunClaims
from shared.ledger.sources.hints import Hints, StoredHint
from shared.maintenance.runs.retries import retried, retried_for
from shared.maintenance.syncing.fetching import Fetcher
from shared.maintenance.syncing.intake import Intake
from shared.maintenance.syncing.merge import refusal
from shared.maintenance.syncing.work import OpenSource, SyncLimits
from shared.sources.source import Entry
from shared.storage.uploads import Uploads

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """Looks up the hints of claimed runs.

    Args:
        open_source: opens a source; the run closes it.
        wake_parsers: wakes the workers that parse submitted documents.
    """

    hints: Hints
    collections: Collections
    claims: RunClaims
    uploads: Uploads
    intake: Intake
    open_source: OpenSource
    wake_parsers: Callable[[], None]
    limits: SyncLimits

    async def work(self, claim: RunClaim) -> None:
        """Look up the hints of a source until none is left. The claim is released while the intake is closed.

        Raises:
            NotFound: the collection was deleted.
            LeaseLost: the source is being removed, or another worker has claimed the run.
            Transient: the source, the ledger or the store failed for too long.
            Rejected, Misconfigured: the source cannot be opened any more.
        """
        definition = await retried(self.hints.source_of)(claim)
        collection = await retried(self.collections.get)(claim.tenant, claim.collection)
        source = self.open_source(definition)
        again = retried_for(self.limits.timeout)
        fetcher = Fetcher(
            read=again(source.fetch),
            definition=definition,
            collection=collection,
            uploads=self.uploads,
            max_bytes=self.limits.max_bytes,
            limits=self.limits.part,
        )
        try:
            while hints := await retried(self.hints.next)(definition, self.limits.part.fetched):
                if await retried(self.intake.closed)(claim.tenant):
                    await retried(self.claims.release)(claim, pause=self.limits.pause)
                    return
                await self._look(claim, definition, hints, again(source.find), fetcher)
        finally:
            await source.aclose()
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
            self.wake_parsers()
