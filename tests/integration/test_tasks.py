"""Tasks of a worker: any message wakes it, and work in progress outlives a task but not the worker."""

import asyncio
from datetime import timedelta

import pytest

from shared.broker.wakeups import celery_app
from shared.domain.queues import STAGES
from shared.domain.states import DocumentState
from shared.ledger.documents.documents import Documents
from shared.ledger.work.heartbeats import Heartbeats
from tests.support.api import work
from tests.support.planted import guards
from workers.loop import WorkerLoop
from workers.tasks import register

MESSAGES = [((), {}), ((), {"sent_at": 1.5}), ((["an", "id"],), {"batch": ["0b4f7c1e"], "release": "0.1"})]


@pytest.mark.parametrize("message", MESSAGES)
async def test_message_wakes_worker_regardless_of_content(services, settings, library, provider, message):
    arguments, named = message
    document = await library.add("A text about a lighthouse and its keeper.")
    for role, queue in (("parse", "parse"), ("index", "index"), ("ingest", "generate"), ("ingest", "index")):
        loop = await asyncio.to_thread(WorkerLoop, role, settings)
        app = celery_app(settings.redis_url.get_secret_value())
        queues = register(app, loop)
        try:
            await asyncio.to_thread(app.tasks[f"foreask.{queue}"], *arguments, **named)
        finally:
            await asyncio.to_thread(loop.close)
            app.close()
        others = {"parse": ["syncs"], "index": ["calibrate", "runs"], "ingest": ["calibrate", "runs", "batches"]}
        assert queues == [*STAGES[role], *others[role]]

    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY
    assert not await services.ledger[Heartbeats].seen()  # a worker that stops cleanly deletes its row


@guards(
    "workers/loop.py",
    "self.run(self._close_runners())",
    "pass",
    means="a worker that is stopped between two tasks abandons its calls",
)
async def test_stopped_worker_settles_calls_of_ended_task(services, settings, library, provider):
    document = await library.add("A text about a lighthouse and its keeper.")
    await work(services, "parse", "index")
    provider.script(latency_seconds=2.0)
    tuning = settings.tuning.model_copy(update={"drain": timedelta(seconds=0.3)})
    loop = await asyncio.to_thread(WorkerLoop, "generate", settings.model_copy(update={"tuning": tuning}))
    app = celery_app(settings.redis_url.get_secret_value())
    register(app, loop)
    try:
        await asyncio.to_thread(app.tasks["foreask.generate"])
        assert loop.runners["generate"].in_progress == 1  # the task has ended before its call
        loop.stop()
    finally:
        await asyncio.to_thread(loop.close)
        app.close()

    await work(services, "generate", "index")
    assert provider.stats()["calls"] == 1
    assert (await services.ledger[Documents].get("default", document.id)).state == DocumentState.READY
