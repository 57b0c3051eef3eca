"""The state of the application, and the dependencies of routes on its parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Request

from api.access.collection_cache import CollectionCache
from api.access.key_cache import KeyCache
from api.access.query_budgets import QueryBudgets
from api.access.quotas import Quotas
from api.progress.feeds import ProgressFeeds
from api.progress.job_feeds import JobFeeds
from api.progress.listeners import Listeners
from api.progress.readiness import Readiness, Shutdown
from api.query.query_log import QueryLogWriter
from shared.services.api import ApiServices
from shared.settings import Settings
from shared.vectors.sizes import Sizes


@dataclass(frozen=True, slots=True)
class ApiState:
    """The objects that the application creates at its start; `app.state.api` contains them."""

    settings: Settings
    services: ApiServices
    collection_cache: CollectionCache
    key_cache: KeyCache
    quotas: Quotas
    query_budgets: QueryBudgets
    query_log: QueryLogWriter
    sizes: Sizes
    readiness: Readiness
    listeners: Listeners
    progress_feeds: ProgressFeeds
    job_feeds: JobFeeds
    shutdown: Shutdown


def _part(select: Callable[[ApiState], Any]) -> Any:
    """Return the dependency on a part of the state."""

    async def part(request: Request) -> Any:
        return select(request.app.state.api)

    return Depends(part)


ServicesDep = Annotated[ApiServices, _part(lambda state: state.services)]
CollectionCacheDep = Annotated[CollectionCache, _part(lambda state: state.collection_cache)]
KeyCacheDep = Annotated[KeyCache, _part(lambda state: state.key_cache)]
QuotasDep = Annotated[Quotas, _part(lambda state: state.quotas)]
QueryBudgetsDep = Annotated[QueryBudgets, _part(lambda state: state.query_budgets)]
QueryLogDep = Annotated[QueryLogWriter, _part(lambda state: state.query_log)]
SizesDep = Annotated[Sizes, _part(lambda state: state.sizes)]
ReadinessDep = Annotated[Readiness, _part(lambda state: state.readiness)]
ListenersDep = Annotated[Listeners, _part(lambda state: state.listeners)]
ProgressFeedsDep = Annotated[ProgressFeeds, _part(lambda state: state.progress_feeds)]
JobFeedsDep = Annotated[JobFeeds, _part(lambda state: state.job_feeds)]
ShutdownDep = Annotated[Shutdown, _part(lambda state: state.shutdown)]
