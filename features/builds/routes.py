"""Routes of builds: another model, prompt or chunking for a collection, filled next to the live build."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from features.builds.gate import require_comparable, require_known
from features.builds.ledger.gates import GateJob, GateRequest, Gates
from features.builds.schemas import (
    BuildList,
    BuildView,
    GateBody,
    GateProgress,
    GateReply,
    GateRunView,
    PointDifferencesView,
    SwitchBody,
)
from features.verification.domain import VerificationCounts
from shared.domain.corpus.builds import Build, BuildProgress
from shared.domain.errors import Conflict
from shared.domain.jobs import OPEN_STATES
from shared.domain.stored import known_fields
from shared.domain.time_left import TimeLeft
from shared.http.access.auth import Manager, Reader
from shared.http.access.collection_cache import require_served
from shared.http.bodies import LABELLED_BODY, PROMPT_BODY
from shared.http.changes import follow
from shared.http.collection_options import migrated
from shared.http.event_stream import HEARTBEAT, end_with_error, event, event_stream
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import event_content, problems, replies
from shared.http.replies import JsonReply
from shared.http.schemas.collections import CollectionOptionsView, MigrationBody, OptionsInForceView
from shared.http.schemas.common import CollectionName
from shared.http.schemas.jobs import RunPhase
from shared.http.schemas.problems import ProblemDetails
from shared.http.shutdown import Shutdown
from shared.http.state import CollectionCacheDep, ServicesDep, ShutdownDep
from shared.http.strict_route import StrictRoute
from shared.ledger.builds.builds import Builds
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.ledger.model.states import FINAL_DOCUMENTS
from shared.ledger.work.backlog import Backlogs
from shared.ledger.work.costs import BuildCost, Costs
from shared.services.api import ApiServices
from shared.services.options import options_in_force
from shared.services.prices import price
from shared.settings import Settings

router = APIRouter(prefix="/v1/collections/{name}/builds", tags=["builds"], route_class=StrictRoute)

BuildNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the build within its collection")]


@router.get("", response_model=BuildList, responses=problems(401, 404, 422, 503))
async def list_builds(name: CollectionName, tenant: Reader, services: ServicesDep) -> Response:
    """List the builds of a collection: the live build, and builds that are being filled or follow it."""
    builds = await services.ledger[Builds].list(tenant, name)
    return JsonReply(BuildList(items=await _views(builds, services)))


@router.get("/{number}", response_model=BuildView, responses=problems(401, 404, 422, 503))
async def get_build(name: CollectionName, number: BuildNumber, tenant: Reader, services: ServicesDep) -> Response:
    """Return a build and its progress."""
    return JsonReply(await _view(await services.ledger[Builds].get(tenant, name, number), services))


@router.post(
    "",
    status_code=201,
    response_model=BuildView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def create_build(
    change: Annotated[MigrationBody, PROMPT_BODY], name: CollectionName, tenant: Manager, services: ServicesDep
) -> Response:
    """Start a build: the collection's documents are parsed, generated and indexed next to the live build.

    Queries see only the live build. Questions of chunks with unchanged text and prompt are reused without a call.
    """
    live = await services.ledger[Collections].get(tenant, name)
    options, embedding = migrated(live, change, services)
    build = await services.ledger[Builds].start(tenant, name, options=options, embedding_model=embedding)
    services.wakeups.wake("parse")
    return JsonReply(await _view(build, services), 201)


@router.post("/{number}/pause", response_model=BuildView, responses=problems(401, 404, 409, 422, 503))
async def pause_build(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Pause the fill of a build; work in progress continues. Uploads and edits still reach the build."""
    return JsonReply(await _view(await services.ledger[Builds].pause(tenant, name, number), services))


