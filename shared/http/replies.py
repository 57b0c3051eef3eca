"""Replies: models and problems as JSON bytes."""

from __future__ import annotations

from typing import Any

import orjson
from pydantic import BaseModel
from starlette.responses import Response


class JsonReply(Response):
    """A JSON reply, encoded once in Rust; FastAPI's own response would validate it again first."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return encode(content)


def encode(content: Any) -> bytes:
    if isinstance(content, BaseModel):
        return content.__pydantic_serializer__.to_json(content)
    return orjson.dumps(content)
