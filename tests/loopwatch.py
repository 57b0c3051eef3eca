"""A block of a test within which the event loop is watched."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from bench.loopwatch import TICK_SECONDS, LoopWatch
from shared.process.gc import freeze


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
