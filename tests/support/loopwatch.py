"""Measure how long an event loop is blocked, which is the longest time without another callback."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from shared.process.gc import freeze

LONGEST_SECONDS = 0.2  # the documented guarantee
TICK_SECONDS = 0.005


@dataclass(slots=True)
class LoopWatch:
    """The longest block of a loop so far, measured between two ticks of 5 ms.

    Args:
        seconds: wall time of the longest block, or the CPU time of the whole process if that is shorter. Computation
            increases both, and so does a thread that holds Python's lock; other processes increase only the wall time.
        wall_seconds: wall time of the longest block.
    """

    seconds: float = 0.0
    wall_seconds: float = 0.0

    def require_free(self, longest: float = LONGEST_SECONDS) -> None:
        """Fail if the loop was blocked for longer."""
        assert self.seconds <= longest, f"the loop was blocked for {self.seconds:.2f} s"

    async def watch(self) -> None:
        """Watch the running loop until cancelled."""
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(TICK_SECONDS)
            blocked = time.perf_counter() - wall - TICK_SECONDS
            self.wall_seconds = max(self.wall_seconds, blocked)
            self.seconds = max(self.seconds, min(blocked, time.process_time() - cpu))


@asynccontextmanager
async def watched_loop() -> AsyncIterator[LoopWatch]:
    """Watch the running loop within the `async with` block, including the computation of the block itself."""
    watch = LoopWatch()
    thresholds = gc.get_threshold()
    freeze()  # as every process of the product does, so that no request pays for a full collection
    task = asyncio.create_task(watch.watch())
    await asyncio.sleep(0)  # start watching before the block runs
    try:
        yield watch
        await asyncio.sleep(2 * TICK_SECONDS)  # include the last callback
    finally:
        task.cancel()
        gc.unfreeze()
        gc.set_threshold(*thresholds)
