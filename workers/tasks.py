"""The Celery tasks of a worker: a wake-up starts a drain of its stage."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import structlog
from celery import Celery

from shared.domain.errors import Transient
from shared.domain.queues import Queue
from shared.ingest.drain import Drain, DrainLimits, SuspectPolls
from workers.loop import WorkerLoop

if TYPE_CHECKING:  # only an index worker has them
    from shared.maintenance.runs.runner import Runner
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

    if services.calibrator is None or services.runner is None:
        return [loop.role]
    calibration = partial(_calibrate, loop, services.calibrator)
    starting = partial(_start_runs, services.runner)

    @app.task(name="foreask.calibrate", shared=False)
    def calibrate(*_: Any, **__: Any) -> None:
        loop.run_in_background(calibration)  # this thread is needed for drains

    @app.task(name="foreask.runs", shared=False)
    def runs(*_: Any, **__: Any) -> None:
        loop.run(starting())  # the runs themselves are tasks of the loop

    return [loop.role, "calibrate", "runs"]


async def _start_runs(runner: Runner) -> None:
    try:
        await runner.take()
    except Transient as error:
        log.warning("runs.unclaimed", reason=error.message)


async def _calibrate(loop: WorkerLoop, calibrator: Calibrator) -> None:
    try:
        while not loop.stopping.is_set() and await calibrator.calibrate_grown():
            pass
    except Transient as error:
        log.warning("calibration.interrupted", reason=error.message)


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
