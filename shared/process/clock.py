"""The clock of leases, which also counts the time for which the machine sleeps."""

from __future__ import annotations

import time

# On Linux and macOS `time.monotonic` stops while the machine sleeps. CLOCK_BOOTTIME of Linux continues, and on macOS
# CLOCK_MONOTONIC does.
_CLOCK: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """Return monotonic seconds, which continue while the machine sleeps.

    A virtual machine that its host pauses does not know it: no clock of the machine counts that time.
    """
    return time.clock_gettime(_CLOCK)
