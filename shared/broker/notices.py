"""Notices: sentences about an engine that one process stores and others show, each with a time to live."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextvars import Context
from datetime import timedelta
from typing import Any

import structlog
from redis.exceptions import RedisError

from shared.broker.connections import open_redis
from shared.domain.errors import Unavailable

_PREFIX = "foreask:notice:"
_TIMEOUT = timedelta(seconds=5)
_AGAIN_SECONDS = 10.0  # the same sentence is not stored again earlier

log = structlog.get_logger()


class Notices:
    """Stores notices without delaying the caller: a separate task sends them.

    They are a service for readers: while the broker is unavailable they are lost.

    Args:
        redis_url: URL of the broker.
        timeout: timeout of a connection or a reply.
    """

    def __init__(self, redis_url: str, *, timeout: timedelta = _TIMEOUT) -> None:
        self._redis = open_redis(redis_url, timeout)
        self._stored: dict[str, tuple[str, float]] = {}  # the last sentence by name, and its time
        self._unsent: dict[str, tuple[str, float] | None] = {}
        self._task: asyncio.Task[None] | None = None

    def put(self, name: str, sentence: str, seconds: float) -> None:
        """Store a notice for some time; never fails, never waits."""
        before, at = self._stored.get(name, ("", 0.0))
        if before == sentence and time.monotonic() - at < _AGAIN_SECONDS:
            return
        self._stored[name] = sentence, time.monotonic()
        self._send_soon(name, (sentence, seconds))

    def drop(self, name: str) -> None:
        """Delete a notice; never fails, never waits."""
        self._stored.pop(name, None)
        self._send_soon(name, None)

    async def read(self, names: Sequence[str]) -> dict[str, str]:
        """Return the notices with these names.

        Raises:
            Unavailable: the broker is unavailable.
        """
        try:
            found: list[Any] = await self._redis.mget([_PREFIX + name for name in names])
        except (RedisError, OSError) as error:
            raise Unavailable("the broker does not answer", component="broker") from error
        return {name: sentence.decode() for name, sentence in zip(names, found, strict=True) if sentence}

    async def aclose(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self._redis.aclose()

    def _send_soon(self, name: str, notice: tuple[str, float] | None) -> None:
        self._unsent[name] = notice
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send(), name="notices", context=Context())  # without ids

    async def _send(self) -> None:
        while self._unsent:
            name, notice = self._unsent.popitem()
            try:
                if notice is None:
                    await self._redis.delete(_PREFIX + name)
                else:
                    await self._redis.set(_PREFIX + name, notice[0], px=max(1, round(1000 * notice[1])))
            except (RedisError, OSError) as error:
                log.warning("notice.lost", name=name, reason=type(error).__name__)
