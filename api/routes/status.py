"""The route of the status: open work, its rate, and the use of each limit."""

from __future__ import annotations

import dataclasses

from fastapi import APIRouter
from starlette.responses import Response

from api.deps import ReadinessDep, ServicesDep
from api.http.auth import Reader
from api.http.openapi import problems
from api.http.replies import JsonReply
from api.pace import pace
from api.schemas.estimates import EstimateView, KeptEstimateView, SpentView
from api.schemas.status import BudgetView, LimitView, StageView, StatusView, UnservedView, UsageView
from shared.domain.errors import Transient
from shared.domain.estimates import KeptEstimate
from shared.domain.records import DocumentState
from shared.estimates.budgets import BudgetUse
from shared.estimates.prices import price
from shared.ledger.backlog import Waiting
from shared.ledger.costs import CostSum
from shared.providers.limiter.usage import LimitUse
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1", tags=["status"])

_USED_UP = (
    "The budget of the day is used up: no questions are generated until midnight in UTC. Until then documents are found"
    " by their texts."
)


@router.get("/status", response_model=StatusView, responses=problems(401, 503))
async def status(tenant: Reader, services: ServicesDep, readiness: ReadinessDep) -> Response:
    """Show the tenant's open work by stage, its dead letters, its rate, what it has spent, and the limits that slow it.

    `unserved` counts the chunks that wait to be indexed with an embedding that the API's settings do not describe:
    nothing dies of it, but nothing happens to them either until a worker has it in `FOREASK_EMBEDDINGS`.

    `usage` counts every call of the ingest that was billed: also of attempts that failed, of replaced versions and of
    deleted documents. What a query costs is in its reply.

    `pace` says in one sentence what keeps the work from being faster: the first of a part that does not answer, an
    open breaker, a provider that asked to wait, a limit of which more than nine tenths are used, the budget of the day,
    and a stage without workers.

    The broker has the limits' counts: `limits` is null while the broker is away. A provider's limits are shared by all
    tenants.
    """
    counts = await services.ledger.documents.counts(tenant)
    backlog = await services.ledger.backlogs.measure(tenant, services.embeddings)
    budget, parts = await services.budgets.of(tenant), await readiness.of_parts()
    uses = await _limits(services, tenant) if parts["broker"] else None
    workers: dict[str, int] = dict.fromkeys(backlog.stages, 0)
    for process in await services.ledger.heartbeats.seen():
        if process.alive and process.role in workers:
            workers[process.role] += 1
    return JsonReply(
        StatusView(
            documents={state.value: n for state, n in counts.items() if state is not DocumentState.DELETING},
            stages={queue: stage_view(waiting) for queue, waiting in backlog.stages.items()},
            unserved=[UnservedView(embedding_model=m, chunks=n) for m, n in backlog.unserved.items()],
            dead=backlog.dead,
            chunks_per_minute=round(backlog.rate, 1),
            eta_seconds=None if backlog.eta is None else round(backlog.eta.total_seconds()),
            pace=pace(backlog, parts, uses or (), workers, budget),
            usage=[_usage(services, spent) for spent in await services.ledger.costs.sums(tenant)],
            estimates=[_kept(kept) for kept in await services.ledger.estimates.kept(tenant)],
            budget=_budget(budget),
            limits=None if uses is None else [_limit(use) for use in uses],
        )
    )


def stage_view(waiting: Waiting) -> StageView:
    return StageView(
        due=waiting.due,
        in_flight=waiting.in_flight,
        later=waiting.later,
        oldest_seconds=None if waiting.oldest is None else round(waiting.oldest.total_seconds(), 1),
    )


def _usage(services: ApiServices, spent: CostSum) -> UsageView:
    return UsageView(
        collection=spent.collection,
        kind=spent.kind,
        model=spent.model,
        prompt_tokens=spent.usage.prompt_tokens,
        completion_tokens=spent.usage.completion_tokens,
        calls=spent.calls,
        cost=price(services.settings, spent.kind, spent.usage, spent.model),
    )


def _budget(use: BudgetUse | None) -> BudgetView | None:
    if use is None:
        return None
    notice = _USED_UP if use.used_up else None
    return BudgetView(**dataclasses.asdict(use), notice=notice)


def _kept(kept: KeptEstimate) -> KeptEstimateView:
    return KeptEstimateView(
        collection=kept.collection,
        at=kept.at,
        estimate=EstimateView.model_validate(kept.estimate),
        since=SpentView(**dataclasses.asdict(kept.since)),
    )


async def _limits(services: ApiServices, tenant: str) -> list[LimitUse] | None:
    try:
        return await services.limiters.usage(tenant)
    except Transient:
        return None


def _limit(use: LimitUse) -> LimitView:
    return LimitView(
        name=use.name,
        per_minute=use.limit,
        used=use.used,
        in_flight=use.in_flight,
        in_flight_limit=use.in_flight_limit,
        breaker=use.breaker,
        cooldown_seconds=round(use.cooldown.total_seconds(), 1),
    )
