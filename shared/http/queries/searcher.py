"""The search of one request, for routes that offer the queries in the format of another API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Request

from shared.http.access.auth import AskingCaller, Caller
from shared.http.access.collection_cache import CollectionCache
from shared.http.queries.query_log import QueryLogWriter
from shared.http.queries.searching import B, find_chunks, within_limits
from shared.http.schemas.queries import RetrieveBody
from shared.http.state import CollectionCacheDep, QueryLogDep, ServicesDep
from shared.query.retrieve import Retrieval
from shared.services.api import ApiServices


@dataclass(frozen=True, slots=True)
class Searcher:
    """The request, its caller, and the parts of the application that a search needs."""

    request: Request
    caller: Caller
    services: ApiServices
    collection_cache: CollectionCache
    query_log: QueryLogWriter

    async def require_collection(self, name: str) -> None:
        """Check that a collection exists, before a model is called.

        Raises:
            NoCollection: it does not exist.
        """
        await self.collection_cache.get(self.caller.tenant, name)

    def within_limits(self, body: B) -> B:
        """Return the query within the limits of settings and key; see `searching.within_limits`."""
        return within_limits(body, self.caller, self.services)

    async def find(self, body: RetrieveBody) -> Retrieval:
        """Find the chunks for a question, and record it; see `find_chunks`."""
        return await find_chunks(self.request, body, self.caller, self.services, self.collection_cache, self.query_log)


async def _searcher(
    request: Request,
    caller: AskingCaller,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
    query_log: QueryLogDep,
) -> Searcher:
    return Searcher(request, caller, services, collection_cache, query_log)


# The search of a caller with the scope `ask`; a used-up budget of queries rejects the request.
SearcherDep = Annotated[Searcher, Depends(_searcher)]
