"""The dependencies of a worker process of any role."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shared.broker.wakeups import Wakeups
from shared.domain.queues import Queue, WorkQueue
from shared.ingest.drain import Stage
from shared.ledger.work.heartbeats import Heartbeats
from shared.settings import Settings

if TYPE_CHECKING:  # a parse worker has none of these
    from shared.ingest.batches.lane import BatchLane
    from shared.maintenance.jobs.runner import Runner
    from shared.providers.limiter.limiter import Limiter
    from shared.query.calibrate.calibrator import Calibrator


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerServices:
    """The dependencies of a worker.

    Args:
        settings: settings of the process.
        wakeups: wakes the workers of the next stage.
        heartbeats: records that the worker is alive.
        stages: work that a wake-up of each queue starts.
        limiters: limiters of the providers that the stages call.
        warm_ups: functions that start resources of the stages before the first document.
        make_calibrator: returns the calibrator, which calibrates collections concurrently; None for roles that do not.
        make_batch_lane: returns the lane that works on batches concurrently; None for roles that do not.
        runner: does jobs concurrently; None for roles that do not.
        jobs_queue: queue that wakes the runner.
    """

    settings: Settings
    wakeups: Wakeups
    heartbeats: Heartbeats
    stages: Mapping[WorkQueue, Stage[Any, Any]]
    limiters: Sequence[Limiter] = ()
    warm_ups: Sequence[Callable[[], Coroutine[Any, Any, None]]] = ()
    make_calibrator: Callable[[], Calibrator] | None = None
    make_batch_lane: Callable[[], BatchLane] | None = None
    runner: Runner | None = None
    jobs_queue: Queue = "runs"

    async def start(self) -> None:
        """Start the stages' resources, and request a first wake-up, because work may be due already."""
        for warm_up in self.warm_ups:
            await warm_up()
        self.wakeups.start()

    def stop(self) -> None:
        """Start no more calls of providers, and release the claimed jobs."""
        if self.runner is not None:
            self.runner.stop()
        for limiter in self.limiters:
            limiter.stop()
