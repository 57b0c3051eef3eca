"""Routes of jobs: open, list, follow, pause, resume and cancel."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api.progress.job_feeds import JobFeeds
from api.progress.listeners import Listeners
from api.progress.pauses import pauses_of
from api.progress.readiness import Readiness
from api.progress.status import read_work
from api.state import JobFeedsDep, ListenersDep, ReadinessDep
from shared.domain.access.keys import Scope
from shared.domain.errors import Forbidden
from shared.domain.jobs import Job, JobKind, PauseReason
from shared.domain.queues import WORK_QUEUES
from shared.http import paging
from shared.http.access.auth import Caller, Reader, Writer, require_still_valid
from shared.http.event_stream import HEARTBEAT, EventStream, end_with_error, event_stream
from shared.http.openapi import event_content, problems, replies
from shared.http.replies import JsonReply
from shared.http.schemas import jobs as schemas
from shared.http.schemas.jobs import JobBody, JobPage, JobView, view
from shared.http.schemas.problems import ProblemDetails
from shared.http.shutdown import Shutdown
from shared.http.state import CollectionCacheDep, ServicesDep, ShutdownDep
from shared.http.strict_route import StrictRoute
from shared.ledger.jobs.jobs import Jobs
from shared.ledger.work.costs import Costs, JobCost
from shared.services.api import ApiServices
from shared.services.prices import price
from shared.settings import Settings

router = APIRouter(prefix="/v1/jobs", tags=["jobs"], route_class=StrictRoute)

_PAUSE_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0


@router.post(
    "",
    status_code=201,
    response_model=JobView,
    responses=replies(
        {200: {"model": JobView, "description": "The load was open, and accepts documents again"}},
        *(400, 401, 409, 413, 415, 422, 503),
    ),
)
async def create_job(
    body: JobBody, tenant: Writer, services: ServicesDep, readiness: ReadinessDep, collection_cache: CollectionCacheDep
) -> Response:
    """Open a load. Its documents are uploaded with its id as `job`; then close it.

    The load ends when it is closed and its documents are finished.
    """
    collection = await collection_cache.ensure(tenant, body.collection)
    opened = await services.ledger[Jobs].open_load(
        collection, key=body.idempotency_key, expected=body.documents, reopen=body.reopen
    )
    headers = {"location": f"/v1/jobs/{opened.job.id}"}
    return JsonReply(await _view(opened.job, tenant, services, readiness), 201 if opened.is_new else 200, headers)


@router.get("", response_model=JobPage, responses=problems(400, 401, 422, 503))
async def list_jobs(
    *,
    tenant: Reader,
    services: ServicesDep,
    readiness: ReadinessDep,
    kind: Annotated[schemas.JobKind | None, Query(description="Only jobs of this kind")] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List jobs, newest first: loads, syncs, reindexes, builds, evaluations, gates, verifications, erasures."""
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[Jobs].page(
        tenant, kind=None if kind is None else JobKind(kind), after=after, limit=limit + 1
    )
    jobs, following = paging.split_page(rows, limit, lambda job: (job.created_at.isoformat(), str(job.id)))
    return JsonReply(JobPage(items=await _views(jobs, tenant, services, readiness), next_cursor=following))


@router.get("/{job_id}", response_model=JobView, responses=problems(401, 404, 422, 503))
async def get_job(job_id: UUID, tenant: Reader, services: ServicesDep, readiness: ReadinessDep) -> Response:
    """Return a job with its progress."""
    return JsonReply(await _view(await services.ledger[Jobs].get(tenant, job_id), tenant, services, readiness))


@router.get(
    "/{job_id}/events",
    response_class=EventStream,
    responses=replies(
        {
            200: {
                "description": "`job` (JobView) at the start and on every change, until the job has ended; `error`"
                " (problem details) as the last event if the stream fails",
                "content": event_content(JobView, ProblemDetails),
            }
        },
        *(401, 404, 422, 429, 503),
    ),
)
async def follow_job(
    *,
    request: Request,
    job_id: UUID,
    tenant: Reader,
    services: ServicesDep,
    feeds: JobFeedsDep,
    listeners: ListenersDep,
    shutdown: ShutdownDep,
) -> Response:
    """Follow the progress of a job until it ends."""
    listeners.require_room(request.state.caller.owner)
    await services.ledger[Jobs].get(tenant, job_id)
    return event_stream(end_with_error(_follow(request, feeds, listeners, shutdown, job_id), request.scope))


@router.post("/{job_id}/close", response_model=JobView, responses=problems(401, 404, 409, 422, 503))
async def close_job(job_id: UUID, tenant: Writer, services: ServicesDep, readiness: ReadinessDep) -> Response:
    """Close a load: it accepts no more documents, and ends when its documents are finished."""
    return JsonReply(await _view(await services.ledger[Jobs].close(tenant, job_id), tenant, services, readiness))


