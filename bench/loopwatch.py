"""How long an event loop stands still: the longest time in which it serves nobody else."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass

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
