"""The intake: syncs read nothing while their tenant has much open work, or the disk of the uploads is nearly full."""

from __future__ import annotations

from dataclasses import dataclass

from shared.ledger.sources.listings import Listings
from shared.storage.uploads import Uploads


@dataclass(frozen=True, slots=True)
class Intake:
    """Decides whether syncs of a tenant may read more entries.

    Args:
        most_open: open chunks of a tenant above which its syncs wait.
        least_free: free part of the store's disk below which all syncs wait.
    """

    listings: Listings
    uploads: Uploads
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
        return None
