"""How long an event loop is blocked: the longest time in which no other callback runs."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shared.process.gc import freeze

LONGEST_SECONDS = 0.2  # the promise
TICK_SECONDS = 0.005


@dataclass(slots=True)
class LoopWatch:
    """The longest stand of a loop so far, between two ticks of 5 ms.

    Args:
        seconds: of a stand the wall time, or the CPU time of the whole process where that is shorter. A callback that
            computes moves both, and so does a thread that keeps Python's lock; a busy neighbour moves the wall alone.
        wall_seconds: the wall time.
    """

    seconds: float = 0.0
    wall_seconds: float = 0.0

    def require_free(self, longest: float = LONGEST_SECONDS) -> None:
        """Fail where the loop stood for longer."""
        assert self.seconds <= longest, f"the loop stood still for {self.seconds:.2f} s"

    async def watch(self) -> None:
        """Watch the running loop until cancelled."""
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_SECONDS)
            stood = time.perf_counter() - wall - TICK_SECONDS
            self.wall_seconds = max(self.wall_seconds, stood)
            self.seconds = max(self.seconds, min(stood, time.process_time() - cpu))


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopWatch]:
    """Watch the running loop within the block; what the block itself computes counts too."""
    watch = LoopWatch()
    thresholds = gc.get_threshold()
    freeze()  # as every process of the product does: a full collection is none of what a request costs
    task = asyncio.create_task(watch.watch())
    await asyncio.sleep(0)  # the watch begins before the block does
    try:
        yield watch
        await asyncio.sleep(2 * TICK_SECONDS)  # the last callback counts too
    finally:
        task.cancel()
        gc.unfreeze()
        gc.set_threshold(*thresholds)