@router.post("/{number}/resume", response_model=BuildView, responses=problems(401, 404, 409, 422, 503))
async def resume_build(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Resume the fill of a paused build."""
    return JsonReply(await _view(await services.ledger[Builds].resume(tenant, name, number), services))


@router.delete("/{number}", status_code=202, response_model=BuildView, responses=problems(401, 404, 409, 422, 503))
async def drop_build(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Delete a build that is not live, with its points. Paid questions are retained."""
    return JsonReply(await _view(await services.ledger[Builds].drop(tenant, name, number), services), 202)


@router.post(
    "/{number}/switch",
    response_model=BuildView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def switch_to_build(
    *,
    body: SwitchBody,
    name: CollectionName,
    number: BuildNumber,
    tenant: Manager,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
) -> Response:
    """Make a build live. The previous one follows it, so the same request switches back.

    A build that was never live needs an open gate, unless `force` is true.
    """
    build = await services.ledger[Builds].get(tenant, name, number)
    if not (body.force or build.live_until or (build.gate or {}).get("open")):
        raise Conflict(f"The gate of build {number} is not open: POST …/builds/{number}/gate returns the reasons.")
    require_served(await services.ledger[Builds].collection(build), services.embeddings)
    switched = await services.ledger[Builds].switch(tenant, name, number)
    collection_cache.forget(tenant, name)
    return JsonReply(await _view(switched, services))


@router.post(
    "/{number}/gate",
    response_model=GateReply,
    responses=replies(
        {
            200: {
                "content": event_content(GateProgress, GateReply, ProblemDetails),
                "description": "The report, or `progress` and then `done`",
            }
        },
        *(400, 401, 404, 409, 413, 415, 422, 502, 503),
    ),
)
async def start_gate(
    *,
    request: Request,
    body: Annotated[GateBody, LABELLED_BODY],
    name: CollectionName,
    number: BuildNumber,
    tenant: Manager,
    services: ServicesDep,
    shutdown: ShutdownDep,
) -> Response:
    """Compare a build with the live one: documents, points, retrieval quality, and latency.

    No language model is called. The report is stored with the build. An index worker compares, and continues without
    the client: the same request joins a gate that is not done yet.
    """
    build = await services.ledger[Builds].get(tenant, name, number)
    require_comparable(build)
    live = await services.ledger[Collections].get(tenant, name)
    if body.questions is not None:
        names = sorted({name for each in body.questions for name in each.external_ids})
        require_known(names, await services.ledger[Documents].live_chunk_ids(live, names))
    questions = None if body.questions is None else [each.model_dump(mode="json") for each in body.questions]
    job = await services.ledger[Gates].start(build, live.embedding_model, GateRequest(questions, body.accept_failures))
    services.wakeups.wake("runs")
    if "text/event-stream" in request.headers.get("accept", ""):
        return event_stream(end_with_error(_events(job, services, shutdown), request.scope))
    async with aclosing(follow(job, _reader(services), shutdown, request)) as changes:
        async for _ in changes:
            pass
    return JsonReply(_report(await services.ledger[Gates].get(job.id)))


@router.get("/{number}/gate", response_model=GateRunView, responses=problems(401, 404, 422))
async def get_gate(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Return the newest gate of a build with its state and report."""
    job = await services.ledger[Gates].newest(await services.ledger[Builds].get(tenant, name, number))
    return JsonReply(
        GateRunView(
            state=RunPhase(job.state),
            error=job.error,
            created_at=job.created_at,
            ended_at=job.ended_at,
            points=_points(job.progress.counts),
            report=None if job.result is None else _report(job),
        )
    )


@router.delete("/{number}/gate", status_code=204, responses=problems(401, 404, 422))
async def cancel_gate(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Cancel the gate of a build that is queued or running."""
    await services.ledger[Gates].cancel(await services.ledger[Builds].get(tenant, name, number))
    return Response(status_code=204)


BUILD_ROUTES = FeatureRoutes(
    (router,),
    {"name": "builds", "description": "Fill a collection with other options next to the live build, then switch."},
)


def _reader(services: ApiServices) -> Callable[[GateJob], Awaitable[GateJob]]:
    async def read(job: GateJob) -> GateJob:
        return await services.ledger[Gates].get(job.id)

    return read


async def _events(job: GateJob, services: ApiServices, shutdown: Shutdown) -> AsyncGenerator[bytes, None]:
    async with aclosing(follow(job, _reader(services), shutdown)) as changes:
        async for change in changes:
            if change is None:
                yield HEARTBEAT
                continue
            job = change
            if job.state in OPEN_STATES:
                counts = dataclasses.asdict(job.progress.counts)
                yield event("progress", GateProgress(**counts, state=RunPhase(job.state)))
    yield event("done", _report(job))


def _report(job: GateJob) -> GateReply:
    return GateReply(**known_fields(job.result or {}, GateReply.model_fields))


def _points(counts: VerificationCounts) -> PointDifferencesView:
    return PointDifferencesView(**dataclasses.asdict(counts))


async def _view(build: Build, services: ApiServices) -> BuildView:
    (view,) = await _views([build], services)
    return view


async def _views(builds: Sequence[Build], services: ApiServices) -> list[BuildView]:
    """Return views of builds of one tenant."""
    costs = await services.ledger[Costs].of_builds(builds[0].tenant, [build.id for build in builds])
    prices = await asyncio.to_thread(_prices, services.settings, costs)  # the list prices are loaded once: 0.3 s
    left = (await services.ledger[Backlogs].measure(builds[0].tenant, services.embeddings)).left
    return list(await asyncio.gather(*(_priced_view(build, prices.get(build.id), left, services) for build in builds)))


async def _priced_view(build: Build, cost: float | None, left: TimeLeft, services: ApiServices) -> BuildView:
    progress = await services.ledger[Builds].progress(build)
    return BuildView(
        build=build.number,
        state=build.state,
        embedding_model=build.embedding_model,
        options=CollectionOptionsView.of(build.options),
        effective=OptionsInForceView.of(options_in_force(services.settings, build.options)),
        created_at=build.created_at,
        live_until=build.live_until,
        source_documents=progress.source_documents,
        copied=progress.copied,
        documents=dict(progress.documents),
        eta_seconds=_eta_seconds(build, progress, left),
        cost=cost,
        gate=None if build.gate is None else dict(build.gate),
    )


def _eta_seconds(build: Build, progress: BuildProgress, left: TimeLeft) -> int | None:
    """Return the time until a build has every document, or else until its own documents are finished."""
    is_open = any(count for state, count in progress.documents.items() if state not in FINAL_DOCUMENTS)
    time = left.of_jobs.get(build.id) or (left.whole if is_open else None)
    return None if time is None else max(1, round(time.total_seconds()))


def _prices(settings: Settings, costs: Sequence[BuildCost]) -> dict[UUID, float]:
    """Return the price of each build's calls with a known price."""
    prices: dict[UUID, float] = {}
    for cost in costs:
        each = price(settings, cost.kind, cost.usage, cost.model, cost.tier)
        if each is not None:
            prices[cost.build_id] = round(prices.get(cost.build_id, 0.0) + each, 8)
    return prices
