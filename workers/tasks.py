"""The Celery tasks: each answers a ring by draining what is due, and says what it does in a few lines."""

from __future__ import annotations

from functools import partial
from typing import Any

import structlog
from celery import Celery

from shared.domain.errors import Transient
from shared.domain.queues import WorkQueue
from shared.ingest.drain import Drain, DrainLimits, Stage
from shared.ingest.generate.stage import generate_stage
from shared.ingest.index.stage import index_stage
from shared.ingest.parse.stage import parse_stage
from workers.loop import WorkerLoop

log = structlog.get_logger()


def register(app: Celery, loop: WorkerLoop) -> None:
    """Bind the tasks to a worker's loop. A message of any release is understood: what it carries is not needed."""

    @app.task(name="foreask.parse", shared=False)
    def parse(*_: Any, **__: Any) -> None:
        _answer(loop, "parse", parse_stage(loop.services.parser))

    @app.task(name="foreask.generate", shared=False)
    def ask(*_: Any, **__: Any) -> None:
        _answer(loop, "generate", generate_stage(loop.services.questioner))

    @app.task(name="foreask.index", shared=False)
    def index(*_: Any, **__: Any) -> None:
        _answer(loop, "index", index_stage(loop.services.indexer))

    @app.task(name="foreask.calibrate", shared=False)
    def calibrate(*_: Any, **__: Any) -> None:
        loop.run_beside(partial(_calibrate, loop))  # this thread is the one that drains are rung for


def _answer(loop: WorkerLoop, queue: WorkQueue, stage: Stage[Any, Any]) -> None:
    if loop.run(_drain(loop, stage)):
        loop.services.wakeups.wake_from_thread(queue)


async def _calibrate(loop: WorkerLoop) -> None:
    try:
        while not loop.stopping.is_set() and await loop.services.calibrator.calibrate_grown():
            pass
    except Transient as error:
        log.warning("calibration_interrupted", reason=error.message)


async def _drain(loop: WorkerLoop, stage: Stage[Any, Any]) -> bool:
    settings = loop.services.settings
    limits = DrainLimits(lease=settings.lease, budget=settings.drain, grace=settings.grace)
    drain = Drain(stage, limits, loop.stopping)
    try:
        return await drain.run()
    except Transient as error:
        # The reconciler rings again; a worker that is up has nothing better to do than to wait for that.
        log.warning("drain_interrupted", stage=stage.name, reason=error.message)
        return False
