"""Engines that are full say so, and nothing is lost."""

import asyncpg
import pytest
from redis.asyncio import Redis
from sqlalchemy import exc

from api.schemas.health import ReadyReply
from shared.broker.wakeups import Wakeups
from shared.domain.errors import Unavailable
from shared.domain.states import DocumentState
from shared.ledger.postgres.database import _unavailable
from tests.support.api import calling, work


@pytest.fixture
async def full_broker(settings):
    async with Redis.from_url(settings.redis_url.get_secret_value()) as redis:
        await redis.config_set("maxmemory", "1mb")
        yield redis
        await redis.config_set("maxmemory", "0")


async def test_full_broker_accepts_uploads_and_fails_health(services, settings, provider, full_broker, monkeypatch):
    monkeypatch.setattr("api.progress.readiness._FRESH_SECONDS", 0.0)
    async with calling(settings) as client:
        reply = await client.post("/v1/documents", json={"text": "A text about a lighthouse and its keeper."})
        health = ReadyReply.model_validate_json((await client.get("/health/ready")).content)
        await full_broker.config_set("maxmemory", "0")
        well = ReadyReply.model_validate_json((await client.get("/health/ready")).content)
        await work(services)
        document = (await client.get(f"/v1/documents/{reply.json()['id']}")).json()

    assert reply.status_code == 202
    assert (health.status, health.down) == ("degraded", ["broker"])
    assert well.status == "ready"
    assert document["state"] == DocumentState.READY


async def test_the_reason_of_a_full_broker_is_logged(settings, full_broker, capsys):
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    with pytest.raises(Unavailable, match="maxmemory"):
        await wakeups.ready()
    await full_broker.delete("generate")  # a queue that has a wake-up is sent no other
    wakeups.wake("generate")
    await wakeups.aclose()

    assert "maxmemory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cause", "said"),
    [
        (asyncpg.DiskFullError("could not extend file: No space left on device"), "DiskFullError"),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "has no connection left"),
        (asyncpg.AdminShutdownError("terminating connection"), "AdminShutdownError"),
    ],
)
def test_ledger_shortage_is_reported(cause, said):
    original = Exception("driver")
    original.__cause__ = cause

    error = _unavailable(exc.DBAPIError("SELECT 'a secret'", {}, original))

    assert isinstance(error, Unavailable)
    assert said in error.message
    assert "secret" not in error.message
