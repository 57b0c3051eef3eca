"""The clock of leases, which also counts the time for which the machine sleeps."""

from __future__ import annotations

import time

# Linux has two clocks, and `time.monotonic` is the one that stands still during sleep. On macOS `time.monotonic` stands
# still, too, but CLOCK_MONOTONIC continues.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """Return monotonic seconds, which continue while the machine sleeps.

    A virtual machine that its host pauses does not know it: no clock of the machine counts that time.
    """
    return time.clock_gettime(_CLOCK)
