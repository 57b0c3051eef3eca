"""The application: routes, error replies and services."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import cache, partial
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.telemetry import TelemetryConfig
from starlette.routing import BaseRoute

from api.features import FEATURE_ROUTES
from api.http import page, reference
from api.http.middleware import RequestMiddleware
from api.http.origins import OriginsMiddleware
from api.progress.feeds import ProgressFeeds
from api.progress.job_feeds import JobFeeds
from api.progress.listeners import Listeners
from api.progress.readiness import Readiness
from api.progress.status import status_event
from api.routes import (
    batches,
    budgets,
    calibration,
    chunks,
    collections,
    contents,
    dead_letters,
    documents,
    events,
    health,
    jobs,
    keys,
    limits,
    me,
    operators,
    queries,
    sign_in,
    status,
    uploads,
    usage,
)
from api.state import ApiState
from features.all import FEATURES
from shared.http import openapi, problems
from shared.http.access import auth
from shared.http.access.collection_cache import CollectionCache
from shared.http.access.identities import Identities
from shared.http.access.key_cache import KeyCache
from shared.http.access.person_log import PersonLog
from shared.http.access.query_budgets import QueryBudgets
from shared.http.access.quotas import Quotas
from shared.http.feature_routes import UndescribedEndpoint
from shared.http.methods import heads, refusals
from shared.http.queries.query_log import QueryLogWriter
from shared.http.request_body import BodyMiddleware
from shared.http.shutdown import Shutdown
from shared.http.strict_route import FixedRoutes
from shared.ledger.documents.documents import Documents
from shared.ledger.feedback.query_log import QueryLog
from shared.ledger.model.collections import Collections
from shared.ledger.tenants.keys import Keys
from shared.ledger.tenants.persons import Persons
from shared.process.telemetry import metrics, traces
from shared.services import build
from shared.services.api import ApiServices
from shared.services.check import log_findings
from shared.services.prices import price
from shared.settings import Settings
from shared.vectors.sizes import CollectionSizes, Sizes

_CONNECTIONS = 4  # connections to PostgreSQL that are opened before the first request
# FastAPI's own telemetry would record URLs, clients and error messages. Our spans are in `telemetry.traces`.
_NO_TELEMETRY: TelemetryConfig = {
    "tracing": False,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
}
_DESCRIPTION = """\
Upload documents, wait until they are `ready`, then ask questions. A model generates the questions that each part of a \
document answers, and a query is matched with these questions.

