"""The intake: syncs wait while their tenant has much open work or no bytes left, or the disk is nearly full."""

from __future__ import annotations

from dataclasses import dataclass

from features.sources.ledger.listings import Listings
from features.sources.syncing.quota import Quota
from shared.storage.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Intake:
    """Decides whether syncs of a tenant may read more entries.

    Args:
        quota: limits of tenants.
        most_open: open chunks of a tenant above which its syncs wait.
        least_free: free part of the store's disk below which all syncs wait.
    """

    listings: Listings
    uploads: Uploads
    quota: Quota
    most_open: int
    least_free: float

    async def closed(self, tenant: str) -> str | None:
        """Return why syncs of a tenant wait, as a sentence; None if they may read more entries."""
        free = await self.uploads.free_share()
        if free is not None and free < self.least_free:
            return f"The disk of the uploads has {free:.0%} free, and syncs need {self.least_free:.0%}."
        open_chunks = await self.listings.open_chunks(tenant)
        if open_chunks > self.most_open:
            return f"{open_chunks:,} chunks wait for workers, and syncs continue below {self.most_open:,}."
        return await self.quota.used_up(tenant)
