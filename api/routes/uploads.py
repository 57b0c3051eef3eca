"""Routes of direct uploads: clients send bytes to addresses of the object store, not to this server."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.schemas.documents import UploadBody, UploadOffer
from shared.domain.errors import TooLarge
from shared.http.access.auth import Writer
from shared.http.openapi import problems
from shared.http.replies import JsonReply
from shared.http.state import QuotasDep, ServicesDep
from shared.http.strict_route import StrictRoute

router = APIRouter(prefix="/v1/uploads", tags=["documents"], route_class=StrictRoute)


@router.post(
    "", status_code=201, response_model=UploadOffer, responses=problems(400, 401, 409, 413, 415, 422, 429, 503)
)
async def create_upload(body: UploadBody, tenant: Writer, services: ServicesDep, quotas: QuotasDep) -> Response:
    """Return an address of the object store for the bytes of one document.

    Send them by PUT, then submit the document by `POST /v1/documents` with `{"upload": …}`. The bytes count towards the
    tenant's limit per day at once, and are given back if the address is not used. A tenant has at most 100 addresses
    without a document. Bytes that are not submitted are deleted after a day or two. Returns 409 if uploads are stored
    in a folder.
    """
    most = services.settings.max_upload_bytes
    if body.size_bytes > most:
        raise TooLarge(f"The document is larger than {most:,} bytes (FOREASK_MAX_UPLOAD_BYTES).")
    offered = await quotas.offer(tenant, body.size_bytes, services.uploads)
    reply = UploadOffer(
        upload=offered.token, url=offered.url, headers=dict(offered.headers), expires_in_seconds=offered.seconds
    )
    return JsonReply(reply, 201)
