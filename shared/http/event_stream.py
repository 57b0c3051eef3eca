"""Replies as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

from starlette.responses import StreamingResponse
from starlette.types import Scope

from shared.http.problems import log_failure, problem_of
from shared.http.replies import encode

HEARTBEAT = b": heartbeat\n\n"  # a comment, ignored by clients; it keeps proxies from closing an idle stream


class EventStream(StreamingResponse):
    """Server-sent events as they occur; if the client disconnects, the iterator is closed."""

    media_type = "text/event-stream"


def event_stream(events: AsyncIterator[bytes]) -> EventStream:
    # Without x-accel-buffering, nginx would buffer the events. The headers cannot be set in a constructor, because
    # FastAPI reads the signature of the constructor for the OpenAPI document.
    return EventStream(events, headers={"cache-control": "no-store", "x-accel-buffering": "no"})


def message(value: Any) -> bytes:
    """Encode one server-sent event without a name, which clients call a message."""
    return b"data: " + encode(value) + b"\n\n"


def event(name: str, data: Any) -> bytes:
    """Encode one server-sent event. No library is needed, because JSON has no line breaks."""
    return b"event: " + name.encode() + b"\ndata: " + encode(data) + b"\n\n"


def _error_event(error: Exception, path: str) -> bytes:
    return event("error", problem_of(error, path))


async def end_with_error(
    events: AsyncGenerator[bytes, None], scope: Scope, encode_error: Callable[[Exception, str], bytes] = _error_event
) -> AsyncIterator[bytes]:
    """Yield the events; an error is logged and becomes the last event.

    The reply has started with status 200, so only an event can report the error.

    Args:
        events: closed at the end, so that the work stops when the client disconnects.
        scope: scope of the request; the log contains its route, the problem details contain its path.
        encode_error: encodes the error; by default as an event with problem details.
    """
    try:
        async with aclosing(events):
            async for piece in events:
                yield piece
    except Exception as error:  # noqa: BLE001  only an event can still report it
        log_failure(error, scope)
        yield encode_error(error, scope["path"])
