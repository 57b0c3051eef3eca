"""The routes of the status: open work, its rate, and the use of each limit."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.features import FEATURE_ROUTES
from api.progress.status import read_work
from api.routes.budgets import budget_view
from api.schemas.status import (
    DamageView,
    HistoryReply,
    LimitView,
    MinuteView,
    ResumedView,
    StageView,
    StatusView,
    UnservedView,
    UsageView,
)
from api.state import ReadinessDep
from shared.domain.corpus.collections import Collection
from shared.domain.spending.limit_use import LimitUse
from shared.domain.states import DocumentState
from shared.http.access.auth import Reader, Writer
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.ledger.documents.documents import Documents
from shared.ledger.jobs.repairs import Repairs
from shared.ledger.model.counters import Counters
from shared.ledger.work.costs import Costs, CostSum
from shared.services.api import ApiServices
from shared.services.prices import price

router = APIRouter(prefix="/v1", tags=["status"])


@router.get("/status", response_model=StatusView, responses=problems(401, 503))
async def get_status(tenant: Reader, services: ServicesDep, readiness: ReadinessDep) -> Response:
    """Return the tenant's open work by stage, its dead letters, its rate, its costs, and the limits that slow it.

    `unserved` counts the chunks with an embedding that the API's settings do not contain. They are not dead, but they
    wait until a worker has the embedding in `FOREASK_EMBEDDINGS`.

    `usage` counts every billed call of the ingest, including calls for failed attempts, replaced versions and deleted
    documents. The cost of a query is in its reply.

    `pace` describes the bottleneck in one sentence: the first of an unavailable component, a provider that fails or
    pauses, with its words, a limit that is used by more than nine tenths, an exhausted budget, and a stage without
    workers. `values` contains the numbers and names of the sentence.

    The broker counts the use of limits, so `limits` is null while the broker is unavailable. A provider's limits are
    shared by all tenants.
    """
    counts = await services.ledger[Documents].counts(tenant)
    work = await read_work(services, readiness, tenant)
    backlog = work.backlog
    return JsonReply(
        StatusView(
            documents={state.value: n for state, n in counts.items() if state is not DocumentState.DELETING},
            stages={queue: StageView.of(waiting) for queue, waiting in backlog.stages.items()},
            unserved=[UnservedView(embedding_model=m, chunks=n) for m, n in backlog.unserved.items()],
            dead=backlog.dead,
            chunks_per_minute=round(backlog.chunks_per_minute, 1),
            eta_seconds=work.eta_seconds,
            pace=work.pace,
            usage=[_usage(services, spent) for spent in await services.ledger[Costs].sums(tenant)],
            budgets=[budget_view(budget) for budget in work.budgets],
            **work.of_features,
            outdated=await services.ledger[Documents].outdated(tenant),
            damaged=[_damage(each) for each in await services.ledger[Repairs].of_tenant(tenant)],
            limits=None if work.uses is None else [_limit(use) for use in work.uses],
            **await _fields_of_features(tenant, services),
        )
    )


@router.post("/status/resume", response_model=ResumedView, responses=problems(401, 503))
async def resume_load(tenant: Writer, services: ServicesDep) -> Response:
    """Resume the tenant's load, if it is paused because most replies of the language model could not be used.

    Without this, one chunk is tried every few minutes, and the load continues when its reply is usable.
    """
    resumed = await services.limiters.llm.endings.resume(tenant)
    services.wakeups.wake("generate")
    return JsonReply(ResumedView(resumed=resumed))


@router.get("/status/history", response_model=HistoryReply, responses=problems(400, 401, 422, 503))
async def get_status_history(
    tenant: Reader,
    services: ServicesDep,
    minutes: Annotated[int, Query(ge=1, le=1440, description="Number of minutes, including the current one")] = 60,
) -> Response:
    """Return the work that finished in each of the last minutes, of a day at most; minutes without any are 0."""
    finished = await services.ledger[Counters].history(tenant, minutes)
    return JsonReply(HistoryReply(items=[MinuteView.of(each) for each in finished]))


def _damage(collection: Collection) -> DamageView:
    return DamageView.of(collection.damage, collection=collection.name)


def _usage(services: ApiServices, spent: CostSum) -> UsageView:
    return UsageView.of(spent, cost=price(services.settings, spent.kind, spent.usage, spent.model, spent.tier))


async def _fields_of_features(tenant: str, services: ApiServices) -> dict[str, Any]:
    fields = [await feature.status(tenant, services) for feature in FEATURE_ROUTES if feature.status is not None]
    return {name: value for of_one in fields for name, value in of_one.items()}


def _limit(use: LimitUse) -> LimitView:
    return LimitView.of(use, reason=use.reason or None, failing_seconds=use.failing if use.reason else None)
