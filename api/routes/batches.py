"""Routes of batches: list, read and cancel them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.schemas.batches import BatchPage, BatchView
from shared.domain.spending.tiers import Tier
from shared.domain.stages.batches import ShownBatch, Unanswered
from shared.domain.states import BatchState
from shared.http import paging
from shared.http.access.auth import Reader, Writer
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.work.shown_batches import ShownBatches
from shared.services.prices import price
from shared.settings import Settings

router = APIRouter(prefix="/v1/batches", tags=["batches"], route_class=StrictRoute)

_UNANSWERED = {"batch": Unanswered.LATER, "bulk": Unanswered.LIVE}


@router.get("", response_model=BatchPage, responses=problems(400, 401, 422, 503))
async def list_batches(
    *,
    tenant: Reader,
    services: ServicesDep,
    state: Annotated[BatchState | None, Query(description="Only batches in this state")] = None,
    job: Annotated[UUID | None, Query(description="Only batches with chunks of this job")] = None,
    limit: paging.Limit = 50,
    cursor: paging.Cursor = None,
) -> Response:
    """List the batches of the last 30 days, newest first."""
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[ShownBatches].page(tenant, state=state, job_id=job, after=after, limit=limit + 1)
    batches, following = paging.split_page(rows, limit, lambda batch: (batch.created_at.isoformat(), str(batch.id)))
    return JsonReply(BatchPage(items=await _views(batches, services.settings), next_cursor=following))


@router.get("/{batch_id}", response_model=BatchView, responses=problems(401, 404, 422, 503))
async def get_batch(batch_id: UUID, tenant: Reader, services: ServicesDep) -> Response:
    """Return a batch with its progress."""
    return JsonReply(await _view(await services.ledger[ShownBatches].get(tenant, batch_id), services.settings))


@router.post(
    "/{batch_id}/cancel", status_code=202, response_model=BatchView, responses=problems(401, 403, 404, 409, 422, 503)
)
async def cancel_batch(
    *,
    batch_id: UUID,
    tenant: Writer,
    services: ServicesDep,
    lane: Annotated[
        Literal["batch", "bulk"],
        Query(
            description="Lane of the requests without a result: `batch` plans them again for the next batch, `bulk`"
            " generates their questions now, at the usual price"
        ),
    ] = "batch",
) -> Response:
    """Cancel a batch. The provider ends it within minutes; results that it has by then are paid and stored.

    To stop the load as well, pause or cancel its job first: requests of a paused job wait.
    """
    batch = await services.ledger[ShownBatches].cancel(tenant, batch_id, _UNANSWERED[lane])
    services.wakeups.wake("batches")
    return JsonReply(await _view(batch, services.settings), 202)


async def _view(batch: ShownBatch, settings: Settings) -> BatchView:
    (shown,) = await _views([batch], settings)
    return shown


async def _views(batches: Sequence[ShownBatch], settings: Settings) -> list[BatchView]:
    # The list prices are loaded once: 0.3 s.
    return await asyncio.to_thread(lambda: [BatchView.of(batch, cost=_cost(batch, settings)) for batch in batches])


def _cost(batch: ShownBatch, settings: Settings) -> float | None:
    if not batch.usage.prompt_tokens:
        return None
    known = price(settings, "generate", batch.usage, batch.model, Tier.BATCH)
    return None if known is None else round(known, 8)
