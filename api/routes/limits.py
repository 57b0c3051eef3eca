"""Routes of limits: the limits of a tenant, which the settings define, and their use."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

from fastapi import APIRouter
from starlette.responses import Response

from api.schemas.limits import LimitName, TenantLimitList, TenantLimitView
from shared.domain.spending.budgets import BudgetUnit, SetBy
from shared.domain.states import DocumentState
from shared.http.access.auth import Operator, Reader
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import TenantName
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.budgets.budgets import Budgets
from shared.ledger.documents.documents import Documents
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices
from shared.settings import TenantLimits

router = APIRouter(prefix="/v1/limits", tags=["budgets"], route_class=StrictRoute)
operator_router = APIRouter(
    prefix="/v1/operator/tenants/{tenant}/limits", tags=["operator"], dependencies=[Operator], route_class=StrictRoute
)


@router.get("", response_model=TenantLimitList, responses=problems(401, 503))
async def list_limits(tenant: Reader, services: ServicesDep) -> Response:
    """List the limits of the tenant and their use. The server's settings define them."""
    return await _list(services, tenant)


@operator_router.get("", response_model=TenantLimitList, responses=problems(401, 422, 503))
async def list_tenant_limits(tenant: TenantName, services: ServicesDep) -> Response:
    """List the limits of a tenant and their use."""
    return await _list(services, tenant)


async def _list(services: ApiServices, tenant: str) -> Response:
    limits = services.settings.limits_of(tenant)
    used = await _existing(services, tenant) | await _used_today(services, tenant, limits)
    items = [TenantLimitView(name=name, limit=getattr(limits, name), used=used[name]) for name in get_args(LimitName)]
    return JsonReply(TenantLimitList(items=items))


async def _existing(services: ApiServices, tenant: str) -> dict[str, float | None]:
    documents = await services.ledger[Documents].counts(tenant)
    return {
        "documents": sum(count for state, count in documents.items() if state is not DocumentState.DELETING),
        "collections": await services.ledger[Collections].count(tenant),
    }


async def _used_today(services: ApiServices, tenant: str, limits: TenantLimits) -> dict[str, float | None]:
    """Return the use of each daily limit. Without a limit, uploads and queries are not counted."""
    use = services.tenant_use
    has_limit = limits.query_tokens_per_day is not None or limits.query_cost_per_day is not None
    of_queries = await use.spend(tenant, 0, 0.0) if has_limit else None
    tokens, cost = of_queries or (None, None)
    uploads = None if limits.upload_bytes_per_day is None else await use.uploaded_today(tenant)
    of_ingest = await _spent_on_ingest(services, tenant)
    return {
        "requests_per_second": None,
        "upload_bytes_per_day": uploads,
        "tokens_per_day": None if limits.tokens_per_day is None else of_ingest.get(BudgetUnit.TOKENS),
        "cost_per_day": None if limits.cost_per_day is None else of_ingest.get(BudgetUnit.MONEY),
        "query_tokens_per_day": None if limits.query_tokens_per_day is None else tokens,
        "query_cost_per_day": None if limits.query_cost_per_day is None else cost,
    }


async def _spent_on_ingest(services: ApiServices, tenant: str) -> Mapping[BudgetUnit, float]:
    """Return the use of the budgets of the settings, which exist after the first generation."""
    budgets = await services.ledger[Budgets].for_tenant(tenant)
    return {each.unit: each.shown(each.spent + each.held) for each in budgets if each.set_by is SetBy.SETTINGS}
