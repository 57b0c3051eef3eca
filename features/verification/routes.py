"""The routes of verification: compare a collection with Qdrant, and repair it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict, astuple
from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from features.verification.domain import Position
from features.verification.ledger import VerificationJob, Verifications, findings_of
from features.verification.schemas import (
    FindingView,
    OperatorVerifyBody,
    VerificationCountsView,
    VerificationProgress,
    VerificationReply,
    VerificationRunView,
    VerifyBody,
)
from shared.domain.corpus.collections import Collection
from shared.domain.jobs import OPEN_STATES
from shared.http import paging
from shared.http.access.auth import Manager, Operator
from shared.http.changes import follow
from shared.http.event_stream import HEARTBEAT, end_with_error, event, event_stream
from shared.http.feature_routes import FeatureRoutes
from shared.http.openapi import event_content, problems, replies
from shared.http.replies import JsonReply
from shared.http.schemas.common import CollectionName, TenantName
from shared.http.schemas.jobs import RunPhase
from shared.http.schemas.problems import ProblemDetails
from shared.http.state import ServicesDep, ShutdownDep
from shared.http.strict_route import StrictRoute
from shared.ledger.model.collections import Collections
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1/collections", tags=["collections"], route_class=StrictRoute)
operator_router = APIRouter(prefix="/v1/operator", tags=["operator"], dependencies=[Operator], route_class=StrictRoute)

_REPLIES = replies(
    {
        200: {
            "description": "The differences; if `Accept` contains text/event-stream, server-sent events: `progress`"
            " (state and counts so far), `finding` (a point that differs, at most 1,000), `done` (all counts) or"
            " `error` (problem details)",
            "content": event_content(VerificationCountsView, VerificationProgress, FindingView, ProblemDetails),
        }
    },
    *(400, 401, 404, 409, 413, 415, 422, 502, 503),
)


class VerificationFollower:
    """Starts verifications, and replies with their progress and results.

    Args:
        request: the request; its header `Accept` selects a stream of events.
    """

    def __init__(self, request: Request, services: ServicesDep, shutdown: ShutdownDep) -> None:
        self._request = request
        self._services: ApiServices = services
        self._shutdown = shutdown

    async def verify(
        self, collection: Collection, *, repair: bool, position: Position | None = None, with_cursors: bool
    ) -> Response:
        """Start a verification, or join the open one, and reply when it has ended.

        Args:
            collection: the collection.
            repair: whether to repair differences.
            position: position at which to start.
            with_cursors: whether events have cursors, which contain the external id of a document.

        Raises:
            Conflict: the open verification has the other value of `repair`, or too many are queued.
        """
        job = await self._services.ledger[Verifications].start(collection, repair=repair, position=position)
        self._services.wakeups.wake("runs")
        if "text/event-stream" in self._request.headers.get("accept", ""):
            return event_stream(end_with_error(self._events(job, with_cursors=with_cursors), self._request.scope))
        async with aclosing(follow(job, self._read, self._shutdown, self._request)) as changes:
            async for _ in changes:
                pass
        job = await self._services.ledger[Verifications].get(job.id)
        return JsonReply(VerificationReply(**asdict(job.progress.counts), findings=_views(job)))

    async def _read(self, job: VerificationJob) -> VerificationJob:
        """Return a verification without findings: its counts show that there are more."""
        return await self._services.ledger[Verifications].get(job.id, with_request=True, with_result=False)

    async def _events(self, job: VerificationJob, *, with_cursors: bool) -> AsyncGenerator[bytes, None]:
        seen = 0
        async with aclosing(follow(job, self._read, self._shutdown)) as changes:
            async for change in changes:
                if change is None:
                    yield HEARTBEAT
                    continue
                job = await self._services.ledger[Verifications].get(change.id, with_request=True)
                views = _views(job)
                for view in views[seen:]:
                    yield event("finding", view)
                seen = len(views)
                if job.state in OPEN_STATES:
                    yield event("progress", _progress(job, with_cursor=with_cursors))
        yield event("done", VerificationCountsView(**asdict(job.progress.counts)))


_Follower = Annotated[VerificationFollower, Depends()]


@router.post("/{name}/verify", response_model=VerificationReply, responses=_REPLIES)
async def verify_collection(
    body: VerifyBody, name: CollectionName, tenant: Manager, services: ServicesDep, follower: _Follower
) -> Response:
    """Compare a collection with Qdrant. With `repair`, index missing points again and delete unexpected ones.

    Missing points are indexed again with paid questions: the language model is not called. Documents in progress are
    skipped. An index worker does it, and continues without the client: the same request joins a verification that is
    not done yet. With the `cursor` of a `progress` event a failed verification resumes.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    position = paging.read_cursor(body.cursor, _position)
    return await follower.verify(collection, repair=body.repair, position=position, with_cursors=True)


@router.get("/{name}/verify", response_model=VerificationRunView, responses=problems(401, 404, 422))
async def get_verification(name: CollectionName, tenant: Manager, services: ServicesDep) -> Response:
    """Return the newest verification of a collection with its state and findings."""
    collection = await services.ledger[Collections].get(tenant, name)
    job = await services.ledger[Verifications].newest(collection)
    return JsonReply(
        VerificationRunView(
            **asdict(job.progress.counts),
            repair=job.progress.repair,
            state=RunPhase(job.state),
            error=job.error,
            created_at=job.created_at,
            ended_at=job.ended_at,
            findings=_views(job),
        )
    )


@router.delete("/{name}/verify", status_code=204, responses=problems(401, 404, 422))
async def cancel_verification(name: CollectionName, tenant: Manager, services: ServicesDep) -> Response:
    """Cancel the verification of a collection that is queued or running. Its repairs are kept."""
    await services.ledger[Verifications].cancel(await services.ledger[Collections].get(tenant, name))
    return Response(status_code=204)


@operator_router.post(
    "/tenants/{tenant}/collections/{name}/verify",
    response_model=VerificationReply,
    responses=_REPLIES,
)
async def verify_tenant_collection(
    body: OperatorVerifyBody, tenant: TenantName, name: CollectionName, services: ServicesDep, follower: _Follower
) -> Response:
    """Compare a tenant's collection with Qdrant, and repair it with `repair`.

    The events have no cursors, which would name the tenant's documents: a failed run starts again.
    """
    collection = await services.ledger[Collections].get(tenant, name)
    return await follower.verify(collection, repair=body.repair, with_cursors=False)


VERIFICATION_ROUTES = FeatureRoutes((router, operator_router))


def _progress(job: VerificationJob, *, with_cursor: bool) -> VerificationProgress:
    position = Position() if job.request is None else job.request.position
    cursor = paging.cursor_of(astuple(position)) if with_cursor else None
    return VerificationProgress(**asdict(job.progress.counts), state=RunPhase(job.state), cursor=cursor)


def _views(job: VerificationJob) -> list[FindingView]:
    return [FindingView(**asdict(finding)) for finding in findings_of(job)]


def _position(key: list[str | None]) -> Position:
    part, after = key
    if part == "documents" and (after is None or (isinstance(after, str) and "\0" not in after)):
        return Position("documents", after)
    if part == "points":
        return Position("points", None if after is None else str(UUID(after)))
    raise ValueError
