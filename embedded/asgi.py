"""An ASGI application on loopback with quiet logs."""

from __future__ import annotations

import sys
from typing import Any

import orjson
import uvicorn
from starlette.responses import Response


class Json(Response):
    """A reply encoded by orjson."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        return orjson.dumps(content)


def serve(application: Any, port: int, *, graceful_seconds: int = 10) -> None:
    """Serve until SIGTERM or SIGINT; only errors are logged."""
    uvicorn.run(
        application,
        host="127.0.0.1",
        port=port,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        log_level="error",
        access_log=False,
        ws="none",
        backlog=1024,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=graceful_seconds,
    )
