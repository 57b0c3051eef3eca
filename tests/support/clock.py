"""Time that a test moves: a clock for classes that take one, and an event loop for code that only waits for itself.

The loop is not a library's: async-solipsism does the same under the GPL, and looptime changes the session's loop, on
which the services' tasks run in real time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from selectors import SelectorKey, SelectSelector
from typing import ParamSpec

P = ParamSpec("P")
_MOST_SECONDS = 1_000  # of virtual time: in a test that hangs, timers may repeat for ever


class ManualClock:
    """A clock in seconds that only the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def in_virtual_time(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run a test on its own loop, whose clock starts at 0 and jumps to the next timer when every task waits.

    Times are exact, and waits take no time. The tested code must use the loop's clock, and no threads, sockets or
    engines. A test that would wait for ever fails.
    """

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        with asyncio.Runner(loop_factory=_VirtualLoop) as runner:
            runner.run(test(*args, **kwargs))

    return run


class _Jumps(SelectSelector):
    """Advances the time instead of waiting."""

    now = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[SelectorKey, int]]:
        assert timeout is not None, "every task waits, and no timer is set"
        assert self.now < _MOST_SECONDS, "the test does not end"
        self.now = round(self.now + timeout, 9)  # the loop's resolution; rounding errors would add up
        return super().select(0)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumps = _Jumps()
        super().__init__(self._jumps)

    def time(self) -> float:
        return self._jumps.now