@router.post("/{job_id}/pause", response_model=JobView, responses=problems(401, 403, 404, 409, 422, 503))
async def pause_job(
    request: Request, job_id: UUID, tenant: Writer, services: ServicesDep, readiness: ReadinessDep
) -> Response:
    """Pause a load, a sync or a reindex: no document is parsed, no questions are generated and nothing is indexed.

    Work in progress is finished. A paused load accepts documents. A reindex needs a key with the scope `manage`.
    """
    await _require_scope(request, job_id, tenant, services)
    return JsonReply(
        await _view(await services.ledger[Jobs].pause(tenant, job_id, PauseReason.USER), tenant, services, readiness)
    )


@router.post("/{job_id}/resume", response_model=JobView, responses=problems(401, 403, 404, 409, 422, 503))
async def resume_job(
    request: Request, job_id: UUID, tenant: Writer, services: ServicesDep, readiness: ReadinessDep
) -> Response:
    """Resume a paused load, sync or reindex. A reindex needs a key with the scope `manage`.

    A sync that waits for approval ends, and nothing is deleted.
    """
    await _require_scope(request, job_id, tenant, services)
    job = await services.ledger[Jobs].resume(tenant, job_id)
    services.wakeups.wake(*WORK_QUEUES, "syncs")
    return JsonReply(await _view(job, tenant, services, readiness))


@router.post(
    "/{job_id}/cancel", status_code=202, response_model=JobView, responses=problems(401, 403, 404, 409, 422, 503)
)
async def cancel_job(
    request: Request, job_id: UUID, tenant: Writer, services: ServicesDep, readiness: ReadinessDep
) -> Response:
    """Cancel a load, a sync or a reindex. It gets no more documents, and its documents in progress are finished.

    Its queued documents are deleted, or keep the version that queries see. Paid questions are kept. A reindex needs a
    key with the scope `manage`.
    """
    await _require_scope(request, job_id, tenant, services)
    job = await services.ledger[Jobs].cancel(tenant, job_id)
    services.wakeups.wake(*WORK_QUEUES)  # documents in progress, if it was paused
    return JsonReply(await _view(job, tenant, services, readiness), 202)


async def read_job(services: ApiServices, readiness: Readiness, tenant: str, job_id: UUID) -> JobView:
    """Read a job for its listeners."""
    return await _view(await services.ledger[Jobs].get(tenant, job_id), tenant, services, readiness)


async def _view(job: Job, tenant: str, services: ApiServices, readiness: Readiness) -> JobView:
    (shown,) = await _views([job], tenant, services, readiness)
    return shown


async def _views(jobs: Sequence[Job], tenant: str, services: ApiServices, readiness: Readiness) -> list[JobView]:
    costs = await services.ledger[Costs].of_jobs(tenant, [job.id for job in jobs])
    prices = await asyncio.to_thread(_prices, services.settings, costs)  # the list prices are loaded once: 0.3 s
    pauses = await pauses_of(jobs, tenant, services)
    shown = [(job, prices.get(job.id), pauses.get(job.id)) for job in jobs]
    if not any(job.has_open_documents for job in jobs):
        return [view(*each) for each in shown]
    work = await read_work(services, readiness, tenant)
    chunks = work.backlog.left.chunks
    return [view(*each, eta_seconds=work.eta_seconds_of(each[0].id), chunks=chunks.get(each[0].id)) for each in shown]


def _prices(settings: Settings, costs: Iterable[JobCost]) -> dict[UUID, float]:
    """Return the price of each job's calls with a known price."""
    prices: dict[UUID, float] = {}
    for cost in costs:
        each = price(settings, cost.kind, cost.usage, cost.model, cost.tier)
        if each is not None:
            prices[cost.job_id] = round(prices.get(cost.job_id, 0.0) + each, 8)
    return prices


async def _require_scope(request: Request, job_id: UUID, tenant: str, services: ApiServices) -> None:
    """Check that the key may change a job: loads and syncs need the scope of uploads, others `manage`.

    Raises:
        NotFound: the tenant has no job of that id.
        Forbidden: the key lacks the scope `manage`.
    """
    job = await services.ledger[Jobs].get(tenant, job_id)
    if job.kind not in (JobKind.LOAD, JobKind.SYNC) and Scope.MANAGE not in request.state.caller.scopes:
        raise Forbidden(f"A job of the kind '{job.kind}' needs a key with the scope '{Scope.MANAGE}'.")


async def _follow(
    request: Request, feeds: JobFeeds, listeners: Listeners, shutdown: Shutdown, job_id: UUID
) -> AsyncGenerator[bytes, None]:
    caller: Caller = request.state.caller
    sent, sent_at, is_open = b"", time.monotonic(), True
    with listeners.counted(caller.owner), feeds.joined(caller.tenant, job_id) as feed:
        while not shutdown.stopping:
            piece, is_open = await feed.latest()
            if piece is not sent:
                yield piece
                sent, sent_at = piece, time.monotonic()
            elif time.monotonic() - sent_at >= _HEARTBEAT_SECONDS:
                yield HEARTBEAT
                sent_at = time.monotonic()
            if not is_open:
                return
            await asyncio.sleep(_PAUSE_SECONDS)
            await require_still_valid(request)
