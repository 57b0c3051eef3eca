"""The route of progress, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request
from starlette.responses import Response

from api.http.auth import Reader, require_still_valid
from api.http.event_stream import HEARTBEAT, EventStream, end_with_error, event_stream
from api.http.openapi import EVENTS, replies
from api.progress_feeds import ProgressFeeds

router = APIRouter(prefix="/v1", tags=["events"])

_PAUSE_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0


@router.get(
    "/events",
    response_class=EventStream,
    responses=replies(
        {
            200: {
                "description": '`progress` ({"documents": {state: count}}, with "more": true while more documents'
                " change than are told) at first and on every change; `document`,"
                " as GET /v1/documents/{id}, for each that changes; `error`, problem details, while the ledger is"
                " away, and at the end where the key is not valid any more",
                "content": EVENTS,
            }
        },
        401,
        429,
    ),
)
async def events(request: Request, tenant: Reader) -> Response:
    """Follow the progress of the tenant's documents, from now on."""
    feeds: ProgressFeeds = request.app.state.progress_feeds
    feeds.require_room(tenant)
    return event_stream(end_with_error(_follow(request, feeds, tenant), request.scope))


async def _follow(request: Request, feeds: ProgressFeeds, tenant: str) -> AsyncGenerator[bytes, None]:
    sent_at, number = time.monotonic(), None
    with feeds.joined(tenant) as feed:
        while not request.app.state.stopping:
            number, pieces = await feed.news(number)
            if not pieces and time.monotonic() - sent_at >= _HEARTBEAT_SECONDS:
                pieces = HEARTBEAT
            if pieces:
                yield pieces
                sent_at = time.monotonic()
            await asyncio.sleep(_PAUSE_SECONDS)
            await require_still_valid(request)
