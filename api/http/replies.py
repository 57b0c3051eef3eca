"""Replies: models and problems as JSON bytes, and server-sent events."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response, StreamingResponse

HEARTBEAT = b": heartbeat\n\n"  # a comment, which clients skip; it keeps proxies from closing a quiet stream


class Json(Response):
    """A reply encoded once, by Rust; FastAPI's own way validates it again first."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encoded(content)


def event(name: str, data: Any) -> bytes:
    """One server-sent event. Two lines need no library: JSON has no line breaks of its own."""
    return b"event: " + name.encode() + b"\ndata: " + encoded(data) + b"\n\n"


class Events(StreamingResponse):
    """Server-sent events as they happen; a client that goes away closes the iterator."""

    media_type = "text/event-stream"


def event_stream(events: AsyncIterator[bytes]) -> Events:
    return Events(events, headers={"cache-control": "no-store", "x-accel-buffering": "no"})  # or nginx holds them back


def encoded(content: Any) -> bytes:
    if isinstance(content, BaseModel):
        return content.__pydantic_serializer__.to_json(content)
    return orjson.dumps(content)