This page is generated from `/openapi.json`. Errors are problem details (RFC 9457); `detail` contains the next step. \
`info.version` is the version of the server. The version of the API is the first part of the addresses, `/v1`.
"""
_TAGS = [
    {"name": "documents", "description": "Upload, follow, retry and delete documents."},
    {"name": "collections", "description": "A tenant's named indexes, which are created on first use."},
    {"name": "dead letters", "description": "Failed documents and dead chunks: list, retry or discard them."},
    {"name": "queries", "description": "Chunks and answers, with citations."},
    {"name": "status", "description": "Open work, its rate, and the limits."},
    {"name": "budgets", "description": "Limits on the tokens and the cost of the ingest."},
    {"name": "events", "description": "Progress as server-sent events."},
    {"name": "batches", "description": "Requests to the provider's batch API, which cost less and take up to a day."},
    {"name": "jobs", "description": "Long work with progress, such as loads, syncs, reindexes and builds."},
    {"name": "keys", "description": "API keys and their permissions."},
    {"name": "sign-in", "description": "Sign-in of the page at an identity provider; no key is required."},
    {"name": "operator", "description": "State and erasure of all tenants; requires an operator's key."},
    {"name": "health", "description": "Probes for the operator; no key is required."},
]

# Each request is compared with the parts in this order: queries and uploads come first, features follow.
_PARTS = (
    queries,
    documents,
    chunks,
    contents,
    uploads,
    collections,
    calibration,
    dead_letters,
    status,
    usage,
    budgets,
    limits,
    events,
    batches,
    jobs,
    keys,
    me,
    sign_in,
    operators,
    health,
)


@cache
def _routes() -> tuple[BaseRoute, ...]:
    """Return the routes, which all applications of a process share.

    FastAPI prepares a route's models at its first request, and again for each application that includes its router.
    """
    router = APIRouter(generate_unique_id_function=openapi.operation_id)
    for part in _PARTS:
        router.include_router(part.router)
    for feature in FEATURE_ROUTES:
        for feature_router in feature.routers:
            router.include_router(feature_router)
    router.include_router(budgets.operator_router)
    router.include_router(limits.operator_router)
    return (FixedRoutes(router.routes), *refusals(router.routes), *heads(health.PROBES), *router.routes)


def create(
    settings: Settings,
    services: ApiServices | None = None,
    shutdown: Shutdown | None = None,
    *,
    checks: bool = False,
) -> FastAPI:
    """Create the application.

    Args:
        settings: settings of the process.
        services: dependencies of the routes, started and closed by the caller. None: the lifespan makes its own.
        shutdown: set by the server when it stops; None: a new one.
        checks: use each engine and each model once at the start, and log the results.

    Raises:
        InvalidInput: the settings would serve other machines, or pages of other sites, without keys.
    """
    auth.require_safe(settings)
    auth.require_keys_for_pages(settings)
    endpoints = [feature.endpoint() for feature in FEATURE_ROUTES if feature.endpoint]
    lifespan = partial(
        _lifespan,
        settings=settings,
        given=services,
        shutdown=shutdown or Shutdown(),
        endpoints=endpoints,
        checks=checks,
    )
    app = _application(lifespan)
    app.add_middleware(RequestMiddleware, most=settings.api_max_requests)
    app.add_middleware(BodyMiddleware, settings=settings)  # outside: a refused client keeps no slot
    if settings.api_origins:  # outside of both, so that pages can read their refusals
        app.add_middleware(OriginsMiddleware, origins=settings.api_origins)
    problems.install(app)
    reference.install(app)
    if settings.web_ui:
        page.install(app)
    for endpoint in endpoints:
        endpoint.install(app)
    return app


def described() -> dict[str, Any]:
    """Return the OpenAPI document, which is the same with all settings."""
    return _application().openapi()


def _application(lifespan: Callable[[FastAPI], AbstractAsyncContextManager[None]] | None = None) -> FastAPI:
    """Return the described routes, without services and error replies."""
    app = FastAPI(
        title="foreask API",
        version=version("foreask"),
        summary="Asks the questions before your users do.",
        description=_DESCRIPTION,
        openapi_tags=[*_TAGS, *(dict(feature.tag) for feature in FEATURE_ROUTES if feature.tag)],
        lifespan=lifespan,
        redirect_slashes=False,
        openapi_url=None,  # FastAPI would generate the description in the event loop
        docs_url=None,  # FastAPI's page loads its scripts from a CDN
        redoc_url=None,
        telemetry=_NO_TELEMETRY,
        routes=list(_routes()),
    )
    openapi.install(app)
    return app


@asynccontextmanager
async def _lifespan(
    app: FastAPI,
    settings: Settings,
    given: ApiServices | None,
    shutdown: Shutdown,
    endpoints: Sequence[UndescribedEndpoint],
    *,
    checks: bool,
) -> AsyncIterator[None]:
    async with (
        build("api", settings, FEATURES) if given is None else nullcontext(given) as services,
        metrics.serving("api", settings.metrics_host, settings.metrics_port),
        traces.exporting("api", settings.shutdown_timeout),
    ):
        state = app.state.api = _state(settings, services, shutdown)
        check = None
        if given is None:
            await services.database.warm(_CONNECTIONS)
            services.wakeups.start()
        if checks:
            check = asyncio.create_task(log_findings(services.findings), name="check")
        yield
        if check is not None:
            check.cancel()
            await asyncio.gather(check, return_exceptions=True)
        for endpoint in endpoints:
            await endpoint.aclose()
        await state.query_log.aclose()
        await state.query_budgets.aclose()
        await state.key_cache.aclose()
        await state.person_log.aclose()
        if state.identities is not None:
            await state.identities.provider.aclose()


def _state(settings: Settings, services: ApiServices, shutdown: Shutdown) -> ApiState:
    ledger = services.ledger
    person_log = PersonLog(ledger[Persons])
    identities = Identities.of(settings, person_log.see)
    readiness = Readiness(services, identities)
    return ApiState(
        settings=settings,
        services=services,
        collection_cache=CollectionCache(
            ledger[Collections],
            services.embeddings,
            settings.embedding_model or "",
            most=lambda tenant: settings.limits_of(tenant).collections,
        ),
        key_cache=KeyCache(ledger[Keys]),
        person_log=person_log,
        identities=identities,
        quotas=Quotas(settings, services.tenant_use, ledger[Documents]),
        query_budgets=QueryBudgets(settings, services.tenant_use, partial(price, settings)),
        query_log=QueryLogWriter(
            ledger[QueryLog],
            enabled=settings.query_retention_days > 0,
            budget=settings.tuning.query_log_budget,
            keeps_digests=settings.shared_answer_retention_days > 0,
            keeps_answers=settings.query_answers,
            model=settings.llm_model,
        ),
        sizes=CollectionSizes(Sizes(services.index.count_points), Sizes(services.index.count_chunks)),
        readiness=readiness,
        listeners=Listeners(settings),
        progress_feeds=ProgressFeeds(ledger[Documents], settings, partial(status_event, services, readiness)),
        job_feeds=JobFeeds(partial(jobs.read_job, services, readiness)),
        shutdown=shutdown,
    )
