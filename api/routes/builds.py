"""Routes of builds: another model, prompt or chunking for a collection, filled next to the live build."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncGenerator
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api.access.auth import Manager, Reader
from api.access.collection_cache import require_served
from api.http.bodies import LABELLED_BODY, PROMPT_BODY
from api.http.event_stream import end_with_error, event, event_stream
from api.http.openapi import event_content, problems, replies
from api.http.replies import JsonReply
from api.http.strict_route import StrictRoute
from api.routes.collections import options_view
from api.routes.estimates import migrated
from api.schemas.builds import (
    BuildList,
    BuildView,
    GateBody,
    GateReply,
    PointDifferencesView,
    SwitchBody,
)
from api.schemas.common import CollectionName
from api.schemas.estimates import MigrationBody
from api.schemas.problems import ProblemDetails
from api.state import CollectionCacheDep, ServicesDep
from shared.domain.builds import Build
from shared.domain.errors import Conflict
from shared.domain.verification import VerificationCounts
from shared.maintenance.gate import Gate, GateReport
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections/{name}/builds", tags=["builds"], route_class=StrictRoute)

BuildNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="Number of the build within its collection")]


@router.get("", response_model=BuildList, responses=problems(401, 404, 422, 503))
async def page(name: CollectionName, tenant: Reader, services: ServicesDep) -> Response:
    """List the builds of a collection: the live build, and builds that are being filled or follow it."""
    builds = await services.ledger.builds.list(tenant, name)
    views = await asyncio.gather(*(_view(build, services) for build in builds))
    return JsonReply(BuildList(items=list(views)))


@router.get("/{number}", response_model=BuildView, responses=problems(401, 404, 422, 503))
async def get(name: CollectionName, number: BuildNumber, tenant: Reader, services: ServicesDep) -> Response:
    """Return a build and its progress."""
    return JsonReply(await _view(await services.ledger.builds.get(tenant, name, number), services))


@router.post(
    "",
    status_code=201,
    response_model=BuildView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def begin(
    change: Annotated[MigrationBody, PROMPT_BODY], name: CollectionName, tenant: Manager, services: ServicesDep
) -> Response:
    """Start a build: the collection's documents are parsed, generated and indexed next to the live build.

    Queries see only the live build. Questions of chunks with unchanged text and prompt are reused without a call.
    """
    live = await services.ledger.collections.get(tenant, name)
    options, embedding = migrated(live, change, services)
    build = await services.ledger.builds.start(tenant, name, options=options, embedding_model=embedding)
    services.wakeups.wake("parse")
    return JsonReply(await _view(build, services), 201)


@router.post("/{number}/pause", response_model=BuildView, responses=problems(401, 404, 409, 422, 503))
async def pause(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Pause the fill of a build; work in progress continues. Uploads and edits still reach the build."""
    return JsonReply(await _view(await services.ledger.builds.pause(tenant, name, number), services))


@router.post("/{number}/resume", response_model=BuildView, responses=problems(401, 404, 409, 422, 503))
async def resume(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Resume the fill of a paused build."""
    return JsonReply(await _view(await services.ledger.builds.resume(tenant, name, number), services))


@router.delete("/{number}", status_code=202, response_model=BuildView, responses=problems(401, 404, 409, 422, 503))
async def drop(name: CollectionName, number: BuildNumber, tenant: Manager, services: ServicesDep) -> Response:
    """Delete a build that is not live, with its points. Paid questions are retained."""
    return JsonReply(await _view(await services.ledger.builds.drop(tenant, name, number), services), 202)


@router.post(
    "/{number}/switch",
    response_model=BuildView,
    responses=problems(400, 401, 404, 409, 413, 415, 422, 503),
)
async def switch(
    *,
    body: SwitchBody,
    name: CollectionName,
    number: BuildNumber,
    tenant: Manager,
    services: ServicesDep,
    collection_cache: CollectionCacheDep,
) -> Response:
    """Make a build live. The previous one follows it, so the same request switches back.

    A build that was never live needs an open gate, unless `despite` is true.
    """
    build = await services.ledger.builds.get(tenant, name, number)
    if not (body.despite or build.live_until or (build.gate or {}).get("open")):
        raise Conflict(f"The gate of build {number} is not open: POST …/builds/{number}/gate returns the reasons.")
    require_served(await services.ledger.builds.collection(build), services.embeddings)
    switched = await services.ledger.builds.switch(tenant, name, number)
    collection_cache.forget(tenant, name)
    return JsonReply(await _view(switched, services))


@router.post(
    "/{number}/gate",
    response_model=GateReply,
    responses=replies(
        {
            200: {
                "content": event_content(PointDifferencesView, GateReply, ProblemDetails),
                "description": "The report, or `progress` and then `done`",
            }
        },
        *(400, 401, 404, 409, 413, 415, 422, 502, 503),
    ),
)
async def gate(
    *,
    request: Request,
    body: Annotated[GateBody, LABELLED_BODY],
    name: CollectionName,
    number: BuildNumber,
    tenant: Manager,
    services: ServicesDep,
) -> Response:
    """Compare a build with the live one: documents, points, retrieval quality, and latency.

    No language model is called. The report is stored with the build.
    """
    build = await services.ledger.builds.get(tenant, name, number)
    if build.state != "following":
        raise Conflict(f"Build {number} is {build.state}: a gate needs a build that is filled and not live.")
    events = _compared(build, body, services)
    if "text/event-stream" in request.headers.get("accept", ""):
        return event_stream(end_with_error(_events(events), request.scope))
    return JsonReply([item async for item in events if isinstance(item, GateReply)][-1])


async def _compared(
    build: Build, body: GateBody, services: ApiServices
) -> AsyncGenerator[VerificationCounts | GateReply, None]:
    ledger = services.ledger
    compare = Gate(
        ledger=ledger,
        index=services.index,
        retriever=services.retriever,
        calibrator=services.calibrator,
        accepted_failures=body.accept_failures,
    )
    labelled = None if body.questions is None else [(each.question, each.external_ids) for each in body.questions]
    async for item in compare.run(build, labelled):
        if isinstance(item, GateReport):
            reply = GateReply(open=item.is_open, **dataclasses.asdict(item))
            await ledger.builds.save_gate(build, reply.model_dump(mode="json"))
            yield reply
        else:
            yield item


async def _events(items: AsyncGenerator[VerificationCounts | GateReply, None]) -> AsyncGenerator[bytes, None]:
    async for item in items:
        if isinstance(item, GateReply):
            yield event("done", item)
        else:
            yield event("progress", PointDifferencesView(**dataclasses.asdict(item)))


async def _view(build: Build, services: ApiServices) -> BuildView:
    progress = await services.ledger.builds.progress(build)
    return BuildView(
        build=build.number,
        state=build.state,
        embedding_model=build.embedding_model,
        options=options_view(build.options),
        created_at=build.created_at,
        live_until=build.live_until,
        source_documents=progress.source_documents,
        copied=progress.copied,
        documents=dict(progress.documents),
        gate=None if build.gate is None else dict(build.gate),
    )
