"""Wake-ups never delay the caller, with or without a broker."""

import asyncio
import json
import socket
from datetime import timedelta

import pytest
from redis.asyncio import Redis

from shared.broker.wakeups import Wakeups
from shared.domain.queues import WORK_QUEUES
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually


async def test_wakeups_reach_queue_and_are_merged(settings):
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    await wakeups._redis.flushall()
    for _ in range(3):
        for _ in range(100):
            wakeups.wake("generate")
        await eventually(lambda: not wakeups._unsent)
    wakeups.wake("index")
    await eventually(lambda: wakeups._redis.llen("foreask.index"))  # sent after all others

    queued = {queue: await wakeups._redis.llen(f"foreask.{queue}") for queue in WORK_QUEUES}
    await wakeups._redis.flushall()
    await wakeups.aclose()
    assert queued["generate"] == 1
    assert queued["parse"] == 0


@guards(
    "shared/broker/wakeups.py",
    "while not self._closing or self._unsent:",
    "while not self._closing:",
    means="the last wake-ups of a process are lost",
)
async def test_closing_sends_remaining_wakeups(settings):
    url = settings.redis_url.get_secret_value()
    async with Redis.from_url(url) as redis:
        await redis.flushall()
        wakeups = Wakeups(url, close=timedelta(seconds=TIMEOUT_SECONDS))
        wakeups.wake("parse", "index")

        await wakeups.aclose()

        assert [await redis.llen(f"foreask.{queue}") for queue in ("parse", "index")] == [1, 1]
        await redis.flushall()


@guards(
    "shared/broker/wakeups.py",
    "retry=False)",
    "retry=False, expires=3600)",
    means="a worker whose clock is fast drops its wake-ups",
)
async def test_wakeups_do_not_expire(settings):
    url = settings.redis_url.get_secret_value()
    async with Redis.from_url(url) as redis:
        await redis.flushall()
        wakeups = Wakeups(url, close=timedelta(seconds=TIMEOUT_SECONDS))
        wakeups.wake("parse")
        await wakeups.aclose()

        assert json.loads(await redis.lpop("foreask.parse"))["headers"]["expires"] is None


async def test_wakeups_close_quickly_at_any_stage(settings):
    for pause in (0, 0.001, 0.005, 0.02, 0.1):
        wakeups = Wakeups(settings.redis_url.get_secret_value())
        wakeups.start()
        await asyncio.sleep(pause)
        await asyncio.wait_for(wakeups.aclose(), timeout=TIMEOUT_SECONDS)
        assert wakeups._task.done()


@pytest.mark.parametrize("listening", [True, False])
async def test_silent_or_missing_broker_does_not_delay_caller(listening):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        if listening:
            silent.listen()
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}/0"
        wakeups = Wakeups(url, close=timedelta(seconds=0.05))
        wakeups.wake("parse", "generate")
        assert wakeups._unsent == {"parse", "generate"}  # it has returned before anything was sent
        await eventually(lambda: len(wakeups._unsent) < 2)
        await asyncio.wait_for(wakeups.aclose(), timeout=TIMEOUT_SECONDS)
