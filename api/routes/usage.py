"""The route of usage: costs of ingest calls by day, collection or model."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.responses import Response

from api.schemas.status import UsageGroupView, UsageKey, UsageReply
from shared.domain.spending.tiers import Tier
from shared.domain.spending.usage import CostKind, Usage
from shared.http.access.auth import Reader
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import ServicesDep
from shared.ledger.work.costs import CostOfDay, Costs
from shared.services.prices import price
from shared.settings import Settings

router = APIRouter(prefix="/v1", tags=["status"])


@router.get("/usage", response_model=UsageReply, responses=problems(400, 401, 422, 503))
async def get_usage(
    tenant: Reader,
    services: ServicesDep,
    by: UsageKey = "day",
    days: Annotated[int, Query(ge=1, le=366, description="Number of days in UTC, including today")] = 30,
) -> Response:
    """Return the costs of all ingest calls, including failed ones."""
    costs = await services.ledger[Costs].by_day(tenant, days)
    items = await asyncio.to_thread(
        _groups, services.settings, costs, by
    )  # the list prices are loaded once, which takes 0.3 s
    return JsonReply(UsageReply(by=by, days=days, items=items))


def _groups(settings: Settings, costs: Iterable[CostOfDay], by: UsageKey) -> list[UsageGroupView]:
    groups: dict[tuple[object, CostKind, Tier], list[CostOfDay]] = {}
    for cost in costs:
        groups.setdefault((getattr(cost, by), cost.kind, cost.tier), []).append(cost)
    return [
        _group(settings, members, by)
        for _, members in sorted(groups.items(), key=lambda item: (str(item[0][0] or ""), *item[0][1:]))
    ]


def _group(settings: Settings, members: Sequence[CostOfDay], by: UsageKey) -> UsageGroupView:
    prices = [price(settings, member.kind, member.usage, member.model, member.tier) for member in members]
    priced = [each for each in prices if each is not None]
    total = sum((member.usage for member in members), Usage())
    first = members[0]
    return UsageGroupView.of(
        total,
        day=first.day if by == "day" else None,
        collection=first.collection if by == "collection" else None,
        model=first.model if by == "model" else None,
        kind=first.kind,
        tier=first.tier.value,
        calls=sum(member.calls for member in members),
        cost=round(sum(priced), 8) if priced else None,
        unpriced_calls=sum(m.calls for m, each in zip(members, prices, strict=True) if each is None),
        estimated_calls=sum(member.calls for member in members if member.is_estimated),
    )
