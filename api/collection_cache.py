"""Collections that were seen a moment ago, so that an upload need not ask for its collection again."""

from __future__ import annotations

import time
from collections.abc import Callable

from shared.domain.errors import Conflict
from shared.domain.records import Collection
from shared.ledger import Collections

_SECONDS = 5.0
_MOST = 10_000


class CollectionCache:
    """The ledger's collections, each remembered for a few seconds; only those that are there are remembered.

    Args:
        embedding_model: the one that is in use: a collection of another is of no use until it is set again.
    """

    def __init__(
        self, collections: Collections, embedding_model: str, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._collections = collections
        self._model = embedding_model
        self._now = now
        self._seen: dict[tuple[str, str], tuple[float, Collection]] = {}

    async def ensured(self, tenant: str, name: str) -> Collection:
        """Return the collection, made if there is none.

        Raises:
            Conflict: it was built with another embedding model.
        """
        collection = self._remembered(tenant, name)
        if collection is None:
            collection = await self._collections.ensure(tenant, name, embedding_model=self._model)
            self.remember(collection)
        return self._usable(collection)

    async def found(self, tenant: str, name: str) -> Collection | None:
        """Return the collection if there is one.

        Raises:
            Conflict: it was built with another embedding model.
        """
        collection = self._remembered(tenant, name)
        if collection is None:
            collection = await self._collections.find(tenant, name)
            if collection is None:
                return None
            self.remember(collection)
        return self._usable(collection)

    def remember(self, collection: Collection) -> None:
        if len(self._seen) >= _MOST:
            self._seen.clear()
        self._seen[collection.tenant, collection.name] = (self._now() + _SECONDS, collection)

    def _remembered(self, tenant: str, name: str) -> Collection | None:
        until, collection = self._seen.get((tenant, name), (0.0, None))
        return collection if until > self._now() else None

    def _usable(self, collection: Collection) -> Collection:
        if collection.embedding_model != self._model:
            raise Conflict(
                f"The collection '{collection.name}' was built with the embedding model"
                f" '{collection.embedding_model}' and this server uses '{self._model}': set FOREASK_EMBEDDING_MODEL to"
                " the first, or use a new collection.",
                field="collection",
            )
        return collection
