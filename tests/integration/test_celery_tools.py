"""Celery's own tools see the workers if a setting says so, and other Celery applications share a broker safely."""

import asyncio
import os
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path

import orjson
import pytest
from celery import Celery
from redis.asyncio import Redis

from shared.broker.wakeups import celery_app
from shared.ledger.postgres.statements import Statement
from tests.support.planted import guards
from tests.support.waiting import TIMEOUT_SECONDS, eventually

ROOT = Path(__file__).resolve().parents[2]
ACTIVITY = Statement("SELECT application_name FROM pg_stat_activity")
ON = {"FOREASK_CELERY_REMOTE_CONTROL": "true"}
SHORT_SECONDS = 0.5  # in which no worker replies


@pytest.fixture
def url(settings):
    return settings.redis_url.get_secret_value()


@pytest.fixture
async def redis(url):
    async with Redis.from_url(url, decode_responses=True) as redis:
        await redis.flushall()
        yield redis
        await redis.flushall()


@asynccontextmanager
async def worker(services, forks, log, **variables):
    """Start a parse worker, and yield the process when it listens."""
    log.touch()
    environment = os.environ | services.settings.environment() | variables
    process = forks.launch([sys.executable, "-m", "workers", "parse"], environment, log)
    try:
        await eventually(lambda: "worker.started" in log.read_text() or process.poll() is not None)
        yield process
    finally:
        process.kill()
        await asyncio.to_thread(process.wait, TIMEOUT_SECONDS)


def celery(services, *arguments):
    """Run Celery's own command line with our application."""
    command = [sys.executable, "-m", "celery", "-A", "workers.app", *arguments]
    given = os.environ | services.settings.environment()
    return subprocess.run(command, check=False, capture_output=True, text=True, env=given, cwd=ROOT, timeout=60)


async def test_application_for_tools_starts_no_worker(services):
    done = await asyncio.to_thread(celery, services, "worker")

    assert done.returncode == 1
    assert "Start workers with `foreask worker ROLE`" in done.stderr


def replies(app, command, seconds=TIMEOUT_SECONDS):
    """Return the reply of the only worker, or nothing if there is none in time."""
    found = app.control.broadcast(command, reply=True, timeout=seconds, limit=1)
    return [(name, value) for reply in found for name, value in reply.items()]


async def test_remote_control_shows_workers_to_celery_tools(services, redis, url, forks, tmp_path):
    app = celery_app(url, remote_control=True)
    async with worker(services, forks, tmp_path / "log", **ON) as process, redis.pubsub() as events:
        await events.psubscribe("*foreask.events*")
        node = f"parse-{process.pid}@{socket.gethostname()}"  # with its name Celery waits for this reply only
        pinged = await asyncio.to_thread(celery, services, "inspect", "ping", "-d", node, "--timeout", "9")
        ((name, queues),) = await asyncio.to_thread(replies, app, "active_queues")
        services.wakeups.wake("parse")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (heard := await anext(events.listen()))["type"] != "pmessage":
                pass
        clients = {client["name"] for client in await redis.client_list()}
        rows = await services.database.rows(ACTIVITY)
    app.close()

    assert pinged.stdout.split() == ["->", f"{node}:", "OK", "pong", "1", "node", "online."], pinged.stderr
    assert name == node
    assert [queue["name"] for queue in queues] == ["foreask.parse", "foreask.syncs"]
    assert orjson.loads(heard["data"])["headers"]["hostname"] == name
    shown = f"{socket.gethostname()}:{process.pid}"
    assert {f"foreask-parse-wakeups-{shown}", f"foreask-parse-state-{shown}"} <= clients
    assert f"foreask-parse-{shown}" in {row.application_name for row in rows}


@guards(
    "workers/process.py",
    "worker.safe_say = _say_nothing",
    "pass",
    means="a stopping worker writes lines that are not JSON",
)
async def test_every_line_of_stopped_worker_is_json(services, forks, tmp_path):
    log = tmp_path / "log"
    async with worker(services, forks, log) as process:
        process.terminate()
        await asyncio.to_thread(process.wait, TIMEOUT_SECONDS)

    events = [orjson.loads(line)["event"] for line in log.read_text().splitlines()]
    assert [event for event in events if event.startswith("worker.")] == ["worker.started", "worker.stopping"]


@guards(
    "shared/broker/wakeups.py",
    "        control_exchange=_EXCHANGE,\n",
    "",
    means="another Celery application on the broker stops our workers",
)
async def test_foreign_application_does_not_reach_workers(services, redis, url, forks, tmp_path):
    ours, foreign, log = celery_app(url, remote_control=True), Celery("other", broker=url), tmp_path / "log"
    async with worker(services, forks, log, **ON) as process:
        for queue in ("parse", "celery"):
            await asyncio.to_thread(foreign.send_task, "other.reindex", queue=queue)
        await asyncio.to_thread(foreign.control.shutdown)
        assert await asyncio.to_thread(replies, foreign, "ping", SHORT_SECONDS) == []

        before = await asyncio.to_thread(_processed, ours)
        services.wakeups.wake("parse")
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while await asyncio.to_thread(_processed, ours) == before:
                await asyncio.sleep(0.05)
        assert [await redis.llen(queue) for queue in ("parse", "celery")] == [1, 1]
        assert process.poll() is None
    ours.close()
    foreign.close()


def _processed(app):
    """Return the number of wake-ups that the worker has received."""
    ((_, stats),) = replies(app, "stats")
    return stats["total"].get("foreask.parse", 0)


async def test_workers_answer_no_remote_control_by_default(services, redis, url, forks, tmp_path):
    app = celery_app(url, remote_control=True)
    async with worker(services, forks, tmp_path / "log"):
        assert await asyncio.to_thread(replies, app, "ping", SHORT_SECONDS) == []
    app.close()
