"""What routes are given: the services of the process."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.collection_cache import KnownCollections
from api.query_log import AskedQueries
from shared.services import Services as SharedServices


async def _services(request: Request) -> SharedServices:
    services: SharedServices = request.app.state.services
    return services


async def _known(request: Request) -> KnownCollections:
    known: KnownCollections = request.app.state.known
    return known


async def _asked(request: Request) -> AskedQueries:
    asked: AskedQueries = request.app.state.asked
    return asked


Services = Annotated[SharedServices, Depends(_services)]
Known = Annotated[KnownCollections, Depends(_known)]
Asked = Annotated[AskedQueries, Depends(_asked)]
