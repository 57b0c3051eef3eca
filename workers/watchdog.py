"""The watchdog ends a process whose event loop or default executor is blocked.

Such a process holds claims without working on them.
"""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
from collections.abc import Callable
from datetime import timedelta

import structlog

EXIT_CODE = 70  # EX_SOFTWARE

_HEARTBEATS = 20  # heartbeats within the timeout

log = structlog.get_logger()


class Watchdog:
    """Ends the process if its loop or its executor did not respond for `timeout`; the supervisor then starts another.

    The executor is the loop's default one. All threads of an executor may be occupied although the loop runs: files are
    then no longer parsed. The watchdog counts missed heartbeats, not seconds: a suspended process (SIGSTOP, a sleeping
    machine) does not check either, so nothing is counted.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: timedelta) -> None:
        self._loop = loop
        self._timeout = timeout
        self._beats = {"loop": _Beat(self._ask_loop), "executor": _Beat(self._ask_executor)}
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        while not self._closing.wait(self._timeout.total_seconds() / _HEARTBEATS):
            for part, beat in self._beats.items():
                if beat.missed() >= _HEARTBEATS:
                    self._end(part)

    def _ask_loop(self, answer: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(answer)

    def _ask_executor(self, answer: Callable[[], None]) -> None:
        self._loop.call_soon_threadsafe(self._loop.run_in_executor, None, answer)

    def _end(self, part: str) -> None:
        log.critical("process.hung", part=part, seconds=self._timeout.total_seconds())
        faulthandler.dump_traceback()
        os._exit(EXIT_CODE)


class _Beat:
    """Heartbeats of one part of the process; the next one is requested when the last one was answered."""

    def __init__(self, ask: Callable[[Callable[[], None]], None]) -> None:
        self._ask = ask
        self._responded = threading.Event()
        self._responded.set()
        self._missed = 0

    def missed(self) -> int:
        """Return the number of heartbeats since the last answer."""
        if self._responded.is_set():
            self._missed = 0
            self._responded.clear()
            self._ask(self._responded.set)
        else:
            self._missed += 1
        return self._missed
