"""Routes of erasures: delete documents, a collection, or all data of a tenant, with everything derived from it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query
from starlette.responses import Response

from features.erasure.check import ErasureScope, erasure_check_of
from features.erasure.domain import ErasedDocument
from features.erasure.ledger.erasures import Erasures
from features.erasure.ledger.previews import Previews
from features.erasure.schemas import (
    ErasureCheckView,
    ErasurePage,
    ErasurePreviewRequest,
    ErasurePreviewView,
    ErasureView,
    FoundDocumentView,
    FoundRecordsView,
    PersonErasure,
    RemainingDataView,
    RemainingPartView,
)
from shared.domain.errors import InvalidInput, Unavailable
from shared.http import paging
from shared.http.access.auth import Manager, Operator
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName, TenantName
from shared.http.state import CollectionCacheDep, ServicesDep
from shared.http.strict_route import StrictRoute
from shared.ledger.model.collections import Collections
from shared.services.features import erased_tables

router = APIRouter(prefix="/v1", tags=["erasures"], route_class=StrictRoute)
operator_router = APIRouter(prefix="/v1/operator", tags=["operator"], dependencies=[Operator])
ERASURE_ROUTES = FeatureRoutes(
    (router, operator_router),
    {"name": "erasures", "description": "Find a person's data; delete documents or a collection with derived data."},
)

# Without an example, so that no request that is generated from the OpenAPI document erases a tenant.
_Confirmation = Annotated[str | None, Query(description="Required: the tenant's name, as in the path")]


@router.delete(
    "/collections/{name}", status_code=202, response_model=ErasureView, responses=problems(401, 404, 422, 503)
)
async def delete_collection(
    name: CollectionName, tenant: Manager, services: ServicesDep, collection_cache: CollectionCacheDep
) -> Response:
    """Erase a collection with everything derived from it. It is invisible from now on.

    Until the erasure has finished, no collection of that name is created: uploads to it are answered 409.
    """
    erasure = await services.ledger[Erasures].start(tenant, name)
    collection_cache.forget(tenant, name)
    return JsonReply(ErasureView.of(erasure), 202, {"location": f"/v1/erasures/{erasure.id}"})


@router.post("/erasure-previews", response_model=ErasurePreviewView, responses=problems(400, 401, 404, 422, 503))
async def preview_erasure(body: ErasurePreviewRequest, tenant: Manager, services: ServicesDep) -> Response:
    """Find the documents and the users' records in which texts that name a person occur. Nothing is changed.

    All texts are read, in pages of some seconds: send the request again with `next_cursor` until it is null, and add up
    the results.
    """
    previews = Previews(services.parts.database, erased_tables(services.parts.features))
    position = paging.read_cursor(body.cursor, previews.read_position)
    if body.collection is not None:
        await services.ledger[Collections].require(tenant, body.collection)
    named = [] if position is not None else await previews.named(tenant, body.document_ids)
    if not body.texts:
        return JsonReply(
            ErasurePreviewView(documents=_views(named), examined=0, records=FoundRecordsView(), next_cursor=None)
        )
    page = await previews.page(tenant, body.texts, body.collection, position)
    found = {document.id for document in page.documents}
    documents = [*page.documents, *(document for document in named if document.id not in found)]
    following = None if page.following is None else paging.cursor_of(page.following.key())
    records = FoundRecordsView(**page.records)
    return JsonReply(
        ErasurePreviewView(documents=_views(documents), examined=page.examined, records=records, next_cursor=following)
    )


@router.post("/erasures", status_code=202, response_model=ErasureView, responses=problems(400, 401, 404, 422, 503))
async def erase_person(body: PersonErasure, tenant: Manager, services: ServicesDep) -> Response:
    """Erase documents, and users' records in which texts that name a person occur.

    The documents are invisible from now on. The scheduler deletes them, and then the logged queries, gaps, accepted
    questions, shared answers and stored conversations with the texts. The texts are forgotten when the erasure has
    finished. A repeated request starts no second erasure of the same data.
    """
    erasure = await services.ledger[Erasures].start_documents(tenant, body.document_ids, body.texts)
    return JsonReply(ErasureView.of(erasure), 202, {"location": f"/v1/erasures/{erasure.id}"})


@router.get("/erasures", response_model=ErasurePage, responses=problems(400, 401, 422, 503))
async def list_erasures(
    tenant: Manager, services: ServicesDep, limit: paging.Limit = 50, cursor: paging.Cursor = None
) -> Response:
    """List erasures, newest first."""
    after = paging.read_cursor(cursor, paging.read_time_and_id)
    rows = await services.ledger[Erasures].page(tenant, after=after, limit=limit + 1)
    erasures, following = paging.split_page(rows, limit, lambda each: (each.started_at.isoformat(), str(each.id)))
    return JsonReply(ErasurePage(items=[ErasureView.of(each) for each in erasures], next_cursor=following))


@router.get(
    "/erasures/{erasure_id}/remaining-data",
    response_model=ErasureCheckView,
    responses=problems(401, 404, 422, 503),
)
async def get_remaining_data(erasure_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Search PostgreSQL and Qdrant for leftovers of an erasure, which may take a while. Backups are not covered."""
    erasure = await services.ledger[Erasures].get(erasure_id, tenant)
    locations = [RemainingPartView.of(each) for each in await erasure_check_of(services.parts).of_erasure(erasure)]
    return JsonReply(ErasureCheckView(found=sum(each.count for each in locations), locations=locations))


@router.get("/erasures/{erasure_id}", response_model=ErasureView, responses=problems(401, 404, 422, 503))
async def get_erasure(erasure_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
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
async def get_operator_erasure(erasure_id: UUID, services: ServicesDep) -> Response:
    """Return the progress of an erasure of any tenant."""
    return JsonReply(ErasureView.of(await services.ledger[Erasures].get(erasure_id)))


@operator_router.get(
    "/tenants/{tenant}/remaining-data", response_model=RemainingDataView, responses=problems(401, 422, 502, 503)
)
async def get_tenant_remaining_data(tenant: TenantName, services: ServicesDep) -> Response:
    """Search PostgreSQL, Qdrant, Valkey, the upload store and the provider's input files for leftovers of a tenant.

    All rows are read, and all objects of the store are listed, which may take a while. Backups are not covered.
    """
    try:
        findings = await erasure_check_of(services.parts).run(ErasureScope(tenant))
    except OSError as error:
        raise Unavailable("The store of uploads cannot be read.", component="uploads") from error
    remains = [RemainingPartView.of(each) for each in findings]
    return JsonReply(RemainingDataView(tenant=tenant, found=sum(each.count for each in findings), locations=remains))


def _views(documents: Sequence[ErasedDocument]) -> list[FoundDocumentView]:
    return [FoundDocumentView.of(each) for each in documents]
