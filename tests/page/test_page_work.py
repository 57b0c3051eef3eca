"""The screen Work names the bottleneck, for each possible cause."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.async_api import expect

from tests.page.conftest import visiting
from tests.support.deployment import Deployment, ScriptedProvider, corpus


@pytest.fixture
def provider():
    """A separate provider, because the deployment of the other tests must have no faults."""
    provider = ScriptedProvider(latency_seconds=6)
    yield provider
    provider.close()


@pytest.fixture
def slow(provider, forks, tmp_path):
    """A deployment without a worker that generates questions."""
    roles = ("parse", "index", "scheduler")
    with Deployment(provider.settings(), tmp_path, roles=roles, launch=forks.launch) as deployment:
        yield deployment


async def test_work_screen_shows_bottleneck(browser, slow, provider):
    address = f"http://127.0.0.1:{slow.port}"
    slow.ingest(corpus(documents=60, sections=10, words=40))
    async with visiting(browser, address, viewport={"width": 1360, "height": 850}) as visit:
        visit.allowed = ("503",)
        await visit.go("/work")
        why = visit.page.locator(".pace")

        await expect(why).to_contain_text("No generate worker is alive, and ")
        slow.worker("generate")
        await expect(why).to_contain_text("calls are running.")
        provider.script(latency_seconds=0, status=429, retry_after_seconds=8)
        await expect(why).to_contain_text("provider requested a wait of ")
        provider.script(status=500)
        await expect(why).to_contain_text("provider fails, and calls wait until it answers again.")
        with _frozen(slow, "qdrant"):
            await expect(why).to_have_text("Qdrant does not answer.")
        with _frozen(slow, "valkey"):
            await expect(why).to_contain_text("The broker does not answer.")
            await expect(visit.page.get_by_text("Unknown: the broker is unavailable.")).to_be_visible()


async def test_work_screen_charts_last_hour(visit, deployment):
    page = visit.page
    await visit.go("/work")
    figure = page.get_by_role("figure", name="Chunks per minute")
    await expect(figure).to_be_visible()
    minutes = deployment.client.get("/v1/status/history").json()["items"]
    ended = sum(each["chunks"] for each in minutes)
    assert ended > 0
    await expect(figure).to_contain_text(f"{ended:,} chunks of ")
    await figure.get_by_text("Show as table").click()
    await expect(figure.locator(".by-time tbody tr").first).to_be_visible()
    rows = await figure.locator(".by-time tbody tr").all()
    drawn = [await row.locator("td").first.inner_text() for row in rows]
    assert sum(int(each.replace(",", "")) for each in drawn) == ended
    assert await figure.locator(".plot .of-main rect").count() == sum(1 for each in minutes if each["chunks"])


async def test_work_screen_shows_budgets(visit, deployment):
    body = {"collection": "elsewhere", "period": "month", "unit": "tokens", "limit": 2_000_000}
    budget = deployment.client.put("/v1/budgets", json=body).raise_for_status().json()
    try:
        await visit.go("/work")
        row = visit.page.get_by_role("region", name="Budgets").get_by_role("row").filter(has_text="elsewhere")
        await expect(row).to_contain_text("2,000,000 tokens a month")
        await expect(row).to_contain_text("available")
        await expect(row.locator("svg.bar")).to_have_count(1)
    finally:
        deployment.client.delete(f"/v1/budgets/{budget['id']}").raise_for_status()


@contextmanager
def _frozen(deployment: Deployment, engine: str) -> Iterator[None]:
    """Stop an engine, so that it accepts connections but answers nothing."""
    pid = deployment.stack.pids()[engine]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
