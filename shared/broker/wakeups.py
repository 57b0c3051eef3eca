"""Wake-ups: messages in the broker that make workers claim due work.

The message contains no work, so losing it costs time only: the scheduler wakes the worker again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import Context
from datetime import timedelta

import structlog
from celery import Celery
from kombu.exceptions import KombuError, OperationalError
from redis.exceptions import RedisError

from shared.broker.connections import CLUSTER, is_of_cluster, open_redis, reason_of
from shared.domain.errors import Unavailable
from shared.domain.queues import QUEUES, WORK_QUEUES, Queue, broker_name
from shared.process.identity import connection_name
from shared.process.network.brokers import read_broker_url

# One queued wake-up suffices: it is queued while all workers are busy, and the worker that takes it claims later, so it
# sees every committed row. If more is due than it can do, it wakes another worker. Further wake-ups would start drains
# without work.
_ENOUGH = 1
_QUIET_SECONDS = 0.05  # between two rounds of sending: wake-ups for the same queue become one
_EXCHANGE = "foreask"  # of remote control
_CLOSE = timedelta(seconds=1)
_TIMEOUT = timedelta(seconds=5)
_PAUSE = timedelta(seconds=2)  # the scheduler wakes workers anyway

log = structlog.get_logger()


def celery_app(redis_url: str, *, timeout: timedelta = _TIMEOUT, remote_control: bool = False) -> Celery:
    """Return the Celery application of the API, the workers and the scheduler.

    Args:
        redis_url: URL of the broker.
        timeout: timeout of a connection or a reply.
        remote_control: whether a worker answers Celery's tools, and sends events of its tasks.
    """
    seconds = timeout.total_seconds()
    url, tls = read_broker_url(redis_url)
    app = Celery("foreask", broker=url)
    app.conf.update(
        # Kombu forgets the scheme of the URL if the transport is our own, and would send the password in clear text.
        broker_use_ssl=tls or None,
        task_default_queue=broker_name("parse"),
        task_routes={name: {"queue": name} for name in map(broker_name, QUEUES)},
        task_serializer="json",
        accept_content=["json"],
        result_backend="disabled://",
        task_ignore_result=True,
        task_store_errors_even_if_ignored=False,
        # A wake-up needs no redelivery, because the rows of a killed worker become due anyway. Therefore it is
        # acknowledged at once.
        broker_transport="shared.broker.transport:Transport",
        task_acks_late=False,
        worker_prefetch_multiplier=1,
        worker_hijack_root_logger=False,
        worker_redirect_stdouts=False,  # it would wrap every line of the log in another
        worker_send_task_events=remote_control,
        worker_enable_remote_control=remote_control,
        # Otherwise `celery control shutdown` of another application on this broker would stop our workers.
        control_exchange=_EXCHANGE,
        event_exchange=_EXCHANGE + ".events",
        worker_soft_shutdown_timeout=30,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={
            "socket_timeout": seconds,  # without it a publish to a silent broker hangs for ever
            "socket_connect_timeout": seconds,
            "socket_keepalive": True,
            "client_name": connection_name("wakeups"),
            # A connection whose other end disappears silently is dropped after twice this time and a second.
            "health_check_interval": seconds,
        },
    )
    return app


class Wakeups:
    """Wakes workers without delaying the caller: a separate task sends the messages, merging many wake-ups.

    Args:
        redis_url: URL of the broker.
        timeout: timeout of a connection or a reply.
        pause: pause between a failed wake-up and the next one.
        close: maximum time of sending the remaining wake-ups.
    """

    def __init__(
        self, redis_url: str, *, timeout: timedelta = _TIMEOUT, pause: timedelta = _PAUSE, close: timedelta = _CLOSE
    ) -> None:
        self._app = celery_app(redis_url, timeout=timeout)
        self._redis = open_redis(redis_url, timeout)
        self._pause_seconds = pause.total_seconds()
        self._close_seconds = close.total_seconds()
        self._is_single = False  # whether the broker is known not to be a Redis Cluster
        self._failure: str | None = None  # reason of the last wake-up, if it failed
        self._unsent: set[Queue] = set()
        self._wake = asyncio.Event()
        self._closing = False
        self._task: asyncio.Task[None] | None = None
        self._loop = asyncio.get_running_loop()
        self._publisher = ThreadPoolExecutor(1, "wakeups")  # Celery keeps a connection for each thread that publishes

    def wake_from_thread(self, *queues: Queue) -> None:
        """Wake workers as `wake` does, from another thread than the loop's."""
        self._loop.call_soon_threadsafe(self.wake, *queues)

    def wake(self, *queues: Queue) -> None:
        """Wake a worker of each queue; never fails, never waits."""
        self._send_soon(queues)

    def start(self) -> None:
        """Connect early by waking every worker, because work may have arrived while no process ran."""
        self._send_soon(WORK_QUEUES)

    def _send_soon(self, queues: Iterable[Queue]) -> None:
        self._unsent.update(queues)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._send_all(), name="wakeups", context=Context())  # without ids

    async def ready(self) -> None:
        """Return when the broker has stored a value; a full broker answers requests but stores nothing.

        Celery's connection is asked, too, because it reads the URL in its own way.

        Raises:
            Unavailable: the broker cannot be reached, or is full.
        """
        try:
            if not self._is_single and await is_of_cluster(self._redis):
                raise Unavailable(f"the broker cannot be used: {CLUSTER}", component="broker")
            self._is_single = True
            await self._redis.set("foreask:ready", 1, ex=60)
            try:
                await self._loop.run_in_executor(self._publisher, self._ping)
            except (RedisError, OperationalError):  # Celery's idle connection was lost
                await self._loop.run_in_executor(self._publisher, self._ping)
        except (RedisError, KombuError, OSError) as error:
            raise Unavailable(f"the broker accepts no messages: {reason_of(error)}", component="broker") from error

    async def aclose(self) -> None:
        """Send the remaining wake-ups, and close."""
        self._closing = True
        self._wake.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=self._close_seconds)
            self._task.cancel()
            # With a timeout: a client that is cancelled while it connects may treat that as a failure and try again.
            await asyncio.wait([self._task], timeout=self._close_seconds)
        await self._redis.aclose()
        self._publisher.shutdown(wait=False, cancel_futures=True)
        await asyncio.to_thread(self._app.close)

    async def _send_all(self) -> None:
        while not self._closing or self._unsent:
            await self._wake.wait()
            self._wake.clear()
            while self._unsent:
                await self._try(self._unsent.pop())
            if not self._closing:
                await asyncio.sleep(_QUIET_SECONDS)

    async def _try(self, queue: Queue) -> None:
        try:
            try:
                await self._send(queue)
            except OperationalError:  # Celery's idle connection was lost
                await self._send(queue)
            self._failure = None
        except (RedisError, KombuError, OSError) as error:
            # The ledger has the work and the scheduler wakes the worker again: nothing is lost, so no caller fails.
            reason = reason_of(error)
            if reason != self._failure:  # it fails every two seconds until the broker is back
                log.warning("wakeup.failed", queue=queue, reason=reason)
            self._failure = reason
            if not self._closing:
                await asyncio.sleep(self._pause_seconds)

    async def _send(self, queue: Queue) -> None:
        queued = await self._redis.llen(broker_name(queue))
        if queued < _ENOUGH:
            await self._loop.run_in_executor(self._publisher, self._publish, queue)

    def _ping(self) -> None:
        """Send a request over the connection that sends wake-ups."""
        with self._app.producer_or_acquire() as producer:
            producer.connection.default_channel.client.ping()

    def _publish(self, queue: Queue) -> None:
        self._app.send_task(broker_name(queue), retry=False)
