"""Routes of health: whether the process lives, and whether the parts that it needs answer. No key is needed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import ServicesDep
from api.http.replies import JsonReply
from api.schemas.health import LiveReply, ReadyReply
from shared.domain.errors import Permanent, Transient

router = APIRouter(prefix="/health", tags=["health"])
log = structlog.get_logger()

_SECONDS = 2.0
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
async def ready(request: Request, services: ServicesDep) -> Response:
    """Name what is down.

    200 `ready`, or `degraded` while the broker or Qdrant is down. Uploads are then still accepted, and nothing is lost;
    queries that cannot be answered end with 503. A load balancer that took every replica out of service would help
    neither. 503 `unavailable` while the ledger is down, or the store of uploads takes none: then nothing can be
    accepted here. 503 `stopping` while the process ends: it still answers, and the next request is for another replica.
    """
    if request.app.state.draining:
        return JsonReply(ReadyReply(status="stopping", components={}, down=[]), 503)
    checks = {
        "ledger": services.database.ping(),
        "broker": services.wakeups.ready(),
        "qdrant": services.index.ready(),
        "uploads": services.uploads.ready(),
    }
    up = dict(zip(checks, await asyncio.gather(*map(_answers, checks.values())), strict=True))
    down = [name for name, answers in up.items() if not answers]
    if down:
        log.warning("readiness.failed", down=down)
    accepts = not _NEEDED & set(down)
    status = "unavailable" if not accepts else "degraded" if down else "ready"
    components = {name: "up" if answers else "down" for name, answers in up.items()}
    health = ReadyReply.model_validate({"status": status, "components": components, "down": down})
    return JsonReply(health, 200 if accepts else 503)


async def _answers(check: Awaitable[None]) -> bool:
    try:
        async with asyncio.timeout(_SECONDS):
            await check
    except (Transient, Permanent, TimeoutError):
        return False
    return True
