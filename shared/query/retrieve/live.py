"""Retrieval from live builds: another build of a collection may go live during a search."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from shared.domain.corpus.collections import Collection
from shared.domain.errors import Conflict, NoCollection, NotFound
from shared.query.retrieve.query import Query
from shared.query.retrieve.retriever import Retrieval, Retriever

# A dropped build exists for a minute after it was live, minus the times of a cache and a slow switch. A longer search
# may have read it after its points were deleted.
_LONG_SECONDS = 30.0


class LiveRetriever:
    """Searches builds while they are live.

    Args:
        retriever: searches a build.
        get_live: returns the live build of a tenant's collection, by name; raises `NoCollection`.
    """

    def __init__(self, retriever: Retriever, get_live: Callable[[str, str], Awaitable[Collection]]) -> None:
        self._retriever = retriever
        self._get_live = get_live

    async def retrieve(self, tenant: str, name: str, query_of: Callable[[Collection], Awaitable[Query]]) -> Retrieval:
        """Search the live build of a collection; repeat a long search if another build replaced it meanwhile.

        Args:
            tenant: owner of the collection.
            name: name of the collection.
            query_of: returns the query of a build.

        Raises:
            NoCollection: the tenant has no collection of that name, or it was deleted during a long search.
        """
        while True:
            started = time.monotonic()
            build = await self._get_live(tenant, name)
            retrieval = await self._retriever.retrieve(build, await query_of(build))
            if time.monotonic() - started < _LONG_SECONDS:
                return retrieval
            if (await self._get_live(tenant, name)).id == build.id:
                return retrieval

    async def retrieve_from(self, build: Collection, query: Query) -> Retrieval:
        """Search one build; call `require_live` afterwards to check that its points still existed."""
        return await self._retriever.retrieve(build, query)

    async def require_live(self, build: Collection) -> None:
        """Check that a build is still live, because otherwise its points may be deleted.

        Raises:
            NotFound: its collection was deleted.
            Conflict: another build is live.
        """
        try:
            live = await self._get_live(build.tenant, build.name)
        except NoCollection:
            raise NotFound("The collection was deleted during the evaluation.") from None
        if live.id != build.id:
            raise Conflict("Another build replaced the live one during the evaluation: run it again.")
