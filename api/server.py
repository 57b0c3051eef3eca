"""The server of the HTTP API: its start, and its exit."""

from __future__ import annotations

import math
import signal
import sys
import time
from datetime import timedelta
from types import FrameType

import structlog
import uvicorn
import uvloop

from api.app import create
from api.http.protocol import BoundedProtocol
from features.all import FEATURES
from shared.domain.errors import ForeaskError
from shared.http.access import auth
from shared.http.quiet_server import QuietServer
from shared.http.shutdown import Shutdown
from shared.process import gc, hardening, identity
from shared.process.telemetry import logging
from shared.services import build
from shared.services.start import check_start
from shared.settings import Settings, load

CHECKED = "--checked"
# The event loop waits this long before each of its steps while a thread decodes an upload; a query has a dozen steps.
# While bodies of 20 MB were decoded, a dozen took 0.1 to 0.3 s at the median with Python's 5 ms, and 30 ms with this.
_SWITCH_SECONDS = 0.0005


class _ApiServer(QuietServer):
    """A server that stops in three steps: it reports that it is not ready, refuses connections, and waits for requests.

    A load balancer that polls `/health/ready` redirects requests before connections are refused. The application is
    notified at the second step, so that clients that follow events do not delay the exit.
    """

    def __init__(self, config: uvicorn.Config, shutdown: Shutdown, drain: timedelta | None) -> None:
        super().__init__(config)
        self._shutdown = shutdown
        self._drain_seconds = drain.total_seconds() if drain else 0.0
        self._close_at = math.inf

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if self._drain_seconds and not self._shutdown.draining:
            self._shutdown.draining = True
            self._close_at = time.monotonic() + self._drain_seconds
            return
        self._shutdown.draining = self._shutdown.stopping = True
        super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if time.monotonic() >= self._close_at and not self.should_exit:
            self.handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)


def main() -> None:
    """Serve until a signal stops the process; with `--checked` its starter uses each engine and model once."""
    hardening.close_memory()
    sys.setswitchinterval(_SWITCH_SECONDS)
    settings = load()
    identity.become("api")
    logging.configure("api", level=settings.log_level, line_format=settings.log_format)
    shutdown = Shutdown()
    auth.require_known_users(settings)
    app = create(settings, shutdown=shutdown, checks=CHECKED not in sys.argv[1:])
    uvloop.run(_require_complete(settings))
    config = uvicorn.Config(
        app,
        host=settings.api_host,
        port=settings.api_port,
        loop="asyncio" if sys.platform == "win32" else "uvloop",
        http=BoundedProtocol,
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=1024,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=math.ceil(settings.shutdown_timeout.total_seconds()),
    )
    gc.freeze()
    structlog.get_logger().info("api.started", host=settings.api_host, port=settings.api_port)
    _ApiServer(config, shutdown, settings.api_drain).run()


async def _require_complete(settings: Settings) -> None:
    # Uvicorn prints an error of the lifespan as a traceback, but a missing setting should print one sentence.
    async with build("api", settings, FEATURES):
        await check_start(settings, "api")


def run() -> None:
    """Run `main`; an expected error is printed as one sentence."""
    try:
        main()
    except ForeaskError as error:
        sys.exit(error.message)
