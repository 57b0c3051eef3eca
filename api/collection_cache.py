"""A cache of collections: an upload looks its collection up at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.domain.errors import Conflict
from shared.domain.records import Collection
from shared.ledger import Collections

_SECONDS = 5.0
_MOST = 10_000


class CollectionCache:
    """The ledger's collections, each remembered for a few seconds. Absent collections are not remembered.

    Args:
        collections: the ledger's.
        embedding_model: the model in use. A collection of another model is refused until the setting names its model.
        now: monotonic seconds.
    """

    def __init__(
        self, collections: Collections, embedding_model: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._collections = collections
        self._model = embedding_model
        self._now = now
        self._entries: dict[tuple[str, str], tuple[float, Collection]] = {}

    async def ensure(self, tenant: str, name: str) -> Collection:
        """Return the collection, and make it if it is absent.

        Raises:
            Conflict: the collection was built with another embedding model.
        """
        collection = self._cached(tenant, name)
        if collection is None:
            collection = await self._collections.ensure(tenant, name, embedding_model=self._model)
            self.remember(collection)
        return self._require_model(collection)

    async def find(self, tenant: str, name: str) -> Collection | None:
        """Return the collection, or None if it is absent.

        Raises:
            Conflict: the collection was built with another embedding model.
        """
        collection = self._cached(tenant, name)
        if collection is None:
            collection = await self._collections.find(tenant, name)
            if collection is None:
                return None
            self.remember(collection)
        return self._require_model(collection)

    def remember(self, collection: Collection) -> None:
        if len(self._entries) >= _MOST:
            self._entries.clear()
        self._entries[collection.tenant, collection.name] = (self._now() + _SECONDS, collection)

    def _cached(self, tenant: str, name: str) -> Collection | None:
        until, collection = self._entries.get((tenant, name), (0.0, None))
        return collection if until > self._now() else None

    def _require_model(self, collection: Collection) -> Collection:
        if collection.embedding_model != self._model:
            raise Conflict(
                f"The collection '{collection.name}' was built with the embedding model"
                f" '{collection.embedding_model}' and this server uses '{self._model}': set FOREASK_EMBEDDING_MODEL to"
                " the first, or use a new collection.",
                field="collection",
            )
        return collection
