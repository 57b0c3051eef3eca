"""Priorities for the processor.

If Linux groups processes by session ("autogroup", as on most machines without containers), the priority of a process
counts only within its session, so the session needs the same priority. Each server and each parser has its own session.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

_LOWEST = 19


def lower(niceness: int) -> None:
    """Lower the priority of this process, of all its threads and of its session by `niceness`, to 19 at most.

    Linux gives each thread a priority of its own.
    """
    if sys.platform != "linux":
        os.nice(niceness)
        return
    niceness = min(_LOWEST, os.nice(0) + niceness)
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # the thread has ended
            os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
    apply_to_session()


def apply_to_session() -> None:
    """Give the session of this process the priority of the process, if it is the session's first process."""
    if sys.platform == "linux" and os.getsid(0) == os.getpid():
        with suppress(OSError):  # the kernel does not group processes
            Path("/proc/self/autogroup").write_text(str(os.nice(0)), encoding="ascii")
