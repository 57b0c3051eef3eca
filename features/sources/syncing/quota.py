"""The limits of tenants on uploads, which syncs keep, too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from shared.broker.tenant_use import TenantUse
from shared.domain.corpus.collections import Collection
from shared.domain.errors import TooLarge
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents

_ANY = 2**53  # bytes: more than any day has


@dataclass(frozen=True, slots=True)
class UploadLimits:
    """Limits of a tenant; None means unlimited. A day starts at midnight UTC."""

    bytes_per_day: int | None = None
    documents: int | None = None


@dataclass(frozen=True, slots=True)
class Quota:
    """Applies the limits of tenants to syncs.

    Args:
        documents: documents in the ledger.
        use: counts the uploaded bytes of all processes.
        limits_of: returns the limits of a tenant.
    """

    documents: Documents
    use: TenantUse
    limits_of: Callable[[str], UploadLimits]

    async def used_up(self, tenant: str) -> str | None:
        """Return why syncs of a tenant wait for the next day, as a sentence; None if the day has bytes left."""
        most = self.limits_of(tenant).bytes_per_day
        if most is None or await self.use.add_upload(tenant, 0, most - 1):
            return None
        return f"This tenant may upload {most:,} bytes per day, and has used them: syncs continue after midnight UTC."

    def require_possible(self, tenant: str, size_bytes: int) -> None:
        """Raise TooLarge if a document has more bytes than a whole day allows."""
        most = self.limits_of(tenant).bytes_per_day
        if most is not None and size_bytes > most:
            raise TooLarge(f"It has {size_bytes:,} bytes, and this tenant may upload {most:,} bytes per day.")

    async def count(self, tenant: str, size_bytes: int) -> None:
        """Count bytes that were read. They may exceed the limit of the day: then the next ones wait."""
        if self.limits_of(tenant).bytes_per_day is not None:
            await self.use.add_upload(tenant, size_bytes, _ANY)

    async def without_room(self, collection: Collection, external_ids: Sequence[str]) -> set[str]:
        """Return the documents among these that the tenant may not add; existing ones may always be changed.

        Concurrent syncs and uploads together may exceed the maximum.
        """
        most = self.limits_of(collection.tenant).documents
        if most is None or not external_ids:
            return set()
        counts = await self.documents.counts(collection.tenant)
        room = most - sum(count for state, count in counts.items() if state is not DocumentState.DELETING)
        if len(external_ids) <= room:
            return set()
        existing = await self.documents.existing_names(collection, external_ids)
        added = [name for name in external_ids if name not in existing]
        return set(added[max(0, room) :])

    def no_room(self, tenant: str) -> str:
        """Return the reason why an entry is refused whose document has no room."""
        most = self.limits_of(tenant).documents
        return f"This tenant may have {most:,} documents, and has them: delete some, or ask the operator for more."
