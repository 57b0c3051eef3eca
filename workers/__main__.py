"""`python -m workers parse|ask|index|scheduler`: one worker process, or the scheduler."""

from __future__ import annotations

import sys
from typing import Any

import structlog
import uvloop
from celery import signals

from shared.broker.wakeups import celery_app
from shared.domain.errors import ForeaskError
from shared.domain.queues import WORK_QUEUES
from shared.process import gc, logging
from shared.services import Services
from shared.settings import Settings, load
from workers import scheduler
from workers.loop import WorkerLoop
from workers.tasks import register

ROLES = (*WORK_QUEUES, "scheduler")


def main(role: str) -> None:
    """Run until asked to end."""
    settings = load()
    logging.configure(settings, role)
    if role == "scheduler":
        uvloop.run(scheduler.run(settings))
    else:
        work(settings, role)


def work(settings: Settings, queue: str) -> None:
    loop = WorkerLoop(settings)
    assert settings.redis_url is not None  # WorkerLoop requires it
    app = celery_app(settings.redis_url.get_secret_value())
    register(app, loop)

    @signals.worker_shutting_down.connect(weak=False)
    def stop(**_: Any) -> None:
        loop.stop()

    if queue == "parse":
        loop.run(loop.services.parser.sandbox.warm())
    loop.run(_begin(loop.services))
    gc.freeze()
    structlog.get_logger().info("worker_started", queue=queue)
    # One drain at a time fills the process: its calls run on the loop, and the thread only waits for it.
    arguments = [
        "--quiet",
        "worker",
        "--queues",
        "index,calibrate" if queue == "index" else queue,
        "--pool",
        "threads",
        "--concurrency",
        "1",
        "--loglevel",
        "WARNING",
    ]
    app.worker_main([*arguments, "--without-gossip", "--without-mingle", "--hostname", f"{queue}@%h"])


async def _begin(services: Services) -> None:
    services.wakeups.begin()


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1] not in ROLES:  # noqa: PLR2004
        sys.exit(f"usage: python -m workers {'|'.join(ROLES)}")
    try:
        main(sys.argv[1])
    except ForeaskError as error:
        sys.exit(error.message)
