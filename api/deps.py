"""Dependencies of routes: the services of the process."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request

from api.collection_cache import CollectionCache
from api.evaluations import EvaluationRunner
from api.known_keys import KnownKeys
from api.query_log import QueryLogWriter
from api.quotas import Quotas
from api.readiness import Readiness
from shared.services.api import ApiServices
from shared.vectors.sizes import Sizes


async def _services(request: Request) -> ApiServices:
    services: ApiServices = request.app.state.services
    return services


async def _collection_cache(request: Request) -> CollectionCache:
    collection_cache: CollectionCache = request.app.state.collection_cache
    return collection_cache


async def _query_log(request: Request) -> QueryLogWriter:
    query_log: QueryLogWriter = request.app.state.query_log
    return query_log


async def _known_keys(request: Request) -> KnownKeys:
    known_keys: KnownKeys = request.app.state.known_keys
    return known_keys


async def _quotas(request: Request) -> Quotas:
    quotas: Quotas = request.app.state.quotas
    return quotas


async def _sizes(request: Request) -> Sizes:
    sizes: Sizes = request.app.state.sizes
    return sizes


async def _evaluation_runner(request: Request) -> EvaluationRunner:
    runner: EvaluationRunner = request.app.state.evaluation_runner
    return runner


async def _readiness(request: Request) -> Readiness:
    readiness: Readiness = request.app.state.readiness
    return readiness


ServicesDep = Annotated[ApiServices, Depends(_services)]
CollectionCacheDep = Annotated[CollectionCache, Depends(_collection_cache)]
KnownKeysDep = Annotated[KnownKeys, Depends(_known_keys)]
QuotasDep = Annotated[Quotas, Depends(_quotas)]
ReadinessDep = Annotated[Readiness, Depends(_readiness)]
QueryLogDep = Annotated[QueryLogWriter, Depends(_query_log)]
EvaluationRunnerDep = Annotated[EvaluationRunner, Depends(_evaluation_runner)]
SizesDep = Annotated[Sizes, Depends(_sizes)]
