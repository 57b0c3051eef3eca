"""Connections to the broker that the network closed, or forgot, while they were idle."""

from __future__ import annotations

from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError


def once_if_lost() -> Retry:
    """Return the rule that sends a command again, over a new connection, if its connection was lost.

    Only for commands that may be executed twice. A broker that stays silent is not tried again, because callers wait.
    """
    return Retry(NoBackoff(), 1, (RedisConnectionError,))
