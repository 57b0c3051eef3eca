"""Times after which a call counts as failed, for streams, too."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, Awaitable
from datetime import timedelta
from typing import TypeVar

T = TypeVar("T")

CONNECT_SECONDS = 10.0  # a lost machine or a firewall sends no reply; a connection over continents takes one


class StreamPace:
    """The times of a streamed reply: until its first event, between two events, and in total.

    Bytes without an event, such as blank lines and comments, do not extend them. The time that the reader takes for an
    event counts in the total only.

    Args:
        silence: time until the first event from now on, and between two events.
        total: time of the whole reply.
    """

    def __init__(self, silence: timedelta, total: timedelta) -> None:
        self._silence_seconds = silence.total_seconds()
        self._now = asyncio.get_running_loop().time
        self._due = self._now() + self._silence_seconds
        self._end = self._now() + total.total_seconds()

    async def wait(self, step: Awaitable[T]) -> T:
        """Return the result of a step, such as the start of the reply.

        Raises:
            TimeoutError: it takes too long.
        """
        async with asyncio.timeout_at(min(self._due, self._end)):
            return await step

    async def each(self, events: AsyncIterable[T]) -> AsyncGenerator[T, None]:
        """Yield the events; raises as `wait`."""
        iterator = aiter(events)
        while True:
            try:
                event = await self.wait(anext(iterator))
            except StopAsyncIteration:
                return
            yield event
            self._due = self._now() + self._silence_seconds
