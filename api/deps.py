"""What routes are given: the services of the process."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.collection_cache import CollectionCache
from api.query_log import QueryLogWriter
from shared.services.api import ApiServices


async def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


async def _known(request: Request) -> CollectionCache:
    known: CollectionCache = request.app.state.known
    return known


async def _asked(request: Request) -> QueryLogWriter:
    asked: QueryLogWriter = request.app.state.asked
    return asked


ServicesDep = Annotated[ApiServices, Depends(_services)]
CollectionCacheDep = Annotated[CollectionCache, Depends(_known)]
QueryLogDep = Annotated[QueryLogWriter, Depends(_asked)]
