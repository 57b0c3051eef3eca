"""Stopping a request also ends its provider calls, and a trial stores nothing."""

import httpx
import pytest
from playwright.async_api import expect

from tests.page.conftest import ask, until
from tests.support.qdrant import headers_of
from tests.support.waiting import TIMEOUT_SECONDS

BERLIN = (
    "# Berlin\n\nBerlin is the capital of Germany. The state of Brandenburg surrounds the city.\n\n"
    "# Potsdam\n\nPotsdam is the capital of Brandenburg, and the film studios of Babelsberg are there.\n"
)


@pytest.fixture
def provider(deployment, provider_process):
    """The provider of the deployment, with counters at zero and without faults."""
    provider_process.restore()
    yield provider_process
    provider_process.restore()


async def under_way(provider, wanted: int) -> None:
    """Wait until the provider has this number of running calls."""

    async def awaited():
        return provider.stats()["awaited"] == wanted

    await until(awaited)


async def test_escape_cancels_the_answers_provider_call(visit, provider):
    await visit.go("/ask")
    provider.script(latency_seconds=60)
    await visit.page.fill("#question", "How many days of leave does everybody have?")
    await visit.page.keyboard.press("Enter")
    await under_way(provider, 1)
    await expect(visit.page.locator(".sources li").first).to_be_visible()  # sources come before words
    await visit.page.keyboard.press("Escape")
    await under_way(provider, 0)
    await expect(visit.page.get_by_text("Stopped.")).to_be_visible()
    provider.restore()
    await ask(visit, "How many days of leave does everybody have?")


async def test_stop_cancels_the_trials_provider_calls(visit, provider):
    await visit.go("/lab/try")
    provider.script(latency_seconds=60)
    await visit.page.get_by_label("Text", exact=True).fill(BERLIN)
    await visit.page.get_by_role("button", name="Generate questions").click()
    await expect(visit.page.locator("article.card").first).to_be_visible()
    await under_way(provider, len(await visit.page.locator("article.card").all()))
    await visit.page.get_by_role("button", name="Stop").click()
    await under_way(provider, 0)
    await expect(visit.page.get_by_text("Stopped.")).to_be_visible()


async def test_trial_shows_server_numbers_and_stores_nothing(visit, deployment):
    questions = ["What surrounds Berlin?", "Where are the film studios?"]
    before = _stored(deployment)
    replies = []
    visit.page.on("response", lambda each: each.url.endswith("/v1/similarity") and replies.append(each))
    await visit.go("/lab/try")
    await visit.page.get_by_label("Text", exact=True).fill(BERLIN)
    await visit.page.get_by_role("button", name="Generate questions").click()
    await expect(visit.page.locator("[role=status]").filter(has_text="kept")).to_be_visible()
    for number, question in enumerate(questions, 1):
        await visit.page.get_by_label("Question", exact=True).fill(question)
        await visit.page.keyboard.press("Enter")
        await expect(visit.page.locator(".heat").first.locator("thead th")).to_have_count(1 + number)
    body = replies[-1].request.post_data_json
    assert body["questions"] == questions
    items = deployment.client.post("/v1/similarity", json=body).raise_for_status().json()["items"]
    tables = await visit.page.locator(".heat").all()
    assert len(tables) == len(items) > 0
    for table, item in zip(tables, items, strict=True):
        rows = [await row.locator("td").all_inner_texts() for row in await table.locator("tbody tr").all()]
        questions = [list(values) for values in zip(*item["questions"], strict=True)]
        assert rows == [[f"{value:.2f}" for value in row] for row in [*questions, item["text"], item["words"]]]
    await expect(visit.page.locator(".heat .best").first).to_be_visible()
    *work, points = _stored(deployment)
    assert (work, points <= before[-1]) == ([*before[:-1]], True)  # points of deleted documents may still disappear
    await visit.page.get_by_role("button", name="Save as document").click()
    await expect(visit.page.locator(".notice")).to_contain_text("Saved as a document in")


def _stored(deployment) -> tuple[dict[str, int], dict[str, object], int]:
    """Return the numbers of documents, chunks and points of the deployment."""
    status = deployment.client.get("/v1/status").json()
    settings = deployment.stack.settings
    qdrant, key = str(settings.qdrant_url), headers_of(settings)
    with httpx.Client(base_url=qdrant, headers=key, trust_env=False, timeout=TIMEOUT_SECONDS) as http:
        names = [each["name"] for each in http.get("/collections").json()["result"]["collections"]]
        counted = [http.post(f"/collections/{name}/points/count", json={}).json()["result"]["count"] for name in names]
    assert sum(counted)
    return status["documents"], status["stages"], sum(counted)


async def test_two_prompts_are_compared_side_by_side(visit, deployment):
    """The comparison includes both prompts' questions and a typed question."""
    page = visit.page
    replies = []
    page.on("response", lambda each: each.url.endswith("/v1/similarity") and replies.append(each))
    await visit.go("/lab/try")
    await page.get_by_label("Text", exact=True).fill(BERLIN)
    await page.get_by_role("button", name="Compare two prompts").click()
    await page.get_by_role("group", name="B").get_by_label("Questions per chunk").fill("2")
    await page.get_by_role("group", name="B").get_by_label("Prompt").fill("Write {count} short questions about: {text}")
    async with page.expect_request(
        lambda each: each.url.endswith("/v1/trials") and "short" in each.post_data
    ) as request:
        await page.get_by_role("button", name="Generate questions").click()
    body = (await request.value).post_data_json
    assert (body["questions_per_chunk"], body["prompt"]) == (2, "Write {count} short questions about: {text}")
    await expect(page.locator("[role=status]").filter(has_text="kept")).to_have_count(2)
    first = page.locator("article.card").first
    own = {name: first.get_by_role("region", name=name).locator("li") for name in ("A", "B")}
    assert await own["A"].count() > 0 < await own["B"].count()
    rows = await own["A"].count() + await own["B"].count()
    await first.get_by_label("Your own question about").fill("Which capital is Berlin?")
    await page.keyboard.press("Enter")
    await page.get_by_label("Question", exact=True).fill("What is Berlin the capital of?")
    await page.keyboard.press("Enter")
    await expect(first.locator(".heat tbody tr")).to_have_count(rows + 1 + 2)  # plus the chunk's text and its words
    await expect(first.get_by_role("row", name="B kept")).not_to_have_count(0)
    await expect(first.get_by_role("row", name="yours Which capital is Berlin?")).to_have_count(1)
    [sent] = [each["questions"] for each in replies[-1].request.post_data_json["texts"][:1]]
    item = (await replies[-1].json())["items"][0]
    await page.get_by_role("button", name="Bars").click()
    bars = first.locator(".nearest tbody tr")
    expected = [*item["questions"][0], item["text"][0], item["words"][0]]
    await expect(bars).to_have_count(len(expected))
    drawn = [float(await each.locator("td").last.inner_text()) for each in await bars.all()]
    assert drawn == [round(value, 2) for value in sorted(expected, reverse=True)]
    assert len(sent) == rows + 1
