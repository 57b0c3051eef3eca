"""One event loop for the life of a worker process; Celery runs task bodies in threads, which submit to the loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import structlog
import uvloop

from shared.domain.queues import WorkerRole
from shared.ingest.drain import DrainLimits, Exclusion
from shared.process.telemetry import metrics, traces
from shared.services import build
from shared.services.worker import WorkerServices
from shared.settings import Settings
from workers.stage_runner import StageRunner
from workers.watchdog import Watchdog

if TYPE_CHECKING:  # most workers load no feature
    from shared.services.features import Feature

T = TypeVar("T")
_CLOSE_SECONDS = 4.0  # a supervisor waits five seconds longer than the grace

log = structlog.get_logger()


class WorkerLoop:
    """The thread of the loop, and the services that belong to it.

    `stopping` is set when the process is asked to stop: from then on a drain claims nothing. `runners` has the runner
    of each stage.

    Raises:
        InvalidInput: a setting required by the role is missing.
    """

    def __init__(self, role: WorkerRole, settings: Settings) -> None:
        self.role = role
        self._loop = uvloop.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="loop", daemon=True)
        self._thread.start()
        self._stack = AsyncExitStack()
        self._background: asyncio.Task[None] | None = None
        self.stopping = self.run(_event())
        try:
            self.services: WorkerServices = self.run(
                self._stack.enter_async_context(build(role, settings, _features_of(role)))
            )
        except BaseException:
            self._end()  # a process that exits while the thread runs may crash
            raise
        limits = DrainLimits(lease=settings.tuning.lease, budget=settings.tuning.drain, grace=settings.shutdown_timeout)
        exclusion = Exclusion()
        self.runners = {
            queue: StageRunner(stage, limits, self.stopping, exclusion) for queue, stage in self.services.stages.items()
        }
        for queue in self.runners:
            metrics.count_from_zero(queue)
        serving = metrics.serving(role, settings.metrics_host, settings.metrics_port, works_as=list(self.runners))
        self.run(self._stack.enter_async_context(serving))
        self.run(self._stack.enter_async_context(traces.exporting(role, settings.shutdown_timeout)))
        for queue, runner in self.runners.items():
            beating = self.services.heartbeats.beating(queue, partial(getattr, runner, "in_progress"))
            self.run(self._stack.enter_async_context(beating))
        # Last, because the imports of the role block the loop for a long time on a busy machine.
        self._watchdog = Watchdog(self._loop, settings.tuning.hang_timeout)
        self._watchdog.start()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def run_in_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run a coroutine concurrently with the drains, unless one is running already; `close` cancels it."""
        self.run(self._start_background(work))

    async def _start_background(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if self._background is None or self._background.done():
            self._background = asyncio.create_task(work())

    def stop(self) -> None:
        """Ask the drains to stop, and start no more calls of providers; returns at once."""
        self._loop.call_soon_threadsafe(partial(log.info, "worker.stopping", role=self.role))
        self._loop.call_soon_threadsafe(self.stopping.set)
        self._loop.call_soon_threadsafe(self.services.stop)

    def close(self) -> None:
        """Shut down: end the drains, whose items have the grace, then all else, which is lost after a timeout."""
        self._loop.call_soon_threadsafe(self.stopping.set)
        self.run(self._close_runners())
        self._watchdog.close()
        with suppress(TimeoutError):
            asyncio.run_coroutine_threadsafe(self._aclose(), self._loop).result(_CLOSE_SECONDS)
        self._end()

    def _end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)

    async def _close_runners(self) -> None:
        await asyncio.gather(*(runner.close() for runner in self.runners.values()))

    async def _aclose(self) -> None:
        if self._background is not None:
            self._background.cancel()
            await asyncio.gather(self._background, return_exceptions=True)
        await self._stack.aclose()


async def _event() -> asyncio.Event:
    return asyncio.Event()


def _features_of(role: WorkerRole) -> Sequence[Feature] | None:
    """Return the features for the roles that do their jobs or read their originals; the others do not load them."""
    if role == "generate":
        return None
    from features.all import FEATURES  # noqa: PLC0415

    return FEATURES
