"""A real worker whose machine falls asleep at a point of `dying`: `python -m tests.support.asleep ROLE POINT`.

It stops itself. When it is resumed, its monotonic clock has not counted the time, as during the sleep of a machine;
clocks that count sleep have. It needs an interpreter of its own, because modules keep their clocks.
"""

from __future__ import annotations

import signal
import sys
import time

_monotonic, _send = time.monotonic, signal.pthread_kill
_slept = 0.0


def _monotonic_without_sleep() -> float:
    return _monotonic() - _slept


def _sleep(thread: int, number: int) -> None:
    global _slept  # noqa: PLW0603 - the clock of this process
    stopped_at = _monotonic()
    _send(thread, number)
    _slept += _monotonic() - stopped_at


if __name__ == "__main__":
    time.monotonic = _monotonic_without_sleep
    signal.pthread_kill = _sleep
    from tests.support.dying import POINTS, arm  # after the clock was replaced
    from workers.process import main

    arm(POINTS[sys.argv[2]], 1, signal.SIGSTOP)
    main(sys.argv[1])
