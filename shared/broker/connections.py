"""Connections to the broker, and the reasons why one fails."""

from __future__ import annotations

import re
from datetime import timedelta

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import ResponseError

from shared.process.identity import connection_name
from shared.process.network import problem_of
from shared.process.network.brokers import read_broker_url
from shared.process.words import words_for_people

_ADDRESS = re.compile(r" (?:connecting to|while reading from|while writing to|to) \S+:\d+|'[^']*:\d+'|\S+://\S+")
_OF_CLUSTERS = ("MOVED", "ASK ", "CROSSSLOT", "CLUSTERDOWN")
CLUSTER = "it is a node of a Redis Cluster, which is not supported: use a server without cluster mode"


def open_redis(redis_url: str, timeout: timedelta) -> Redis:
    """Return a client that opens connections on first use, and sends a command again if its connection was lost.

    The network closes idle connections, or forgets them. Only for commands that may be executed twice. A broker that
    stays silent is not tried again, because callers wait.

    Args:
        redis_url: URL of the broker.
        timeout: timeout of a connection or a reply.
    """
    url, tls = read_broker_url(redis_url)
    seconds = timeout.total_seconds()
    once_if_lost = Retry(NoBackoff(), 1, (RedisConnectionError,))
    return Redis.from_url(
        url,
        **tls,
        socket_timeout=seconds,
        socket_connect_timeout=seconds,
        retry=once_if_lost,
        client_name=connection_name("state"),
    )


async def is_of_cluster(redis: Redis) -> bool:
    """Return whether a server is a node of a Redis Cluster; it serves some keys, and no script with several."""
    try:
        return bool((await redis.info("cluster")).get("cluster_enabled"))
    except ResponseError:  # the user may not ask
        return False


def reason_of(error: Exception) -> str:
    """Return the reason of a failed connection, else the kind of an error and its words without an address."""
    answer = next((each for each in (error, error.__cause__) if isinstance(each, ResponseError)), None)
    if answer is not None and str(answer).startswith(_OF_CLUSTERS):
        return CLUSTER
    words = words_for_people(_ADDRESS.sub("", str(error)))
    named = f"{type(error).__name__}: {words}" if words else type(error).__name__
    return named if answer is not None else problem_of(error) or named
