"""The state of an application, as far as the routes of features use it, and their dependencies on its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import Depends, Request

from shared.http.access.collection_cache import CollectionCache
from shared.http.access.identities import Identities
from shared.http.access.key_cache import KeyCache
from shared.http.access.person_log import PersonLog
from shared.http.access.query_budgets import QueryBudgets
from shared.http.access.quotas import Quotas
from shared.http.queries.query_log import QueryLogWriter
from shared.http.shutdown import Shutdown
from shared.services.api import ApiServices
from shared.settings import Settings
from shared.vectors.sizes import CollectionSizes


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpState:
    """The objects that the application creates at its start; `app.state.api` contains them.

    Args:
        made: objects of features, by the function that makes them, from the first request that uses them.
    """

    settings: Settings
    services: ApiServices
    collection_cache: CollectionCache
    key_cache: KeyCache
    person_log: PersonLog
    identities: Identities | None
    quotas: Quotas
    query_budgets: QueryBudgets
    sizes: CollectionSizes
    query_log: QueryLogWriter
    shutdown: Shutdown
    made: dict[Callable[[ApiServices], object], object] = field(default_factory=dict)


def part(select: Callable[[Any], object]) -> Any:
    """Return the dependency on a part of the state."""

    async def selected(request: Request) -> Any:
        return select(request.app.state.api)

    return Depends(selected)


def made_by(make: Callable[[ApiServices], object]) -> Any:
    """Return the dependency on an object that an application makes once, at the first request that uses it."""

    async def made(request: Request) -> Any:
        state: HttpState = request.app.state.api
        if make not in state.made:
            state.made[make] = make(state.services)
        return state.made[make]

    return Depends(made)


ServicesDep = Annotated[ApiServices, part(lambda state: state.services)]
CollectionCacheDep = Annotated[CollectionCache, part(lambda state: state.collection_cache)]
KeyCacheDep = Annotated[KeyCache, part(lambda state: state.key_cache)]
IdentitiesDep = Annotated[Identities | None, part(lambda state: state.identities)]
QuotasDep = Annotated[Quotas, part(lambda state: state.quotas)]
QueryBudgetsDep = Annotated[QueryBudgets, part(lambda state: state.query_budgets)]
SizesDep = Annotated[CollectionSizes, part(lambda state: state.sizes)]
QueryLogDep = Annotated[QueryLogWriter, part(lambda state: state.query_log)]
ShutdownDep = Annotated[Shutdown, part(lambda state: state.shutdown)]
