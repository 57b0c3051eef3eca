"""A cache of the ledger's keys: each key is looked up at most every few seconds.

Concurrent lookups are grouped, so that a flood of invalid keys causes one statement at a time.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import structlog

from shared.domain.access.keys import Key
from shared.domain.errors import ForeaskError, Unavailable
from shared.ledger.tenants.keys import Keys

_SECONDS = 4.0  # a revoked key is refused within five seconds, including the lookup
_MOST = 10_000
_AT_ONCE = 1_000
_USE_SECONDS = 60.0
_TIMEOUT_SECONDS = 2.0  # of recording the last uses at exit
_NOT_CACHED = Unavailable("the key could not be looked up", component="ledger")

log = structlog.get_logger()


class KeyCache:
    """Finds keys by their hashes, and records their last use.

    Args:
        keys: keys in the ledger.
        now: clock in monotonic seconds.
    """

    def __init__(self, keys: Keys, now: Callable[[], float] = time.monotonic) -> None:
        self._keys = keys
        self._now = now
        # Two caches, so that invalid keys cannot displace valid ones.
        self._valid: dict[bytes, tuple[float, Key]] = {}
        self._invalid: dict[bytes, float] = {}
        self._waiting: dict[bytes, asyncio.Future[Key | ForeaskError | None]] = {}
        self._recorded: dict[UUID, float] = {}
        self._used: set[UUID] = set()
        self._lookup: asyncio.Task[None] | None = None
        self._recording: asyncio.Task[None] | None = None

    async def find(self, sha256: bytes) -> Key | None:
        """Return the key of a hash, which may have been revoked or expired; None if it does not exist.

        Raises:
            Unavailable: the ledger is unavailable, and the key is not cached.
        """
        until, key = self._valid.get(sha256, (0.0, None))
        if key is not None and until > self._now():
            return key
        if self._invalid.get(sha256, 0.0) > self._now():
            return None
        found = self._waiting.get(sha256)
        if found is None:
            found = self._waiting[sha256] = asyncio.get_running_loop().create_future()
        if self._lookup is None:
            self._lookup = asyncio.create_task(self._look_up())
        await asyncio.wait({found})  # cancelling one request must not cancel the shared lookup
        result = found.result()
        if isinstance(result, ForeaskError):
            raise result
        return result

    def record_use(self, key: Key) -> None:
        """Record the key's last use in the background, at most once a minute per key."""
        now = self._now()
        if self._recorded.get(key.id, -_USE_SECONDS) > now - _USE_SECONDS:
            return
        _limit_size(self._recorded)
        self._recorded[key.id] = now
        self._used.add(key.id)
        if self._recording is None:
            self._recording = asyncio.create_task(self._record())

    def forget(self) -> None:
        """Forget all keys after one was created or revoked."""
        self._valid.clear()
        self._invalid.clear()

    async def aclose(self) -> None:
        if self._recording is not None:
            await asyncio.wait({self._recording}, timeout=_TIMEOUT_SECONDS)
        tasks = [task for task in (self._recording, self._lookup) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_up(self) -> None:
        try:
            while self._waiting:
                group = [self._waiting.popitem() for _ in range(min(_AT_ONCE, len(self._waiting)))]
                await self._look_up_group(dict(group))
        finally:  # no caller waits forever
            self._lookup = None
            for waiting in self._waiting.values():
                waiting.set_result(_NOT_CACHED)
            self._waiting.clear()

    async def _look_up_group(self, group: dict[bytes, asyncio.Future[Key | ForeaskError | None]]) -> None:
        until = self._now() + _SECONDS  # counted from before the lookup, because a key may be revoked during it
        error: ForeaskError = _NOT_CACHED
        found: Mapping[bytes, Key] | None = None
        try:
            found = await self._keys.find(list(group))
        except ForeaskError as failure:
            error = failure
        finally:
            for sha256, waiting in group.items():
                waiting.set_result(error if found is None else found.get(sha256))
        if found is not None:
            for sha256 in group:
                self._remember(sha256, found.get(sha256), until)

    def _remember(self, sha256: bytes, key: Key | None, until: float) -> None:
        if key is None:
            _limit_size(self._invalid)
            self._invalid[sha256] = until
        else:
            _limit_size(self._valid)
            self._valid[sha256] = (until, key)

    async def _record(self) -> None:
        try:
            while self._used:
                used, self._used = self._used, set()
                await self._keys.record_use(used)
        except ForeaskError as error:  # the next use is recorded a minute later
            log.warning("key_use.failed", kind=type(error).__name__)
        finally:
            self._recording = None


def _limit_size(remembered: dict[Any, Any]) -> None:
    if len(remembered) >= _MOST:
        remembered.clear()
