"""The Celery tasks of a worker: a wake-up starts a drain of its stage, or a job, a calibration or a batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from celery import Celery

from shared.domain.errors import Transient
from shared.domain.queues import Queue, WorkQueue, broker_name
from workers.loop import WorkerLoop

if TYPE_CHECKING:  # only generate workers have the first, index and parse workers the second, index workers the third
    from shared.ingest.batches.lane import BatchLane
    from shared.maintenance.jobs.runner import Runner
    from shared.query.calibrate.calibrator import Calibrator

log = structlog.get_logger()


def register(app: Celery, loop: WorkerLoop) -> list[Queue]:
    """Bind a worker's tasks to its loop; return the queues that it listens to.

    A wake-up contains no work, so a task ignores the arguments that a message of another release may have.
    """
    services = loop.services
    queues: list[Queue] = []

    def serve(queue: Queue, start: Callable[[], None]) -> None:
        @app.task(name=broker_name(queue), shared=False)
        def task(*_: Any, **__: Any) -> None:
            start()

        queues.append(queue)

    for queue in services.stages:
        serve(queue, partial(_drain, loop, queue))
    # Calibrations and batches take long, and this thread is needed for drains.
    if services.make_calibrator is not None:
        serve("calibrate", partial(loop.run_in_background, partial(_calibrate, loop, services.make_calibrator)))
    if services.runner is not None:
        serve(services.jobs_queue, partial(_take_jobs, loop, services.runner))
    if services.make_batch_lane is not None:
        serve("batches", partial(loop.run_in_background, partial(_work_on_batches, loop, services.make_batch_lane)))
    return queues


def _drain(loop: WorkerLoop, queue: WorkQueue) -> None:
    if loop.run(loop.runners[queue].run()):
        loop.services.wakeups.wake_from_thread(queue)


def _take_jobs(loop: WorkerLoop, runner: Runner) -> None:
    loop.run(_start_jobs(runner))  # the jobs themselves are tasks of the loop


async def _start_jobs(runner: Runner) -> None:
    try:
        await runner.take()
    except Transient as error:
        log.warning("jobs.unclaimed", reason=error.message)


async def _calibrate(loop: WorkerLoop, make_calibrator: Callable[[], Calibrator]) -> None:
    calibrator = make_calibrator()  # imported for the first calibration
    try:
        while not loop.stopping.is_set() and await calibrator.calibrate_grown():
            pass
    except Transient as error:
        log.warning("calibration.interrupted", reason=error.message)


async def _work_on_batches(loop: WorkerLoop, make_lane: Callable[[], BatchLane]) -> None:
    lane = make_lane()  # imported for the first batch
    try:
        await lane.work(loop.stopping)
    except Transient as error:
        log.warning("batches.interrupted", reason=error.message)
