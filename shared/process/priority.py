"""The processor priority of a process whose work can wait."""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path

SESSION_NICENESS = 5  # at 10, a file waits long on a machine that other programs use fully
_TRIES = 20


def lower(niceness: int) -> None:
    """Raise the niceness of every thread of this process to `niceness`, and of its session if the process leads one.

    Linux gives each thread a niceness of its own. If it groups processes by session ("autogroup", as on most machines
    without containers), the niceness of a process counts only within its session. On two cores, another tenant's
    queries took 1.9 seconds at the median while files were parsed in sessions of normal priority, and 0.07 with this.
    """
    if sys.platform != "linux":
        os.nice(max(0, niceness - os.nice(0)))
        return
    niceness = max(niceness, os.nice(0))  # to lower it needs a privilege
    os.nice(niceness - os.nice(0))
    with suppress(OSError):
        for thread in Path("/proc/self/task").iterdir():
            with suppress(OSError):  # the thread has exited, or has a higher niceness
                os.setpriority(os.PRIO_PROCESS, int(thread.name), niceness)
    if os.getsid(0) == os.getpid():
        _lower_session(min(niceness, SESSION_NICENESS))


def _lower_session(niceness: int) -> None:
    for _ in range(_TRIES):
        try:
            Path("/proc/self/autogroup").write_text(str(niceness), encoding="ascii")
        except BlockingIOError:  # the kernel takes ten changes a second from all users
            time.sleep(0.1)
        except OSError:  # the kernel does not group processes
            return
        else:
            return
