"""Sources of collections: add, list, change and remove them.

A removed source is hidden at once. `continue_removal` deletes its items, and its documents if they are to be deleted,
in slices.
"""

from __future__ import annotations

from shared.domain.collections import Collection
from shared.domain.sources import NewSource, SourceChanges, SourceDefinition, SourceState
from shared.ledger.postgres.database import Database


class Sources:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def add(self, collection: Collection, new: NewSource) -> SourceDefinition:
        """Add a source to a collection. It is synced at the first time of its schedule, or on request.

        If documents of a removed source of the same name exist, its first sync adopts them.

        Raises:
            InvalidInput: the schedule or the time zone is invalid.
            Conflict: the tenant has a source of this name, or the maximum number of sources.
            NotFound: the collection is being erased.
        """
        raise NotImplementedError

    async def page(
        self, tenant: str, *, collection: str | None = None, after: str = "", limit: int = 50
    ) -> list[SourceState]:
        """Return a tenant's sources in order of name, after `after`."""
        raise NotImplementedError

    async def get(self, tenant: str, name: str) -> SourceState:
        """Return a source with its newest sync.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        raise NotImplementedError

    async def change(
        self, tenant: str, name: str, changes: SourceChanges, *, confirmed: bool = False
    ) -> SourceDefinition:
        """Change a source; a running sync continues with the old values.

        Args:
            tenant: its tenant.
            name: its name.
            changes: new values.
            confirmed: whether the caller confirms that the next syncs may list other entries, and delete documents of
                those that they lack.

        Raises:
            NotFound: the tenant has no source of that name.
            InvalidInput: the schedule or the time zone is invalid.
            Conflict: the address or the options of a source with items change, and the caller has not confirmed it.
        """
        raise NotImplementedError

    async def remove(self, tenant: str, name: str, *, with_documents: bool) -> None:
        """Remove a source, with its documents or without them. Its open sync is cancelled.

        Raises:
            NotFound: the tenant has no source of that name.
        """
        raise NotImplementedError

    async def continue_removal(self) -> bool:
        """Delete some items of a removed source, with their documents if requested; return whether any was left."""
        raise NotImplementedError
