"""Heartbeats: the operator sees which workers are alive."""

import asyncio
import socket
from datetime import timedelta

import orjson
from typer.testing import CliRunner

from cli.main import app
from embedded.ports import free_port
from shared.ledger.work import heartbeats
from shared.ledger.work.heartbeats import Heartbeats
from tests.support.waiting import TIMEOUT_SECONDS


async def seen(services, count=1):
    while len(found := await services.ledger[Heartbeats].seen()) < count:
        await asyncio.sleep(0.01)
    return found


async def test_worker_is_listed_while_alive(services, monkeypatch):
    monkeypatch.setattr(heartbeats, "BEAT_EVERY", timedelta(seconds=0.02))
    in_progress = 3
    async with services.ledger[Heartbeats].beating("parse", lambda: in_progress):
        (first,) = await seen(services)
        in_progress = 5
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while (await seen(services))[0].in_progress != 5:
                await asyncio.sleep(0.01)
        assert (first.role, first.host, first.alive, first.in_progress) == ("parse", socket.gethostname(), True, 3)
    assert not await services.ledger[Heartbeats].seen()


async def test_dead_worker_is_not_alive_and_deleted_later(services):
    async with services.database.begin() as connection:
        await connection.execute_sql(
            "INSERT INTO workers (id, role, host, pid, in_progress, seen_at) VALUES"
            " (gen_random_uuid(), 'parse', 'a', 1, 0, now() - interval '40 seconds'),"
            " (gen_random_uuid(), 'index', 'a', 2, 0, now() - interval '61 minutes')"
        )
    assert not await services.ledger[Heartbeats].beats("parse", "a")
    await services.ledger[Heartbeats].forget()

    (remaining,) = await services.ledger[Heartbeats].seen()
    assert (remaining.role, remaining.alive) == ("parse", False)


def invoke(*arguments):
    return CliRunner().invoke(app, arguments)


async def test_health_and_status_commands_report_live_workers(services, settings, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_DATABASE_URL", settings.database_url.get_secret_value())
    async with services.ledger[Heartbeats].beating("index", lambda: 7):
        await seen(services)
        assert (await asyncio.to_thread(invoke, "health", "index")).exit_code == 0
        assert (await asyncio.to_thread(invoke, "health", "parse")).exit_code == 1
        listed = await asyncio.to_thread(invoke, "status", "--workers", "--json")
        assert (await asyncio.to_thread(invoke, "health", "ingest")).exit_code == 1  # nothing generates
    (worker,) = orjson.loads(listed.stdout)["workers"]
    assert (worker["role"], worker["alive"], worker["in_progress"]) == ("index", True, 7)

    monkeypatch.setenv("FOREASK_DATABASE_URL", f"postgresql://a:b@127.0.0.1:{free_port()}/c")
    assert (await asyncio.to_thread(invoke, "health", "index")).exit_code == 0


async def test_worker_of_two_stages_is_alive(services, settings, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FOREASK_DATABASE_URL", settings.database_url.get_secret_value())
    beating = services.ledger[Heartbeats].beating
    async with beating("generate", lambda: 7), beating("index", lambda: 1):
        await seen(services, 2)

        assert (await asyncio.to_thread(invoke, "health", "ingest")).exit_code == 0
