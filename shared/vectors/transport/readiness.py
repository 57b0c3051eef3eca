"""A readiness check that concurrent callers share; its result is valid for some seconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from shared.domain.errors import ForeaskError


class SharedCheck:
    """Shares one check among all callers.

    Args:
        check: raises an error if the component is not ready.
        seconds: validity of a result.
    """

    def __init__(self, check: Callable[[], Awaitable[None]], seconds: float) -> None:
        self._check = check
        self._seconds = seconds
        self._running: asyncio.Task[ForeaskError | None] | None = None
        self._valid_until = 0.0

    async def require(self) -> None:
        """Raise the error of the current check, or of one some seconds ago."""
        if self._running is None or (self._running.done() and self._valid_until < time.monotonic()):
            self._running = asyncio.create_task(self._run())
        # A cancelled caller must not cancel the check for others.
        error = await asyncio.shield(self._running)
        if error is not None:
            raise error

    async def aclose(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)
            self._running = None

    async def _run(self) -> ForeaskError | None:
        try:
            await self._check()
        except ForeaskError as error:
            return error
        else:
            return None
        finally:
            self._valid_until = time.monotonic() + self._seconds
