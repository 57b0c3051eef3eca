"""A tenant's keys in the broker: limits and their use. They contain the tenant's name; wake-ups do not."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import timedelta

from redis.exceptions import RedisError

from shared.broker.connections import open_redis, reason_of
from shared.domain.errors import Unavailable

_PAGE = 1_000  # keys that the broker scans per iteration


class TenantKeys:
    """Finds keys that end with `:tenant:NAME`, such as a provider's limits, or start with `foreask:use:NAME:`.

    Args:
        redis_url: URL of the broker.
        timeout: timeout of a connection or a reply.
    """

    def __init__(self, redis_url: str, *, timeout: timedelta = timedelta(seconds=5)) -> None:
        self._redis = open_redis(redis_url, timeout)

    async def find(self, tenant: str) -> list[str]:
        """Return the names of a tenant's keys.

        Raises:
            Unavailable: the broker is unavailable.
        """
        with _errors():
            return [key.decode(errors="replace") async for key in self._keys(tenant)]

    async def delete(self, tenant: str) -> None:
        """Delete a tenant's keys; raises as `find`."""
        with _errors():
            async for key in self._keys(tenant):
                await self._redis.delete(key)

    async def aclose(self) -> None:
        await self._redis.aclose()

    async def _keys(self, tenant: str) -> AsyncIterator[bytes]:
        prefix, suffix = f"foreask:use:{tenant}:".encode(), f":tenant:{tenant}".encode()
        async for key in self._redis.scan_iter(count=_PAGE):
            if key.startswith(prefix) or key.endswith(suffix):
                yield key


@contextmanager
def _errors() -> Iterator[None]:
    try:
        yield
    except RedisError as error:
        raise Unavailable(f"the broker is not available: {reason_of(error)}", component="broker") from error
