"""A process of a worker or of the scheduler: its start, and its exit."""

from __future__ import annotations

import os
import sys
from typing import Any, Literal

import structlog
import uvloop
from celery import Celery, signals
from celery.apps import worker

from shared.broker.wakeups import celery_app
from shared.domain.errors import ForeaskError
from shared.domain.queues import STAGES, WorkerRole, broker_name
from shared.process import gc, hardening, identity, priority
from shared.process.telemetry import logging
from shared.services import ocr
from shared.services.start import check_start
from shared.settings import Settings, load, require
from workers.idle import idle
from workers.loop import WorkerLoop
from workers.tasks import register

# If workers share processors with queries and their engines, these take precedence. Measured with `python -m
# bench.migration --chunks 20000 --sections 2 --questions 2` on two processors: the 95th percentile of queries while a
# build is filled, relative to that before, is 2.3 instead of 3.0, and the build takes 3 % longer.
_NICENESS = 10
_HEARTBEAT_SECONDS = 10  # Celery's two seconds would be five times as many messages

ROLES = (*STAGES, "scheduler")


def main(role: WorkerRole | Literal["scheduler"]) -> None:
    """Run until asked to stop; a read worker is idle if OCR is off."""
    hardening.close_memory()
    settings = load()
    identity.become(role)
    logging.configure(role, level=settings.log_level, line_format=settings.log_format)
    if role == "scheduler":
        from workers import scheduler  # noqa: PLC0415 - it imports modules that no worker needs

        uvloop.run(scheduler.run(settings))
    elif role == "read" and (reason := ocr.off_because(settings)):
        uvloop.run(idle(role, settings, reason))
    else:
        work(role, settings)


def work(role: WorkerRole, settings: Settings) -> None:
    priority.lower(_NICENESS)
    url = require(settings.redis_url, "FOREASK_REDIS_URL").get_secret_value()
    uvloop.run(check_start(settings, role))  # before there are threads, which a process that exits would have to end
    loop = WorkerLoop(role, settings)
    try:
        controlled = settings.celery_remote_control
        _serve(role, loop, celery_app(url, timeout=settings.tuning.broker_timeout, remote_control=controlled))
    finally:
        loop.close()


def _serve(role: WorkerRole, loop: WorkerLoop, app: Celery) -> None:
    queues = register(app, loop)

    @signals.worker_shutting_down.connect(weak=False)
    def stop(**_: Any) -> None:
        loop.stop()

    @signals.worker_ready.connect(weak=False)
    def listens(**_: Any) -> None:
        gc.freeze()
        structlog.get_logger().info("worker.started", role=role)

    loop.run(loop.services.start())
    # One drain of each stage at a time: their calls run on the loop, and the threads only wait for them.
    arguments = [
        "--quiet",
        "worker",
        "--queues",
        ",".join(map(broker_name, queues)),
        "--pool",
        "threads",
        "--concurrency",
        str(len(loop.runners)),
        "--loglevel",
        "WARNING",
    ]
    # Workers do not need to know each other, and the ledger has the heartbeats of all processes: only Flower reads
    # these events.
    silent = ["--without-gossip", "--without-mingle"]
    beats = ["--heartbeat-interval", str(_HEARTBEAT_SECONDS)] if app.conf.worker_enable_remote_control else []
    arguments += [*silent, *(beats or ["--without-heartbeat"]), "--hostname", f"{role}-{os.getpid()}@%h"]
    worker.safe_say = _say_nothing
    app.worker_main(arguments)


def _say_nothing(*_: object) -> None:
    """Replace Celery's plain lines about signals, which are not JSON: `worker.stopping` says the same."""


def run() -> None:
    """Run the role that the command names; an expected error is printed as one sentence."""
    if len(sys.argv) != 2 or sys.argv[1] not in ROLES:  # noqa: PLR2004
        sys.exit(f"usage: python -m workers {'|'.join(ROLES)}")
    try:
        main(sys.argv[1])  # type: ignore[arg-type]  # one of ROLES
    except ForeaskError as error:
        sys.exit(error.message)
