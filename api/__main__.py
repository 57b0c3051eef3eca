"""`python -m api`: serve the HTTP API as the settings say."""

from __future__ import annotations

import sys
from types import FrameType

import structlog
import uvicorn
import uvloop
from fastapi import FastAPI

from api.app import create
from shared.domain.errors import ForeaskError
from shared.process import gc, logging, secrecy
from shared.services import build
from shared.services.start import begin
from shared.settings import Settings, load

_GRACEFUL_SECONDS = 10


class _Server(uvicorn.Server):
    """Tells the application that the process ends, so that clients that follow events do not hold it up."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._app.state.stopping = True
        super().handle_exit(sig, frame)


def main() -> None:
    """Serve until asked to end."""
    secrecy.close_memory()
    settings = load()
    logging.configure(settings, "api")
    app = create(settings)
    uvloop.run(_require_complete(settings))
    config = uvicorn.Config(
        app,
        host=settings.api_host,
        port=settings.api_port,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=1024,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=_GRACEFUL_SECONDS,
    )
    gc.freeze()
    structlog.get_logger().info("api.started", host=settings.api_host, port=settings.api_port)
    _Server(config, app).run()


async def _require_complete(settings: Settings) -> None:
    # Uvicorn prints an error of the lifespan as a traceback; a missing setting deserves one sentence.
    async with build("api", settings):
        await begin(settings, "api")


if __name__ == "__main__":
    try:
        main()
    except ForeaskError as error:
        sys.exit(error.message)
