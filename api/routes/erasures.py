"""Routes of erasures: a collection is deleted with everything that was derived from it."""

from __future__ import annotations

from uuid import UUID

from fastapi import APIRouter
from starlette.responses import Response

from api.deps import CollectionCacheDep, ServicesDep
from api.http.auth import Manager
from api.http.openapi import problems
from api.http.replies import JsonReply
from api.schemas.common import CollectionName
from api.schemas.erasures import ErasureView
from shared.domain.erasures import Erasure

router = APIRouter(prefix="/v1", tags=["erasures"])


@router.delete(
    "/collections/{name}", status_code=202, response_model=ErasureView, responses=problems(401, 404, 422, 503)
)
async def erase_collection(
    name: CollectionName, tenant: Manager, services: ServicesDep, collection_cache: CollectionCacheDep
) -> Response:
    """Erase a collection with everything that was derived from it. Nobody finds it from now on.

    Until the erasure has finished no collection of that name is made: uploads to it are answered 409.
    """
    erasure = await services.ledger.erasures.begin(tenant, name)
    collection_cache.forget(tenant, name)
    return JsonReply(_view(erasure), 202, {"location": f"/v1/erasures/{erasure.id}"})


@router.get("/erasures/{erasure_id}", response_model=ErasureView, responses=problems(401, 404, 422, 503))
async def get(erasure_id: UUID, tenant: Manager, services: ServicesDep) -> Response:
    """Look how far an erasure is."""
    return JsonReply(_view(await services.ledger.erasures.get(erasure_id, tenant)))


def _view(erasure: Erasure) -> ErasureView:
    return ErasureView(
        id=erasure.id,
        collection=erasure.collection,
        document_id=erasure.document_id,
        state="running" if erasure.finished_at is None else "finished",
        documents_left=erasure.documents_left,
        deleted=dict(erasure.deleted),
        started_at=erasure.started_at,
        finished_at=erasure.finished_at,
    )
