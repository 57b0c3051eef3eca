"""Routes of uploads: addresses of the store, to which a client sends bytes past this server."""

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
    """Get an address of the object store to which the bytes of one document may be sent.

    Send them by PUT, then hand the document in by `POST /v1/documents` with `{"upload": …}`. What is not handed in goes
    after a day or two. 409 where uploads are in a folder.
    """
    offered = await services.uploads.offer(tenant)
    reply = UploadOffer(
        upload=offered.token, url=offered.url, headers=dict(offered.headers), expires_in_seconds=offered.seconds
    )
    return JsonReply(reply, 201)
