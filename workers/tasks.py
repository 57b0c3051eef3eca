"""The Celery tasks of a worker: a wake-up starts a drain of its stage."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from celery import Celery

from shared.domain.errors import Transient
from shared.domain.queues import Queue
from shared.ingest.drain import Drain, DrainLimits, SuspectPolls
from workers.loop import WorkerLoop

if TYPE_CHECKING:  # only an index worker has the one, and only a generate worker the other
    from shared.ingest.batches.lane import BatchLane
    from shared.query.calibrate.calibrator import Calibrator

log = structlog.get_logger()


def register(app: Celery, loop: WorkerLoop) -> list[Queue]:
    """Bind a worker's tasks to its loop; return the queues that it listens to.

    A wake-up contains no work, so a task ignores the arguments that a message of another release may have.
    """
    services, polls = loop.services, SuspectPolls()

    @app.task(name=f"foreask.{loop.role}", shared=False)
    def drain(*_: Any, **__: Any) -> None:
        if loop.run(_drain(loop, polls)):
            services.wakeups.wake_from_thread(loop.role)

    background: dict[Queue, Callable[[], Coroutine[Any, Any, None]]] = {}
    if services.calibrator is not None:
        background["calibrate"] = partial(_calibrate, loop, services.calibrator)
    if services.batch_lane is not None:
        background["batches"] = partial(_work_on_batches, loop, services.batch_lane)
    for queue, work in background.items():
        app.task(name=f"foreask.{queue}", shared=False)(_in_background(loop, work))
    return [loop.role, *background]


def _in_background(loop: WorkerLoop, work: Callable[[], Coroutine[Any, Any, None]]) -> Callable[..., None]:
    def start(*_: Any, **__: Any) -> None:
        loop.run_in_background(work)  # this thread is needed for drains

    return start


async def _calibrate(loop: WorkerLoop, calibrator: Calibrator) -> None:
    try:
        while not loop.stopping.is_set() and await calibrator.calibrate_grown():
            pass
    except Transient as error:
        log.warning("calibration.interrupted", reason=error.message)


async def _work_on_batches(loop: WorkerLoop, lane: BatchLane) -> None:
    try:
        await lane.work(loop.stopping)
    except Transient as error:
        log.warning("batches.interrupted", reason=error.message)


async def _drain(loop: WorkerLoop, polls: SuspectPolls) -> bool:
    """Drain the stage; return whether more work is due than this drain could finish in its time."""
    services = loop.services
    tuning = services.settings.tuning
    limits = DrainLimits(lease=tuning.lease, budget=tuning.drain, grace=services.settings.grace)
    drain = loop.drain = Drain(services.stage, limits, loop.stopping, polls)
    try:
        return await drain.run()
    except Transient as error:
        # The scheduler wakes the worker again; until then the worker has nothing better to do than to wait.
        log.warning("drain.interrupted", stage=services.stage.name, reason=error.message)
        return False
