"""The limiters of the load on providers; the stack closes their connections."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import timedelta

from shared.providers.limiter.limiter import Limiter, ProviderLimits, connect
from shared.settings import Settings, require

PROBE_TIMEOUT = timedelta(seconds=30)  # some servers load the model first


def limiter_of(
    settings: Settings, limits: ProviderLimits, probe: Callable[[], Awaitable[object]], stack: AsyncExitStack
) -> Limiter:
    """Create the limiter of a provider."""
    redis = connect(require(settings.redis_url, "FOREASK_REDIS_URL").get_secret_value())
    stack.push_async_callback(redis.aclose)
    limiter = Limiter(redis, limits, probe)
    stack.push_async_callback(limiter.aclose)
    return limiter
