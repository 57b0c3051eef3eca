"""Engines without free memory, disk space or connections report this, and nothing is lost."""

import asyncpg
import pytest
from redis.asyncio import Redis

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


async def test_uploads_continue_while_full_broker_degrades_health(
    services, settings, provider, full_broker, monkeypatch
):
    monkeypatch.setattr("api.progress.readiness._CACHE_SECONDS", 0.0)
    async with calling(settings) as client:
        reply = await client.post("/v1/documents", json={"text": "A text about a lighthouse and its keeper."})
        health = ReadyReply.model_validate_json((await client.get("/health/ready")).content)
        await full_broker.config_set("maxmemory", "0")
        recovered = ReadyReply.model_validate_json((await client.get("/health/ready")).content)
        await work(services)
        document = (await client.get(f"/v1/documents/{reply.json()['id']}")).json()

    assert reply.status_code == 202
    assert (health.status, health.down) == ("degraded", ["broker"])
    assert recovered.status == "ready"
    assert document["state"] == DocumentState.READY


async def test_full_broker_reason_is_logged(settings, full_broker, capsys):
    wakeups = Wakeups(settings.redis_url.get_secret_value())
    with pytest.raises(Unavailable, match="maxmemory"):
        await wakeups.ready()
    await full_broker.delete("foreask.generate")  # a queue with a wake-up receives no second one
    wakeups.wake("generate")
    await wakeups.aclose()

    assert "maxmemory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cause", "reason"),
    [
        (asyncpg.DiskFullError("could not extend file: No space left on device"), "DiskFullError"),
        (asyncpg.TooManyConnectionsError("sorry, too many clients already"), "has no connection left"),
        (asyncpg.AdminShutdownError("terminating connection"), "AdminShutdownError"),
    ],
)
def test_postgresql_shortage_becomes_unavailable_with_cause(cause, reason):
    cause.detail = "a secret"

    error = _unavailable(cause)

    assert isinstance(error, Unavailable)
    assert reason in error.message
    assert "secret" not in error.message
