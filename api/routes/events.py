"""The route of progress, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.deps import ServicesDep
from api.http.auth import Tenant
from api.http.event_stream import HEARTBEAT, EventStream, event, event_stream
from api.http.openapi import replies
from api.http.problems import problem_of
from api.http.replies import encode
from api.routes.documents import view
from shared.domain.errors import Transient
from shared.domain.records import DocumentState
from shared.services.api import ApiServices

router = APIRouter(prefix="/v1", tags=["events"])

_POLL_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0
# A row has the time at which its transaction began, and is seen only after that transaction ended.
_OVERLAP = timedelta(seconds=10)


@router.get(
    "/events",
    response_class=EventStream,
    responses=replies(
        {
            200: {
                "description": '`progress` ({"documents": {state: count}}) at first and on every change; `document`,'
                " as GET /v1/documents/{id}, for each that changes; `error`, problem details, while the ledger is away",
                "content": {"text/event-stream": {"schema": {"type": "string"}}},
            }
        },
        401,
    ),
)
async def events(request: Request, tenant: Tenant, services: ServicesDep) -> Response:
    """Follow the progress of the tenant's documents, from now on."""
    return event_stream(_follow(request, tenant, services))


async def _follow(request: Request, tenant: str, services: ApiServices) -> AsyncIterator[bytes]:
    feed = _ProgressFeed(tenant, services)
    sent_at = time.monotonic()
    while not request.app.state.stopping:
        for piece in await feed.changes():
            yield piece
            sent_at = time.monotonic()
        if time.monotonic() - sent_at >= _HEARTBEAT_SECONDS:
            yield HEARTBEAT
            sent_at = time.monotonic()
        await asyncio.sleep(_POLL_SECONDS)


class _ProgressFeed:
    """The changes since the last poll, for one listener."""

    def __init__(self, tenant: str, services: ApiServices) -> None:
        self._tenant = tenant
        self._services = services
        self._since = datetime.now(UTC)
        self._counts: dict[str, Any] | None = None
        self._sent: dict[UUID, int] = {}  # the hash of each document's view as it was last sent

    async def changes(self) -> list[bytes]:
        try:
            return [*await self._progress(), *await self._documents()]
        except Transient as error:
            return [event("error", problem_of(error, "/v1/events"))]

    async def _progress(self) -> list[bytes]:
        by_state = await self._services.ledger.documents.counts(self._tenant)
        counts = {state.value: count for state, count in by_state.items() if state is not DocumentState.DELETING}
        if counts == self._counts:
            return []
        self._counts = counts
        return [event("progress", {"documents": counts})]

    async def _documents(self) -> list[bytes]:
        now = datetime.now(UTC)
        documents = await self._services.ledger.documents.changed_since(self._tenant, self._since)
        self._since = max(self._since, now - _OVERLAP)
        sent, pieces = {}, []
        for document in reversed(documents):
            document_view = view(document, self._services.settings)
            sent[document.id] = hash(encode(document_view))
            if self._sent.get(document.id) != sent[document.id]:
                pieces.append(event("document", document_view))
        self._sent = sent
        return pieces
