"""Tenants' use of the API: requests and uploaded bytes, counted in Valkey for all API processes.

It fails open: while the broker is unavailable, or has lost its counts, requests pass uncounted.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from redis.exceptions import RedisError

from shared.broker.connections import open_redis, reason_of

_TIMEOUT = timedelta(seconds=0.25)  # delays each request of a limited tenant
_UNAVAILABLE_SECONDS = 1.0  # pause after a failed call
_EMPTY_SECONDS = 1.0  # an empty bucket is checked again after this time, because it may have been lost
_DAY = timedelta(days=1)

# Take one request from a bucket, if it has one. Reply: whether it was granted, the requests left, and the milliseconds
# until the bucket has one again and until it is full.
_TAKE = """#!lua flags=allow-oom
local clock, rate, capacity = redis.call('TIME'), tonumber(ARGV[1]), tonumber(ARGV[2])
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local was = redis.call('HMGET', KEYS[1], 'left', 'at')
local left, at = tonumber(was[1] or capacity), tonumber(was[2] or now)
left = math.min(capacity, left + math.max(0, now - at) * rate)
local taken = left >= 1 and 1 or 0
left = left - taken
redis.call('HSET', KEYS[1], 'left', string.format('%.17g', left), 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil(capacity / rate) + 1000)
return {taken, math.floor(left), math.max(0, math.ceil((1 - left) / rate)), math.ceil((capacity - left) / rate)}
"""

# Add to a sum unless it exceeds a limit. Reply: whether it was added.
_ADD = """#!lua flags=allow-oom
local sum = math.max(0, tonumber(redis.call('GET', KEYS[1]) or 0) + tonumber(ARGV[1]))
if sum > tonumber(ARGV[2]) then return 0 end
redis.call('SET', KEYS[1], string.format('%.0f', sum), 'EX', ARGV[3])
return 1
"""

# Add an offer unless there are too many. Reply: whether it was added.
_OFFER = """#!lua flags=allow-oom
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
redis.call('EXPIRE', KEYS[1], ARGV[4])
return 1
"""

# Remove offers. Reply: the removed ones.
_CLOSE = """#!lua flags=allow-oom
local closed = {}
for _, token in ipairs(ARGV) do
  local offer = redis.call('HGET', KEYS[1], token)
  if offer and redis.call('HDEL', KEYS[1], token) == 1 then table.insert(closed, offer) end
