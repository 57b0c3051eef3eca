"""The route of verification: compare a collection with Qdrant, and repair it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, astuple
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from api.access.auth import Caller, Manager
from api.http import paging
from api.http.event_stream import end_with_error, event, event_stream
from api.http.openapi import event_content, replies
from api.http.problems import TooManyRequests
from api.http.replies import JsonReply
from api.http.strict_route import StrictRoute
from api.schemas.common import CollectionName
from api.schemas.problems import ProblemDetails
from api.schemas.verification import (
    FindingView,
    VerificationCountsView,
    VerificationProgress,
    VerificationReply,
    VerifyBody,
)
from api.state import QuotasDep, ServicesDep
from shared.maintenance.verification import DifferingPoint, Position, Verification, VerificationCounts
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=StrictRoute)

_FINDINGS_MAX = 1000


VERIFY_REPLIES = replies(
    {
        200: {
            "description": "The differences; if `Accept` contains text/event-stream, server-sent events: `progress`"
            " (counts so far), `finding` (a point that differs, at most 1,000), `done` (all counts) or `error`"
            " (problem details)",
            "content": event_content(VerificationCountsView, VerificationProgress, FindingView, ProblemDetails),
        }
    },
    *(400, 401, 404, 413, 415, 422, 502, 503),
)


async def _comparison_slot(request: Request, quotas: QuotasDep) -> AsyncGenerator[None, None]:
    """Hold one of the process's slots for verifications until the reply is sent, including streams.

    Raises:
        TooManyRequests: the tenant has the maximum number of verifications; operators have no such limit.
        Unavailable: the process has no free slot.
    """
    caller: Caller = request.state.caller
    slot = quotas.comparisons.acquire()
    try:
        if caller.tenant and not slot.assign(caller.tenant):
            raise TooManyRequests(
                "This tenant has the maximum number of running verifications: wait until one finishes."
            )
        yield
    finally:
        slot.release()


# Must follow the caller in a route's parameters.
ComparisonDep = Annotated[None, Depends(_comparison_slot)]


@router.post("/{name}/verify", response_model=VerificationReply, responses=VERIFY_REPLIES)
async def verify(
    request: Request, body: VerifyBody, name: CollectionName, tenant: Manager, services: ServicesDep, _: ComparisonDep
) -> Response:
    """Compare a collection with Qdrant. With `repair`, index missing points again and delete unexpected ones.

    Missing points are indexed again with paid questions: the language model is not called. Documents in progress are
    skipped. With the `cursor` of a `progress` event an interrupted verification resumes.
    """
    collection = await services.ledger.collections.get(tenant, name)
    verification = Verification(
        services.ledger.audit,
        services.index,
        collection,
        repair=body.repair,
        position=paging.read_cursor(body.cursor, _position),
    )
    return await run_verification(request, verification, services, with_cursors=True)


async def run_verification(
    request: Request, verification: Verification, services: ApiServices, *, with_cursors: bool
) -> Response:
    """Reply with the result of a verification, or with events. A cursor contains the external id of a document."""
    if "text/event-stream" in request.headers.get("accept", ""):
        events = _events(verification, services, with_cursors=with_cursors)
        return event_stream(end_with_error(events, request.scope))
    findings = [item async for item in _limit_findings(verification) if isinstance(item, DifferingPoint)]
    _wake_indexers(verification, services)
    counts = asdict(verification.so_far)
    return JsonReply(VerificationReply(**counts, findings=[FindingView(**asdict(finding)) for finding in findings]))


async def _events(
    verification: Verification, services: ApiServices, *, with_cursors: bool
) -> AsyncGenerator[bytes, None]:
    try:
        async with aclosing(_limit_findings(verification)) as items:
            async for item in items:
                if isinstance(item, DifferingPoint):
                    yield event("finding", FindingView(**asdict(item)))
                elif not with_cursors:
                    yield event("progress", VerificationCountsView(**asdict(item)))
                else:
                    cursor = paging.cursor_of(astuple(verification.position))
                    yield event("progress", VerificationProgress(**asdict(item), cursor=cursor))
        yield event("done", VerificationCountsView(**asdict(verification.so_far)))
    finally:  # repairs are committed one by one, so they are kept if the client disconnects
        _wake_indexers(verification, services)


async def _limit_findings(verification: Verification) -> AsyncGenerator[DifferingPoint | VerificationCounts, None]:
    """Yield all counts, and only the first findings."""
    findings = 0
    async for item in verification.run():
        findings += isinstance(item, DifferingPoint)
        if findings <= _FINDINGS_MAX or not isinstance(item, DifferingPoint):
            yield item


def _wake_indexers(verification: Verification, services: ApiServices) -> None:
    if verification.so_far.repaired:
        services.wakeups.wake("index")


def _position(key: list[str | None]) -> Position:
    part, after = key
    if part == "documents" and (after is None or (isinstance(after, str) and "\0" not in after)):
        return Position("documents", after)
    if part == "points":
        return Position("points", None if after is None else str(UUID(after)))
    raise ValueError
