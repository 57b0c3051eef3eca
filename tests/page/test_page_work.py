"""The screen Work names the bottleneck, and draws the last hour."""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from playwright.async_api import expect

from tests.support.deployment import Deployment


async def test_work_screen_shows_stopped_engines(visit, deployment):
    visit.allowed = ("503",)
    await visit.go("/work")
    why = visit.page.locator(".pace")
    with _frozen(deployment, "qdrant"):
        await expect(why).to_contain_text("Qdrant")
    with _frozen(deployment, "valkey"):
        await expect(why).to_contain_text("the broker")
        await expect(visit.page.get_by_text("Unknown: the broker is unavailable.")).to_be_visible()
    await expect(why).to_have_text("No work is waiting.")


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


@contextmanager
def _frozen(deployment: Deployment, engine: str) -> Iterator[None]:
    """Stop an engine, so that it accepts connections but answers nothing."""
    pid = deployment.stack.pids()[engine]
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
