"""The end of a listing that a program has pushed, by a worker: items that it lacks are marked as missing."""

from __future__ import annotations

from features.sources.domain import RefusedEntry
from features.sources.ledger.listings import ClaimedSync, JobPaused, Listings, SyncedPart
from features.sources.ledger.pushes import Pushes
from features.sources.syncing.merge import shown
from shared.domain.errors import Permanent
from shared.domain.jobs import JobClaim
from shared.maintenance.jobs.retries import retried

_PAGE = 1_000
_EXPIRED = "Its program did not end the listing, and has sent nothing for too long: nothing was deleted."


async def end_pushed(pushes: Pushes, listings: Listings, claim: JobClaim, sync: ClaimedSync) -> None:
    """Record which items a pushed listing lacks, and which of its entries have no current document.

    Raises:
        Permanent: the program did not end the listing in time.
        JobPaused: the job is paused.
        LeaseLost: the sync was cancelled, or another worker has claimed it.
    """
    if not sync.is_closed:
        raise Permanent(_EXPIRED)
    after = sync.after
    while found := await retried(pushes.unlisted)(claim, after=after, limit=_PAGE):
        after = found[-1].key
        part = SyncedPart(
            after=after,
            missing=[each.key for each in found if each.problem is None],
            refused=[RefusedEntry(shown(each.key), each.problem) for each in found if each.problem is not None],
        )
        if (await retried(listings.save)(claim, sync.source, part)).is_paused:
            raise JobPaused
