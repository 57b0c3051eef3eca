"""Routes of direct uploads: clients send bytes to addresses of the object store, not to this server."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.access.auth import Writer
from api.http.openapi import problems
from api.http.replies import JsonReply
from api.schemas.documents import UploadOffer
from api.state import ServicesDep

router = APIRouter(prefix="/v1/uploads", tags=["documents"])


@router.post("", status_code=201, response_model=UploadOffer, responses=problems(401, 409, 503))
async def offer(tenant: Writer, services: ServicesDep) -> Response:
    """Return an address of the object store for the bytes of one document.

    Send them by PUT, then submit the document by `POST /v1/documents` with `{"upload": …}`. Bytes that are not
    submitted are deleted after a day or two. Returns 409 if uploads are stored in a folder.
    """
    offered = await services.uploads.offer(tenant)
    reply = UploadOffer(
        upload=offered.token, url=offered.url, headers=dict(offered.headers), expires_in_seconds=offered.seconds
    )
    return JsonReply(reply, 201)
