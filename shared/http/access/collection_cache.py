"""A cache of collections: an upload looks its collection up at most every few seconds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from shared.domain.corpus.collections import Collection
from shared.domain.corpus.index_location import is_in_space
from shared.domain.errors import Conflict
from shared.ledger.model.collections import Collections
from shared.ledger.postgres import actors
from shared.providers.embedding import unserved
from shared.settings import Embedding

_SECONDS = 5.0
_MOST = 10_000


class CollectionCache:
    """The ledger's collections, each cached for a few seconds. Missing collections are not cached.

    The lifetime starts before the ledger is read, because a dropped build must not be cached any more when its points
    are deleted.

    Args:
        collections: collections in the ledger.
        embeddings: configured embeddings. A collection with another one is rejected.
        default: name of the embedding of new collections.
        now: clock in monotonic seconds.
        most: maximum number of collections of a tenant; None means unlimited.
    """

    def __init__(
        self,
        collections: Collections,
        embeddings: Mapping[str, Embedding],
        default: str,
        now: Callable[[], float] = time.monotonic,
        most: Callable[[str], int | None] = lambda _: None,
    ) -> None:
        self._collections = collections
        self._embeddings = embeddings
        self._default = default
        self._most = most
        self._now = now
        self._entries: dict[tuple[str, str], tuple[float, Collection | None]] = {}  # when the ledger was read

    async def ensure(self, tenant: str, name: str) -> Collection:
        """Return the collection, and create it if it is missing.

        Raises:
            Conflict: the settings do not describe its embedding, or the tenant may have no more collections.
        """
        collection = self._cached(tenant, name)
        if collection is None:
            read_at = self._now()
            with actors.recorded():  # an upload may create the collection
                collection = await self._collections.ensure(
                    tenant, name, embedding_model=self._default, most=self._most(tenant)
                )
            self._remember(collection, read_at)
        return require_served(collection, self._embeddings)

    async def get(self, tenant: str, name: str) -> Collection:
        """Return the collection.

        Raises:
            NoCollection: the tenant has no collection of that name.
            Conflict: the settings do not describe its embedding.
        """
        collection = self._cached(tenant, name)
        if collection is None:
            read_at = self._now()
            collection = await self._collections.get(tenant, name)
            self._remember(collection, read_at)
        return require_served(collection, self._embeddings)

    def forget(self, tenant: str, name: str) -> None:
        """Forget a collection after a change. A running read may not include the change yet."""
        self._entries[tenant, name] = (self._now(), None)

    def forget_tenant(self, tenant: str) -> None:
        """Forget all collections of a tenant."""
        for owner, name in list(self._entries):
            if owner == tenant:
                self.forget(tenant, name)

    def _remember(self, collection: Collection, read_at: float) -> None:
        if len(self._entries) >= _MOST:
            self._entries.clear()
        key = (collection.tenant, collection.name)
        if read_at >= self._entries.get(key, (read_at,))[0]:
            self._entries[key] = (read_at, collection)

    def _cached(self, tenant: str, name: str) -> Collection | None:
        read_at, collection = self._entries.get((tenant, name), (0.0, None))
        return collection if self._now() < read_at + _SECONDS else None


def require_served(collection: Collection, embeddings: Mapping[str, Embedding]) -> Collection:
    """Return a collection whose vectors the settings can produce.

    Raises:
        Conflict: its embedding is not configured, or another one is configured under its name.
    """
    embedding = embeddings.get(collection.embedding_model)
    if embedding is None:
        raise Conflict(
            f"The collection '{collection.name}': {unserved(collection.embedding_model)}", field="collection"
        )
    if not is_in_space(collection.index_name, embedding.space):
        raise Conflict(
            f"The collection '{collection.name}' was created when the embedding '{collection.embedding_model}' had"
            " another model, size or prefix: restore these settings, and give the changed embedding a new name.",
            field="collection",
        )
    return collection
