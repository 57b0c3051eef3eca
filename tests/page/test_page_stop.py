"""What is stopped ends at the provider, too, and a trial leaves nothing behind."""

import asyncio

import httpx
import pytest
from playwright.async_api import expect

from tests.page.test_page import ask

BERLIN = (
    "# Berlin\n\nBerlin is the capital of Germany. The state of Brandenburg surrounds the city.\n\n"
    "# Potsdam\n\nPotsdam is the capital of Brandenburg, and the film studios of Babelsberg are there.\n"
)


@pytest.fixture
def provider(deployment, provider_process):
    """The provider of the deployment, with nothing counted and no fault set."""
    provider_process.restore()
    yield provider_process
    provider_process.restore()


async def under_way(provider, wanted: int) -> None:
    """Wait until the provider has so many calls whose callers wait."""
    for _ in range(100):
        if provider.stats()["awaited"] == wanted:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{provider.stats()['awaited']} calls are awaited, not {wanted}")


async def test_escape_ends_the_call_of_an_answer(visit, provider):
    await visit.go("/ask")
    provider.script(latency_seconds=60)
    await visit.page.fill("#question", "How many days of leave does everybody have?")
    await visit.page.keyboard.press("Enter")
    await under_way(provider, 1)
    await expect(visit.page.locator(".sources li").first).to_be_visible()  # sources come before words
    await visit.page.keyboard.press("Escape")
    await under_way(provider, 0)
    await expect(visit.page.get_by_text("You stopped it here.")).to_be_visible()
    provider.restore()
    await ask(visit, "How many days of leave does everybody have?")


async def test_stop_ends_the_calls_of_a_trial(visit, provider):
    await visit.go("/lab/try")
    provider.script(latency_seconds=60)
    await visit.page.get_by_label("Text").fill(BERLIN)
    await visit.page.get_by_role("button", name="Write questions").click()
    await expect(visit.page.locator("article.card").first).to_be_visible()
    await under_way(provider, len(await visit.page.locator("article.card").all()))
    await visit.page.get_by_role("button", name="Stop").click()
    await under_way(provider, 0)
    await expect(visit.page.get_by_text("You stopped it here.")).to_be_visible()


async def test_the_numbers_of_a_trial_are_the_servers_and_nothing_is_stored(visit, deployment):
    asked = ["What surrounds Berlin?", "Where are the film studios?"]
    before = _stored(deployment)
    replies = []
    visit.page.on("response", lambda each: each.url.endswith("/v1/similarity") and replies.append(each))
    await visit.go("/lab/try")
    await visit.page.get_by_label("Text").fill(BERLIN)
    await visit.page.get_by_role("button", name="Write questions").click()
    await expect(visit.page.locator("[role=status]").filter(has_text="kept")).to_be_visible()
    for number, question in enumerate(asked, 1):
        await visit.page.get_by_label("Ask it").fill(question)
        await visit.page.keyboard.press("Enter")
        await expect(visit.page.locator(".heat").first.locator("thead th")).to_have_count(1 + number)
    body = replies[-1].request.post_data_json
    assert body["questions"] == asked
    items = deployment.client.post("/v1/similarity", json=body).raise_for_status().json()["items"]
    tables = await visit.page.locator(".heat").all()
    assert len(tables) == len(items) > 0
    for table, item in zip(tables, items, strict=True):
        rows = [await row.locator("td").all_inner_texts() for row in await table.locator("tbody tr").all()]
        questions = [list(values) for values in zip(*item["questions"], strict=True)]
        assert rows == [[f"{value:.2f}" for value in row] for row in [*questions, item["text"], item["words"]]]
    assert _stored(deployment) == before


def _stored(deployment) -> tuple[object, ...]:
    """Documents, chunks and points of the deployment."""
    status = deployment.client.get("/v1/status").json()
    qdrant = str(deployment.stack.settings.qdrant_url).rstrip("/")
    names = [each["name"] for each in httpx.get(f"{qdrant}/collections").json()["result"]["collections"]]
    points = {name: httpx.post(f"{qdrant}/collections/{name}/points/count", json={}).json()["result"] for name in names}
    assert any(count["count"] for count in points.values())
    return status["documents"], status["stages"], points
