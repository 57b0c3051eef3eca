"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.maintenance.runs.runner import Runner
from shared.services.all import AllServices
from shared.settings import Settings
from tests.support.api import calling, running
from tests.support.deployment import ScriptedProvider


@pytest.fixture
async def client(
    services: AllServices, settings: Settings, provider: ScriptedProvider
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of an API with an empty ledger and a provider without faults."""
    async with calling(settings, services) as client:
        yield client


@pytest.fixture
async def runner(services: AllServices) -> AsyncIterator[Runner]:
    """Do due runs during the test."""
    async with running(services) as runner:
        yield runner


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that receives the names of woken queues; no message is sent."""
    woken: list[str] = []
    monkeypatch.setattr("shared.broker.wakeups.Wakeups.wake", lambda _, *queues: woken.extend(queues))
    return woken
