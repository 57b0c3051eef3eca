"""uvicorn's server with few wake-ups, which are most of the processor time of an idle server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from types import FrameType

import uvicorn

_TICK_SECONDS = 1.0  # the header with the date changes once a second


class QuietServer(uvicorn.Server):
    """A server that wakes once a second and for signals, instead of ten times a second."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._signalled = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._signalled.wait(), _TICK_SECONDS)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._signalled.set)
