"""The endings of a tenant's ingest calls with a model, and the pause of a load whose replies mostly cannot be used.

Each such call is paid. If more than half of a tenant's last 50 calls end in the same unusable way, the tenant's chunks
are not claimed until one of them, a trial, gets a usable reply. Other tenants and queries continue.

The counts are stored next to the limiter's state in the broker, by the model and its address: they are short-lived
measurements, and a broker that loses them costs at most 26 more calls before the next pause. Another model or address
starts without counts, so a change of the settings resumes the load.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib.resources import files
from typing import Any

import orjson
import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from shared.domain.errors import Transient, Unavailable

USABLE = ""
"""The ending of a call whose reply was used; any other ending is a reason."""

_CACHE_SECONDS = 1.0
_TRIAL = 1  # chunks that a paused tenant may hold when a trial is due
WINDOW = 50  # last calls that count, as in endings.lua
_AGAIN = timedelta(seconds=1)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class TenantPause:
    """A paused or recovering tenant.

    Args:
        chunks: number of chunks that it may hold: none, one if a trial is due, or a few while it recovers.
        left: time until its next trial; zero if one is due, or if it recovers.
        reason: the ending of most of its calls.
    """

    chunks: int
    left: timedelta
    reason: str

    @property
    def is_over(self) -> bool:
        """Whether the tenant recovers: the last trial got a usable reply."""
        return self.chunks > _TRIAL

    @property
    def sentence(self) -> str:
        """The reason of the pause as a sentence that starts in lower case, without an end."""
        return (
            f"more than half of the last {WINDOW} replies of the language model could not be used, and each was paid"
            f" for: {self.reason}"
        )


class LoadPaused(Transient):
    """The tenant's load is paused, because most of its paid replies cannot be used; the attempt does not count."""


class Endings:
    """The endings of calls with one model.

    Args:
        redis: connection to the shared state.
        key: returns the name of a stored value of the model.
        now: clock in monotonic seconds.
    """

    def __init__(self, redis: Redis, key: Callable[[str], str], now: Callable[[], float] = time.monotonic) -> None:
        self._redis = redis
        self._key = key
        self._now = now
        self._script = redis.register_script((files("shared.providers.limiter") / "endings.lua").read_text())
        self._pauses: dict[str, TenantPause] = {}
        self._read_at = -math.inf
        self._trials: set[int] = set()  # tokens of the leases of trials

    async def bounds(self) -> Mapping[str, int]:
        """Return the number of chunks that each paused or recovering tenant may hold; others have no bound.

        Without the broker, the last known bounds apply: no call is granted anyway.
        """
        if self._now() - self._read_at >= _CACHE_SECONDS:
            with suppress(Unavailable):
                self._pauses = await self.pauses()
            self._read_at = self._now()
        return {tenant: pause.chunks for tenant, pause in self._pauses.items()}

    async def pauses(self) -> dict[str, TenantPause]:
        """Return the paused and recovering tenants.

        Raises:
            Unavailable: the broker is unavailable.
        """
        values = iter(await self._run("show"))
        return {
            tenant.decode(): TenantPause(chunks, timedelta(milliseconds=left), reason.decode())
            for tenant, chunks, left, reason in zip(values, values, values, values, strict=True)
        }

    async def claimed(self, leases: Iterable[tuple[str, int]]) -> None:
        """Note claimed chunks, by tenant and token of the lease: a chunk of a paused tenant is its trial."""
        for tenant, token in leases:
            pause = self._pauses.get(tenant)
            if pause is not None and not pause.is_over:
                self._trials.add(token)
                self._pauses[tenant] = TenantPause(0, pause.left, pause.reason)
                with suppress(Unavailable):  # another worker may make a trial, too
                    await self._run("trial", tenant)

    def require(self, tenant: str, token: int) -> None:
        """Check that a call may be paid for a claimed chunk.

        Raises:
            LoadPaused: the tenant's load has been paused since the claim.
        """
        pause = self._pauses.get(tenant)
        if pause is not None and not pause.is_over and token not in self._trials:
            after = pause.left or _AGAIN
            raise LoadPaused(pause.sentence, retry_after=after, burns_attempt=False)

    async def record(self, tenant: str, token: int, endings: Sequence[str]) -> None:
        """Record the endings of a chunk's calls, in order; they are not counted without the broker."""
        is_trial = token in self._trials
        self._trials.discard(token)
        if not endings:
            return
        try:
            paused_ms = await self._run("record", tenant, orjson.dumps(list(endings)), int(is_trial))
        except Unavailable as error:
            log.warning("endings.lost", tenant=tenant, reason=error.message)
            return
        if paused_ms:
            reason = next((ending for ending in reversed(endings) if ending), "")
            self._pauses[tenant] = TenantPause(0, timedelta(milliseconds=paused_ms), reason)
            log.warning("load.paused", tenant=tenant, seconds=round(paused_ms / 1000), reason=reason)
        self._read_at = -math.inf if paused_ms or is_trial else self._read_at

    async def resume(self, tenant: str) -> bool:
        """Forget a tenant's endings; return whether its load was paused.

        Raises:
            Unavailable: the broker is unavailable.
        """
        return bool(await self._run("resume", tenant))

    async def _run(self, action: str, tenant: str = "", *values: str | bytes | int) -> Any:
        keys = [self._key("endings"), self._key(f"endings:{tenant}")]
        try:
            return await self._script(keys=keys, args=[action, tenant, *values])
        except (RedisError, OSError) as error:
            raise Unavailable(
                "the broker, which counts the endings of calls, is unavailable", component="broker"
            ) from error
