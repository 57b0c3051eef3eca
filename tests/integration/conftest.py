"""What tests of the API share."""

from collections.abc import AsyncIterator

import httpx
import pytest

from shared.services.all import AllServices
from shared.settings import Settings
from tests.support.api import calling
from tests.support.deployment import ScriptedProvider


@pytest.fixture
async def client(
    services: AllServices, settings: Settings, provider: ScriptedProvider
) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an API over an empty ledger and a provider without a fault."""
    async with calling(settings, services) as client:
        yield client


@pytest.fixture
def wakes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The queues that were woken; no message is sent."""
    woken: list[str] = []
    monkeypatch.setattr("shared.broker.wakeups.Wakeups.wake", lambda _, *queues: woken.extend(queues))
    return woken
