"""Fixtures of the API's tests."""

from collections.abc import AsyncIterator
from contextlib import aclosing

import httpx
import pytest

from features.sources.web.extraction import SandboxExtractor
from shared.confined.reading import Reader, Readers
from shared.ingest.parse.isolation.sandbox import ParsingSandbox
from shared.maintenance.jobs.runner import Runner
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


@pytest.fixture(scope="module")
async def extractor() -> AsyncIterator[SandboxExtractor]:
    """Yield an extractor of the texts of a tenant's pages."""
    async with ParsingSandbox() as sandbox:
        yield SandboxExtractor(sandbox, "alice")


@pytest.fixture(scope="module")
async def reader() -> AsyncIterator[Reader]:
    """Yield a reader of the contents of a tenant's sources."""
    async with aclosing(Readers()) as readers:
        yield readers.for_tenant("alice")


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
