"""The route of progress, as server-sent events."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from starlette.responses import Response

from api.progress.feeds import ProgressFeeds
from api.progress.listeners import Listeners
from api.schemas.documents import DocumentView
from api.schemas.status import ProgressEvent, StatusEvent
from api.state import ListenersDep, ProgressFeedsDep
from shared.domain.errors import Unavailable
from shared.http.access.auth import Caller, Reader, require_still_valid
from shared.http.event_stream import HEARTBEAT, EventStream, end_with_error, event_stream
from shared.http.openapi import event_content, replies
from shared.http.schemas.common import CollectionName
from shared.http.schemas.problems import ProblemDetails
from shared.http.shutdown import Shutdown
from shared.http.state import ServicesDep, ShutdownDep
from shared.ledger.model.collections import Collections

router = APIRouter(prefix="/v1", tags=["events"])

_PAUSE_SECONDS = 1.0
_HEARTBEAT_SECONDS = 15.0


@router.get(
    "/events",
    response_class=EventStream,
    responses=replies(
        {
            200: {
                "description": "`progress` (ProgressEvent) at the start and on every change; `document`, as"
                " GET /v1/documents/{id}, for each changed document; `status` (StatusEvent) about once a second while"
                " there is open work; `reset` ({}) if changes may have been missed; `error` (problem details) while the"
                " ledger is unavailable, and at the end if the key is no longer valid",
                "content": event_content(ProgressEvent, DocumentView, StatusEvent, ProblemDetails),
            }
        },
        401,
        404,
        429,
    ),
)
async def follow_events(
    *,
    request: Request,
    tenant: Reader,
    services: ServicesDep,
    feeds: ProgressFeedsDep,
    listeners: ListenersDep,
    shutdown: ShutdownDep,
    collection: Annotated[
        CollectionName | None, Query(description="Send only documents of this collection; default: all")
    ] = None,
    last_event_id: Annotated[str | None, Header(max_length=100, description="Resume after this event")] = None,
) -> Response:
    """Follow the progress of the tenant's documents, from now on or after the event `Last-Event-ID`.

    The last event of a batch has an `id`, which is valid in all processes. After an hour, or after changes of more than
    200 documents, the first event is `reset`: read the lists again. `progress` and `status` cover all collections.
    """
    with suppress(Unavailable):  # the stream reports it, and continues when the ledger is available again
        await services.ledger[Collections].require(tenant, collection)
    listeners.require_room(request.state.caller.owner)
    pieces = _follow(request, feeds, listeners, shutdown, collection=collection, last_id=last_event_id)
    return event_stream(end_with_error(pieces, request.scope))


async def _follow(
    request: Request,
    feeds: ProgressFeeds,
    listeners: Listeners,
    shutdown: Shutdown,
    *,
    collection: str | None,
    last_id: str | None,
) -> AsyncGenerator[bytes, None]:
    caller: Caller = request.state.caller
    sent_at, number = time.monotonic(), None
    with listeners.counted(caller.owner), feeds.joined(caller.tenant) as feed:
        while not shutdown.stopping:
            if number is None and last_id:
                number, pieces = await feed.resumed(last_id, collection)
            else:
                number, pieces = await feed.news(number, collection)
            if not pieces and time.monotonic() - sent_at >= _HEARTBEAT_SECONDS:
                pieces = HEARTBEAT
            if pieces:
                yield pieces
                sent_at = time.monotonic()
            await asyncio.sleep(_PAUSE_SECONDS)
            await require_still_valid(request)
