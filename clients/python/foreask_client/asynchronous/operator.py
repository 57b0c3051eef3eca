"""The deployment: methods that need an operator's key."""

from __future__ import annotations

from collections.abc import AsyncIterator

from foreask_client.asynchronous.connection import Connection
from foreask_client.models import AuditEntry, Erasure, Json
from foreask_client.requests import AsyncEvents, Pages, Request, Stream, as_type, get, given, segment


class OperatorApi(Connection):
    """Methods for all tenants of a deployment."""

    async def deployment_status(self) -> Json:
        """Return the open work of all tenants together."""
        return await self.send(get("/v1/operator/status", Json))

    def tenants(self) -> AsyncIterator[Json]:
        """List the tenants with their open work."""
        return self.items(Pages("/v1/operator/tenants", {}, dict))

    def tenant_collections(self, tenant: str) -> AsyncIterator[Json]:
        """List a tenant's collections."""
        return self.items(Pages(f"{_path(tenant)}/collections", {}, dict))

    def verify_tenant(self, tenant: str, collection: str, *, repair: bool = False) -> AsyncEvents:
        """Compare a tenant's collection with Qdrant: events `finding`, `progress`, `done`."""
        path = f"{_path(tenant)}/collections/{segment(collection)}/verify"
        return self.events_of(Stream(path, {"repair": repair}))

    async def erase_tenant(self, tenant: str) -> Erasure:
        """Start to erase all data of a tenant, and confirm it by the tenant's name."""
        confirmed = {"confirm": tenant}
        return await self.send(Request("DELETE", _path(tenant), as_type(Erasure), params=confirmed, repeatable=True))

    async def erasure_of_any_tenant(self, erasure_id: str) -> Erasure:
        return await self.send(get(f"/v1/operator/erasures/{segment(erasure_id)}", Erasure))

    def operator_audit(
        self,
        *,
        object: str | None = None,  # noqa: A002  the parameter's name
        name: str | None = None,
        actor: str | None = None,
    ) -> AsyncIterator[AuditEntry]:
        """List changes that operators, and commands on the server, have made for any tenant, newest first."""
        filters = given({"object": object, "name": name, "actor": actor})
        return self.items(Pages("/v1/operator/audit", filters, AuditEntry.model_validate))

    async def remaining_data(self, tenant: str) -> Json:
        """Return the data of a tenant that is left in the engines."""
        return await self.send(get(f"{_path(tenant)}/remaining-data", Json))


def _path(tenant: str) -> str:
    return f"/v1/operator/tenants/{segment(tenant)}"
