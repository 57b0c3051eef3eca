"""Routes of health: whether the process lives, and whether the parts that it needs answer. No key is needed."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.http.replies import JsonReply
from api.schemas.health import LiveReply, ReadyReply
from api.state import ReadinessDep, ShutdownDep

router = APIRouter(prefix="/health", tags=["health"])

_NEEDED = {"ledger", "uploads"}  # without either nothing can be accepted


@router.get("/live", response_model=LiveReply)
async def live() -> Response:
    """The process answers."""
    return JsonReply(LiveReply())


@router.get(
    "/ready",
    response_model=ReadyReply,
    responses={503: {"model": ReadyReply, "description": "No upload can be accepted"}},
)
async def ready(readiness: ReadinessDep, shutdown: ShutdownDep) -> Response:
    """Name the unavailable parts.

    200 `ready`, or `degraded` while the broker or Qdrant is unavailable. Uploads are then still accepted, and nothing
    is lost; queries that cannot be answered end with 503. A load balancer that took every replica out of service would
    help neither. 503 `unavailable` while the ledger is unavailable, or the upload store takes none: then nothing can be
    accepted here. 503 `stopping` while the process stops: it still answers, and the next request should go to another
    replica.
    """
    if shutdown.draining:
        return JsonReply(ReadyReply(status="stopping", components={}, down=[]), 503)
    up = await readiness.of_parts()
    down = [name for name, answers in up.items() if not answers]
    accepts = not _NEEDED & set(down)
    status = "unavailable" if not accepts else "degraded" if down else "ready"
    components = {name: "up" if answers else "down" for name, answers in up.items()}
    health = ReadyReply.model_validate({"status": status, "components": components, "down": down})
    return JsonReply(health, 200 if accepts else 503)
