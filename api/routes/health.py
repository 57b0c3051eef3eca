"""Routes of health: liveness of the process, and readiness of the required components. No key is required."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.responses import Response

from api.schemas.health import LiveReply, ReadyReply
from api.state import ReadinessDep
from shared.http.replies import JsonReply
from shared.http.state import ShutdownDep

router = APIRouter(prefix="/health", tags=["health"])
PROBES = ("/health/live", "/health/ready")  # monitors send HEAD, too

_DAMAGED = "The index of {} collections is being compared with the ledger and repaired: see `foreask status`."
_REQUIRED = {"ledger", "uploads"}  # no upload can be accepted without both


@router.get("/live", response_model=LiveReply)
async def get_liveness() -> Response:
    """Report that the process is alive."""
    return JsonReply(LiveReply())


@router.get(
    "/ready",
    response_model=ReadyReply,
    responses={503: {"model": ReadyReply, "description": "No upload can be accepted"}},
)
async def get_readiness(readiness: ReadinessDep, shutdown: ShutdownDep) -> Response:
    """Return the unavailable components.

    200 `ready`, or `degraded` while the broker or Qdrant is unavailable: uploads are still accepted, nothing is lost,
    and queries that cannot be answered return 503. A load balancer should keep such replicas in service. 503
    `unavailable` while the ledger or the upload store is unavailable: no upload can be accepted. 503 `stopping` while
    the process stops: it still answers, but the next request should be sent to another replica.

    `warnings` do not change the status: an index that is being repaired is the same for all replicas, and answers more
    queries than no replica. A provider that fails or pauses is a warning, with its words.
    """
    if shutdown.draining:
        return JsonReply(ReadyReply(status="stopping", components={}, down=[], reasons={}, warnings=[]), 503)
    up = await readiness.of_parts()
    damaged = readiness.damaged
    down = [name for name, answers in up.items() if not answers]
    accepts = not _REQUIRED & set(down)
    status = "unavailable" if not accepts else "degraded" if down else "ready"
    components = {name: "up" if answers else "down" for name, answers in up.items()}
    warnings = [_DAMAGED.format(damaged)] if damaged else []
    warnings += readiness.troubles
    reasons = dict(readiness.reasons)
    health = ReadyReply(status=status, components=components, down=down, reasons=reasons, warnings=warnings)
    return JsonReply(health, 200 if accepts else 503)
