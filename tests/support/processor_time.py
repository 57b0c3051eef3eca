"""A limit of processor time, which ends code that would run for minutes or forever."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def processor_time_limit(seconds: float) -> Iterator[None]:
    """Interrupt the body when this process has used this processor time; other processes have no influence.

    Only the main thread can use it. A single call of C code is interrupted when it returns.

    Raises:
        AssertionError: the body took longer.
    """

    def interrupt(_: int, __: FrameType | None) -> None:
        raise AssertionError(f"still running after {seconds:g} s of processor time")

    before = signal.signal(signal.SIGVTALRM, interrupt)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)
