"""Budgets of the ingest: set, list and delete them."""

from __future__ import annotations

from typing import Literal

from foreask_client.models import Budget, TenantLimit
from foreask_client.requests import Request, as_type, delete, get_items, given, segment
from foreask_client.synchronous.connection import Connection


class BudgetsApi(Connection):
    """Methods for the budgets of the key's tenant, or of another tenant with an operator's key."""

    def budgets(self, *, tenant: str | None = None) -> list[Budget]:
        """List the budgets of a tenant and their use."""
        return self.send(get_items(_path(tenant), Budget))

    def set_budget(
        self,
        limit: float,
        *,
        unit: Literal["money", "tokens"] = "money",
        period: Literal["day", "month", "total"],
        collection: str | None = None,
        job_id: str | None = None,
        tenant: str | None = None,
    ) -> Budget:
        """Set a budget, or change the limit of the budget with the same collection or job, period and unit.

        Args:
            limit: maximum in a period: money in the currency of the prices, or tokens of the language model.
            unit: unit of the limit.
            period: time after which the budget starts again, in UTC; `total`: never.
            collection: name of a collection; None: not limited to one.
            job_id: id of a job; None: not limited to one.
            tenant: another tenant, with an operator's key.
        """
        body = {"limit": limit, "unit": unit, "period": period} | given({"collection": collection, "job_id": job_id})
        return self.send(Request("PUT", _path(tenant), as_type(Budget), body=body, repeatable=True))

    def delete_budget(self, budget_id: str, *, tenant: str | None = None) -> None:
        self.send(delete(f"{_path(tenant)}/{segment(budget_id)}"))

    def limits(self, *, tenant: str | None = None) -> list[TenantLimit]:
        """List the limits of a tenant and their use."""
        path = "/v1/limits" if tenant is None else f"/v1/operator/tenants/{segment(tenant)}/limits"
        return self.send(get_items(path, TenantLimit))


def _path(tenant: str | None) -> str:
    return "/v1/budgets" if tenant is None else f"/v1/operator/tenants/{segment(tenant)}/budgets"
