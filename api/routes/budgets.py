"""Routes of budgets: set, list and delete, by a tenant and by operators."""

from __future__ import annotations

import asyncio
from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from api.schemas.budgets import BudgetBody, BudgetList, BudgetView
from shared.domain.spending.budgets import BILLIONTHS, Budget, BudgetUnit, NewBudget, Period, SetBy
from shared.http.access.auth import Manager, Operator, Reader
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import TenantName
from shared.http.state import ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.budgets.budgets import Budgets
from shared.services.api import ApiServices
from shared.services.prices import require_prices

router = APIRouter(prefix="/v1/budgets", tags=["budgets"], route_class=StrictRoute)
operator_router = APIRouter(
    prefix="/v1/operator/tenants/{tenant}/budgets", tags=["operator"], dependencies=[Operator], route_class=StrictRoute
)


@router.get("", response_model=BudgetList, responses=problems(401, 503))
async def list_budgets(tenant: Reader, services: ServicesDep) -> Response:
    """List the budgets of the tenant and their use, including budgets that an operator has set.

    A budget of the settings is listed once the tenant has generated questions.
    """
    return await _list(services, tenant)


@router.put("", response_model=BudgetView, responses=problems(400, 401, 404, 409, 413, 415, 422, 503))
async def set_budget(body: BudgetBody, tenant: Manager, services: ServicesDep) -> Response:
    """Set a budget, or change the limit of the budget with the same collection or job, period and unit.

    A budget stops exactly: before a call its highest possible cost is reserved, and calls that do not fit wait. Texts
    are indexed and found meanwhile. The work continues within seconds after the limit was raised. A new daily or
    monthly budget counts the costs since the start of the period; a total budget and a budget of a job count from now
    on. A limit below the spent and reserved amounts is rejected.
    """
    return await _set(services, tenant, body, SetBy.TENANT)


@router.delete("/{budget_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def delete_budget(budget_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Delete a budget that a key of the tenant has set."""
    return await _delete(services, tenant, budget_id, SetBy.TENANT)


@operator_router.get("", response_model=BudgetList, responses=problems(401, 422, 503))
async def list_tenant_budgets(tenant: TenantName, services: ServicesDep) -> Response:
    """List the budgets of a tenant and their use."""
    return await _list(services, tenant)


@operator_router.put("", response_model=BudgetView, responses=problems(400, 401, 404, 409, 413, 415, 422, 503))
async def set_tenant_budget(body: BudgetBody, tenant: TenantName, services: ServicesDep) -> Response:
    """Set a budget that the tenant can neither change nor delete; otherwise like `PUT /v1/budgets`."""
    return await _set(services, tenant, body, SetBy.OPERATOR)


@operator_router.delete("/{budget_id}", status_code=204, responses=problems(401, 404, 422, 503))
async def delete_tenant_budget(budget_id: UUID, tenant: TenantName, services: ServicesDep) -> Response:
    """Delete a budget that an operator has set."""
    return await _delete(services, tenant, budget_id, SetBy.OPERATOR)


async def _list(services: ApiServices, tenant: str) -> Response:
    return JsonReply(
        BudgetList(items=[budget_view(each) for each in await services.ledger[Budgets].for_tenant(tenant)])
    )


async def _set(services: ApiServices, tenant: str, body: BudgetBody, set_by: SetBy) -> Response:
    unit = BudgetUnit(body.unit)
    if unit is BudgetUnit.MONEY:
        await asyncio.to_thread(require_prices, services.settings, "A budget of money")  # list prices are loaded: 0.3 s
    most = round(body.limit * BILLIONTHS) if unit is BudgetUnit.MONEY else int(body.limit)
    new = NewBudget(tenant, body.collection, body.job_id, Period(body.period), unit, set_by, most)
    budget = await services.ledger[Budgets].set(new)
    services.wakeups.wake("generate")
    return JsonReply(budget_view(budget))


async def _delete(services: ApiServices, tenant: str, budget_id: UUID, set_by: SetBy) -> Response:
    await services.ledger[Budgets].delete(tenant, budget_id, set_by)
    services.wakeups.wake("generate")
    return Response(status_code=204)


def budget_view(budget: Budget) -> BudgetView:
    limit, spent, reserved = map(budget.shown, (budget.most, budget.spent, budget.held))
    return BudgetView.of(budget, limit=limit, spent=spent, reserved=reserved)
