"""Routes of erasures: delete a collection, or all data of a tenant, with everything derived from it."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from features.erasure.check import ErasureScope, erasure_check_of
from features.erasure.ledger.erasures import Erasures
from features.erasure.schemas import ErasureView, RemainingDataView, RemainingPartView
from shared.domain.errors import InvalidInput, Unavailable
from shared.http.access.auth import Manager, Operator
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName, TenantName
from shared.http.state import CollectionCacheDep, ServicesDep

router = APIRouter(prefix="/v1", tags=["erasures"])
operator_router = APIRouter(prefix="/v1/operator", tags=["operator"], dependencies=[Operator])
ERASURE_ROUTES = FeatureRoutes(
    (router, operator_router), {"name": "erasures", "description": "Delete a collection with all derived data."}
)

# Without an example, so that no request that is generated from the OpenAPI document erases a tenant.
_Confirmation = Annotated[str | None, Query(description="Required: the tenant's name, as in the path")]


@router.delete(
    "/collections/{name}", status_code=202, response_model=ErasureView, responses=problems(401, 404, 422, 503)
)
async def erase_collection(
    name: CollectionName, tenant: Manager, services: ServicesDep, collection_cache: CollectionCacheDep
) -> Response:
    """Erase a collection with everything derived from it. It is invisible from now on.

    Until the erasure has finished, no collection of that name is created: uploads to it are answered 409.
    """
    erasure = await services.ledger[Erasures].start(tenant, name)
    collection_cache.forget(tenant, name)
    return JsonReply(ErasureView.of(erasure), 202, {"location": f"/v1/erasures/{erasure.id}"})


@router.get("/erasures/{erasure_id}", response_model=ErasureView, responses=problems(401, 404, 422, 503))
async def get(erasure_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Return the progress of an erasure."""
    return JsonReply(ErasureView.of(await services.ledger[Erasures].get(erasure_id, tenant)))


@operator_router.delete(
    "/tenants/{tenant}", status_code=202, response_model=ErasureView, responses=problems(401, 422, 503)
)
async def erase_tenant(
    tenant: TenantName, services: ServicesDep, collection_cache: CollectionCacheDep, confirm: _Confirmation = None
) -> Response:
    """Erase a tenant with everything derived from its data. It is invisible from now on.

    The request must repeat the tenant's name in `confirm`, because an erasure cannot be undone.

    Until the erasure has finished, the tenant's uploads are answered 409. Its keys in the ledger are deleted last;
    keys in the settings stay.
    """
    if confirm != tenant:
        raise InvalidInput(
            f"This erases all data of the tenant '{tenant}': to confirm, add ?confirm={tenant} to the address.",
            field="confirm",
        )
    erasure = await services.ledger[Erasures].start(tenant)
    collection_cache.forget_tenant(tenant)
    return JsonReply(ErasureView.of(erasure), 202, {"location": f"/v1/operator/erasures/{erasure.id}"})


@operator_router.get("/erasures/{erasure_id}", response_model=ErasureView, responses=problems(401, 404, 422, 503))
async def get_of_any_tenant(erasure_id: UUID, services: ServicesDep) -> Response:
    """Return the progress of an erasure of any tenant."""
    return JsonReply(ErasureView.of(await services.ledger[Erasures].get(erasure_id)))


@operator_router.get(
    "/tenants/{tenant}/remaining-data", response_model=RemainingDataView, responses=problems(401, 422, 502, 503)
)
async def remains(tenant: TenantName, services: ServicesDep) -> Response:
    """Search PostgreSQL, Qdrant, Valkey, the upload store and the provider's input files for leftovers of a tenant.

    All rows are read, and all objects of the store are listed, which may take a while. Backups are not covered.
    """
    try:
        findings = await erasure_check_of(services.parts).run(ErasureScope(tenant))
    except OSError as error:
        raise Unavailable("The store of uploads cannot be read.", component="uploads") from error
    remains = [RemainingPartView.of(each) for each in findings]
    return JsonReply(RemainingDataView(tenant=tenant, found=sum(each.count for each in findings), locations=remains))
