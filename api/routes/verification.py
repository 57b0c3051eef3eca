"""Verification: a collection compared with Qdrant, and mended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import asdict

import structlog
from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import ServicesDep
from api.http.auth import Tenant
from api.http.bodies import read_json
from api.http.middleware import log_crash
from api.http.openapi import json_body, replies
from api.http.problems import problem_of
from api.http.replies import Json, event, event_stream
from api.schemas import CollectionName, FindingView, VerificationCountsView, VerificationReply, VerifyBody
from shared.domain.errors import ForeaskError
from shared.maintenance.verification import Finding, VerificationCounts
from shared.maintenance.verification import Verification as Comparison
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections", tags=["collections"])
log = structlog.get_logger()

_DETAILED = 1000


@router.post(
    "/{name}/verify",
    response_model=VerificationReply,
    responses=replies(
        {
            200: {
                "description": "What differs; where `Accept` has text/event-stream, server-sent events: `progress`"
                " (counts so far), `finding` (a point that differs, at most 1,000), `done` (all counts) or `error`"
                " (problem details)",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
        *(400, 401, 404, 413, 415, 422, 502, 503),
    ),
    openapi_extra=json_body(VerifyBody),
)
async def verify(request: Request, name: CollectionName, tenant: Tenant, services: ServicesDep) -> Response:
    """Compare a collection with Qdrant, and with `repair` bring back what is missing and remove what is too much.

    What is missing is indexed again from questions that are paid for: no model is called. Documents that are in work
    are left out.
    """
    body = await read_json(request, VerifyBody, services.settings.max_json_bytes)
    collection = await services.ledger.collections.get(tenant, name)
    comparison = Comparison(services.ledger.audit, services.index, collection, repair=body.repair)
    if "text/event-stream" in request.headers.get("accept", ""):
        return event_stream(_streamed(comparison, services, request.url.path))
    findings = [item async for item in _detailed(comparison) if isinstance(item, Finding)]
    _ring(comparison, services)
    counts = asdict(comparison.so_far)
    return Json(VerificationReply(**counts, findings=[FindingView(**asdict(finding)) for finding in findings]))


async def _streamed(comparison: Comparison, services: ApiServices, path: str) -> AsyncIterator[bytes]:
    try:
        async with aclosing(_detailed(comparison)) as items:
            async for item in items:
                if isinstance(item, Finding):
                    yield event("finding", FindingView(**asdict(item)))
                else:
                    yield event("progress", VerificationCountsView(**asdict(item)))
        yield event("done", VerificationCountsView(**asdict(comparison.so_far)))
    except Exception as error:  # noqa: BLE001  the reply has begun: only an event can still tell
        if isinstance(error, ForeaskError):
            log.warning("request_failed", kind=type(error).__name__, path=path)
        else:
            log_crash(error, path)
        yield event("error", problem_of(error, path))
    finally:
        _ring(comparison, services)


async def _detailed(comparison: Comparison) -> AsyncGenerator[Finding | VerificationCounts, None]:
    """What a comparison says, with the first findings alone."""
    told = 0
    async for item in comparison.run():
        told += isinstance(item, Finding)
        if told <= _DETAILED or not isinstance(item, Finding):
            yield item


def _ring(comparison: Comparison, services: ApiServices) -> None:
    if comparison.so_far.repaired:
        services.wakeups.wake("index")