end
return closed
"""

# Add to the spending of a day. Reply: its tokens, and its cost as a text.
_SPEND = """#!lua flags=allow-oom
if tonumber(ARGV[1]) ~= 0 then redis.call('HINCRBY', KEYS[1], 'tokens', ARGV[1]) end
if tonumber(ARGV[2]) ~= 0 then redis.call('HINCRBYFLOAT', KEYS[1], 'cost', ARGV[2]) end
redis.call('EXPIRE', KEYS[1], ARGV[3])
local spent = redis.call('HMGET', KEYS[1], 'tokens', 'cost')
return {tonumber(spent[1] or 0), spent[2] or '0'}
"""

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BucketState:
    """The state of a bucket after a request.

    Args:
        granted: whether the bucket had a token.
        left: number of tokens left.
        wait: time until it has a token again.
        full: time until it is full again.
    """

    granted: bool
    left: int
    wait: timedelta
    full: timedelta


@dataclass(frozen=True, slots=True)
class OpenOffer:
    """An address for a direct upload that was not submitted.

    Args:
        token: its token.
        size_bytes: size that was taken from the bytes of its day.
        created_at: time of the offer.
    """

    token: str
    size_bytes: int
    created_at: datetime

    @property
    def age(self) -> timedelta:
        return datetime.now(UTC) - self.created_at

    @property
    def is_of_today(self) -> bool:
        return self.created_at.date() == datetime.now(UTC).date()

    def packed(self) -> str:
        return f"{self.token} {self.size_bytes} {self.created_at.isoformat()}"

    @classmethod
    def parse(cls, packed: bytes | str) -> OpenOffer:
        token, size, created_at = (packed.decode() if isinstance(packed, bytes) else packed).split(" ")
        return cls(token, int(size), datetime.fromisoformat(created_at))


class TenantUse:
    """The counts of all tenants; nothing is counted while the broker is unavailable.

    Args:
        redis_url: URL of the broker.
        now: clock in monotonic seconds.
        timeout: time after which the broker counts as unavailable.
    """

    def __init__(
        self, redis_url: str, now: Callable[[], float] = time.monotonic, timeout: timedelta = _TIMEOUT
    ) -> None:
        self._now = now
        self._redis = open_redis(redis_url, timeout)
        self._take = self._redis.register_script(_TAKE)
        self._add = self._redis.register_script(_ADD)
        self._offer = self._redis.register_script(_OFFER)
        self._close = self._redis.register_script(_CLOSE)
        self._spend = self._redis.register_script(_SPEND)
        self._unavailable_until = 0.0
        self._empty: dict[str, tuple[float, BucketState]] = {}  # time and reply of the last refusal of each bucket

    async def take_request(self, owner: str, per_second: float, burst: int) -> BucketState | None:
        """Take a token from the bucket of `burst` of a tenant or a key; None if the broker is unavailable.

        An empty bucket is not checked again until it can have a token, so a client that sends far too many requests
        causes no load on the broker.
        """
        if (refused := self._still_empty(owner)) is not None:
            return refused
        reply = await self._run(self._take, f"foreask:use:{owner}:requests", per_second / 1000, burst)
        if reply is None:
            return None
        granted, left, wait, full = reply
        taken = BucketState(bool(granted), left, timedelta(milliseconds=wait), timedelta(milliseconds=full))
        if not taken.granted:
            self._empty[owner] = self._now(), taken
        return taken

    async def add_upload(self, tenant: str, size_bytes: int, most: int) -> bool:
        """Count uploaded bytes, unless they exceed the tenant's daily maximum `most`; return whether they fit.

        With 0 bytes nothing is counted; a negative number gives bytes back. An unavailable broker accepts everything.
        """
        key = _uploads_key(tenant)
        has_room = await self._run(self._add, key, size_bytes, most, 2 * int(_DAY.total_seconds()))
        return has_room is None or bool(has_room)

    async def uploaded_today(self, tenant: str) -> int | None:
        """Return the uploaded bytes that were counted today; None while the broker is unavailable."""
        if self._now() < self._unavailable_until:
            return None
        try:
            return int(await self._redis.get(_uploads_key(tenant)) or 0)
        except (RedisError, OSError) as error:
            self._record_outage(error)
            return None

    async def add_offer(self, tenant: str, offer: OpenOffer, most: int) -> bool:
        """Count an open offer of a tenant, unless it has `most`; return whether it was counted, or cannot be."""
        seconds = 2 * int(_DAY.total_seconds())
        added = await self._run(self._offer, _offers_key(tenant), offer.token, offer.packed(), most, seconds)
        return added is None or bool(added)

    async def offers(self, tenant: str) -> list[OpenOffer]:
        """Return the open offers of a tenant; none while the broker is unavailable."""
        if self._now() < self._unavailable_until:
            return []
        try:
            return [OpenOffer.parse(each) for each in await self._redis.hvals(_offers_key(tenant))]
        except (RedisError, OSError) as error:
            self._record_outage(error)
            return []

    async def close_offers(self, tenant: str, tokens: Sequence[str]) -> list[OpenOffer]:
        """Remove open offers of a tenant; return the removed ones, each to one caller only."""
        closed = await self._run(self._close, _offers_key(tenant), *tokens) if tokens else None
        return [OpenOffer.parse(each) for each in closed or ()]

    async def spend(self, owner: str, tokens: int, cost: float) -> tuple[int, float] | None:
        """Add to the spending of a tenant's or key's queries today; return the sums, or None without the broker."""
        key = f"foreask:use:{owner}:queries:{datetime.now(UTC):%Y%m%d}"
        reply = await self._run(self._spend, key, tokens, f"{cost:.8f}", 2 * int(_DAY.total_seconds()))
        return None if reply is None else (int(reply[0]), float(reply[1]))

    async def aclose(self) -> None:
        await self._redis.aclose()

    def _still_empty(self, tenant: str) -> BucketState | None:
        if tenant not in self._empty:
            return None
        since, refused = self._empty[tenant]
        elapsed = timedelta(seconds=self._now() - since)
        if elapsed >= min(refused.wait, timedelta(seconds=_EMPTY_SECONDS)):
            del self._empty[tenant]
            return None
        return replace(refused, wait=refused.wait - elapsed, full=refused.full - elapsed)

    async def _run(self, script: Any, key: str, *values: float | str) -> Any:
        if self._now() < self._unavailable_until:
            return None
        try:
            return await script(keys=[key], args=values)
        except (RedisError, OSError) as error:
            self._record_outage(error)
            return None

    def _record_outage(self, error: Exception) -> None:
        self._unavailable_until = self._now() + _UNAVAILABLE_SECONDS
        log.warning("tenant_use.uncounted", kind=type(error).__name__, reason=reason_of(error))


def _uploads_key(tenant: str) -> str:
    return f"foreask:use:{tenant}:uploads:{datetime.now(UTC):%Y%m%d}"


def _offers_key(tenant: str) -> str:
    return f"foreask:use:{tenant}:offers"


def until_tomorrow() -> timedelta:
    """Return the time until midnight UTC."""
    now = datetime.now(UTC)
    return now.replace(hour=0, minute=0, second=0, microsecond=0) + _DAY - now
