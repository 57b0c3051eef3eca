"""The watchdog ends a process whose event loop is blocked, because it holds claims without working on them."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import threading
from datetime import timedelta

import structlog

EXIT_CODE = 70  # EX_SOFTWARE

_HEARTBEATS = 20  # heartbeats within the timeout

log = structlog.get_logger()


class Watchdog:
    """Ends the process if its loop did not respond for `timeout`; the supervisor then starts another process.

    It counts missed heartbeats, not seconds: a suspended process (SIGSTOP, a sleeping machine) does not check either,
    so nothing is counted.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, timeout: timedelta) -> None:
        self._loop = loop
        self._timeout = timeout
        self._responded = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def close(self) -> None:
        self._closing.set()

    def _watch(self) -> None:
        missed = 0
        self._loop.call_soon_threadsafe(self._responded.set)
        while not self._closing.wait(self._timeout.total_seconds() / _HEARTBEATS):
            if self._responded.is_set():
                missed = 0
                self._responded.clear()
                self._loop.call_soon_threadsafe(self._responded.set)
                continue
            missed += 1
            if missed >= _HEARTBEATS:
                self._end()

    def _end(self) -> None:
        log.critical("loop.hung", seconds=self._timeout.total_seconds())
        faulthandler.dump_traceback()
        os._exit(EXIT_CODE)
