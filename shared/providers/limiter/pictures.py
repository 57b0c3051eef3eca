"""Whether a model reads pictures: a neutral picture decides, so that a refused picture is not paid for twenty times."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, nullcontext

import structlog

from shared.domain.errors import Refused

_REMEMBERED_SECONDS = 60.0  # a server may load another model under the same name

log = structlog.get_logger()


class Pictures:
    """The pictures that one model has read or refused, in this process.

    Until it has read one, its calls with pictures are made one after the other.

    Args:
        now: clock in monotonic seconds.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._first = asyncio.Lock()
        self._are_read = False
        self._refusal: Refused | None = None
        self._until = 0.0

    @asynccontextmanager
    async def reading(self, ask: Callable[[], Awaitable[object]]) -> AsyncIterator[None]:
        """Make a call with a picture in this block.

        Args:
            ask: makes the neutral call with a picture.

        Raises:
            Refused: the picture is refused; without a call if the model has refused the neutral one, too.
        """
        async with nullcontext() if self._are_read else self._first:
            if self._refusal is not None and self._now() < self._until:
                raise Refused(self._refusal.message)
            try:
                yield
            except Refused as refusal:
                if refusal.usage is None:
                    await self._learn(ask)
                raise
            self._are_read, self._refusal = True, None

    def forget(self) -> None:
        """Forget whether the model reads pictures."""
        self._are_read, self._refusal = False, None

    async def _learn(self, ask: Callable[[], Awaitable[object]]) -> None:
        try:
            await ask()
        except Refused as refusal:
            self._are_read = False
            self._refusal, self._until = refusal, self._now() + _REMEMBERED_SECONDS
            log.warning("pictures.refused", reason=refusal.message)
