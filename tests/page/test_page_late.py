"""Late replies, failed replies and double key presses: the page shows no outdated data, and loses no input."""

import asyncio
import json
import re
from contextlib import asynccontextmanager, suppress

import pytest
from playwright.async_api import Error, expect

from tests.page.conftest import TIMEOUT, ask, choose_cost_preview, drawn


@pytest.fixture
def second(deployment):
    """Another collection, with a document of its own."""
    deployment.client.put("/v1/collections/second", json={})
    deployment.ingest({"dogs.md": "# Dogs\n\nDogs may come to the office on Fridays.\n"}, collection="second")
    deployment.wait_until_settled(1, collection="second")
    yield "second"
    deployment.client.delete("/v1/collections/second")


class Held:
    """Delayed requests: `taken` waits until one is delayed, `release_and_wait` until the page shows its reply."""

    def __init__(self, page, wanted):
        self.page, self.wanted = page, wanted
        self._taken, self._free, self._answered = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def handle(self, route):
        if self._free.is_set() or not self.wanted(route.request):
            return await route.fallback()
        self._taken.set()
        await self._free.wait()
        with suppress(Error):  # the page has cancelled it
            await route.continue_()
            if response := await route.request.response():
                await response.finished()
        return self._answered.set()

    async def taken(self):
        await asyncio.wait_for(self._taken.wait(), TIMEOUT / 1000)

    async def release_and_wait(self):
        await self.taken()
        self._free.set()
        await asyncio.wait_for(self._answered.wait(), TIMEOUT / 1000)
        await drawn(self.page)

    def release(self):
        self._free.set()


@asynccontextmanager
async def held(page, address, wanted=lambda request: True):
    """Delay requests; at the end, release the requests that are still delayed."""
    requests = Held(page, wanted)
    await page.route(address, requests.handle)
    yield requests
    requests.release()
    await page.unroute(address)


async def test_undo_retracts_the_accepted_passage(visit, deployment):
    page, question = visit.page, "Is leave pro rata in the first year of everybody?"
    sent = []
    page.on("request", lambda each: each.url.endswith("/v1/feedback") and sent.append(each.post_data_json))
    await page.route("**/v1/query", _citing_two)
    await ask(visit, question)
    sources = page.locator(".sources button")
    await expect(sources).to_have_count(2)
    await sources.nth(0).click()
    await page.get_by_role("button", name="Helpful", exact=True).click()
    await expect(page.get_by_role("button", name="Undo")).to_be_visible()
    await sources.nth(1).click()
    await page.get_by_role("button", name="Undo").click()
    await expect(page.locator(".notice")).to_contain_text("Your question was removed")
    assert [each["helpful"] for each in sent] == [True, False]
    assert sent[0]["chunk_id"] == sent[1]["chunk_id"]


async def test_late_passage_does_not_replace_newer(visit):
    page = visit.page
    await page.route("**/v1/query", _citing_two)
    await ask(visit, "Is leave pro rata in the first year?")
    sources = page.locator(".sources button")
    await expect(sources).to_have_count(2)
    await page.reload()
    await expect(sources).to_have_count(2)
    read = []

    def is_first(request):
        read.append(request.url)
        return request.url == read[0]

    async with held(page, re.compile(r"/v1/chunks/.*before=0"), is_first) as late:
        await sources.nth(0).click()
        await late.taken()
        await sources.nth(1).click()
        await expect(page.locator("#source-title")).to_have_text("Source 2 of 2")
        await expect(page.locator("#source-title")).to_be_focused()
        await late.release_and_wait()
        await expect(page.locator("#source-title")).to_have_text("Source 2 of 2")
        await expect(sources.nth(1)).to_have_attribute("aria-current", "true")


async def test_deleted_late_passage_leaves_newer_open(visit):
    page = visit.page
    visit.allowed = ("404",)
    await page.route("**/v1/query", _citing_two)
    await ask(visit, "Is leave pro rata in the first year?")
    sources = page.locator(".sources button")
    await page.reload()
    await expect(sources).to_have_count(2)
    taken, free = asyncio.Event(), asyncio.Event()

    async def delete_late(route):
        taken.set()
        await free.wait()
        await route.fulfill(status=404, json={"status": 404, "detail": "There is no such chunk."})

    await page.route(re.compile(r"/v1/chunks/.*before=0"), delete_late, times=1)
    await sources.nth(0).click()
    await asyncio.wait_for(taken.wait(), TIMEOUT / 1000)
    await sources.nth(1).click()
    await expect(page.locator("#source-title")).to_have_text("Source 2 of 2")
    async with page.expect_response(lambda reply: reply.status == 404) as late:
        free.set()
    await (await late.value).finished()
    await drawn(page)
    await expect(page.locator("#source-title")).to_have_text("Source 2 of 2")
    await expect(page.locator(".notice")).to_have_count(0)


async def test_late_neighbours_leave_passage_in_view(visit, deployment):
    page = visit.page
    deployment.client.put("/v1/collections/ferries", json={"chunk_max_chars": 2000}).raise_for_status()
    long = "\n\n".join(f"Paragraph {number} of the preface is about the weather at sea." for number in range(60))
    text = f"# Preface\n\n{long}\n\n# Ferry\n\nThe ferry Zander leaves at eleven.\n\n# Rest\n\n{long}\n"
    deployment.ingest({"ferries.md": text}, collection="ferries")
    deployment.wait_until_settled(1, collection="ferries")
    async with held(page, re.compile(r"/v1/chunks/.*before=1")) as late:
        await visit.go("/ask?collection=ferries")
        await page.fill("#question", "When does the ferry Zander leave?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".facts")).to_be_visible()
        await page.locator(".sources button").first.click()
        await expect(page.locator(".detail .marked")).to_contain_text("Zander")
        await expect(page.locator(".detail .around")).to_have_count(0)
        await late.release_and_wait()
    await expect(page.locator(".detail .around").first).to_contain_text("preface")
    await expect(page.locator(".detail .marked")).to_be_in_viewport()
    reading = await page.locator(".detail .reading").bounding_box()
    marked = await page.locator(".detail .marked").bounding_box()
    assert reading["y"] <= marked["y"] < reading["y"] + reading["height"]


async def _citing_two(route):
    """Change the answer so that it cites two of the found passages, whichever the model cited."""
    reply = await route.fetch()
    events = []
    for block in (await reply.text()).split("\n\n"):
        name, _, data = block.partition("\ndata: ")
        event = block
        if name == "event: done":
            done = json.loads(data)
            [first, *_] = done["citations"]
            two = enumerate(done["chunks"][:2], 1)
            done["citations"] = [first | {"number": number, "chunk_id": chunk["chunk_id"]} for number, chunk in two]
            event = f"{name}\ndata: {json.dumps(done)}"
        events.append(event)
    await route.fulfill(response=reply, body="\n\n".join(events))


async def test_newer_answer_is_not_shown_as_stopped(visit):
    page = visit.page
    await visit.go("/ask")
    async with held(page, "**/v1/query", lambda request: "first" in request.post_data) as late:
        await page.fill("#question", "What is the first question?")
        await page.keyboard.press("Enter")
        await expect(page.get_by_text("Searching\u2026")).to_be_visible()
        await late.taken()
        await page.fill("#question", "How many days of leave does everybody have?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".facts")).to_be_visible()
        await expect(page.get_by_text("Stopped.")).to_have_count(0)


async def test_late_explanation_does_not_replace_newer(visit):
    page = visit.page
    await visit.go("/lab/explain")
    async with held(page, "**/v1/retrieve", lambda request: "per diem" in request.post_data) as late:
        await page.fill("#question", "What does the per diem follow?")
        await page.keyboard.press("Enter")
        await late.taken()
        await page.fill("#question", "How many days of leave are there?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".explained tbody tr").first).to_contain_text("Leave")
        before = await page.locator(".explained tbody").inner_text()
        await late.release_and_wait()
        assert await page.locator(".explained tbody").inner_text() == before


async def test_late_price_is_not_shown_for_another_collection(visit, second):
    page = visit.page
    await visit.go("/collections/default")
    async with held(page, "**/v1/estimates") as late:
        await page.get_by_role("button", name="Estimate a rebuild").click()
        await late.taken()
        await page.evaluate(
            "history.pushState(null, '', '/collections/second'); dispatchEvent(new PopStateEvent('popstate'))"
        )
        await expect(page.get_by_role("heading", name="second")).to_be_visible()
        await late.release_and_wait()
        await expect(page.get_by_role("button", name="Start the rebuild")).to_have_count(0)


async def test_double_key_press_skips_only_visible_question(visit, deployment):
    page = visit.page
    for question in ("How many days of leave does everybody have?", "Wie viele Tage Urlaub haben alle?"):
        deployment.client.post("/v1/retrieve", json={"question": question, "collection": "default"}).raise_for_status()
    await visit.go("/lab/compare")
    await page.get_by_role("button", name="Label user questions").click()
    await expect(page.locator(".candidates li").first).to_be_visible()
    before = await _left(page)
    async with held(page, re.compile(r"/labelled-sets/[^/]+/questions$")) as late:
        await page.keyboard.press("1")
        await page.keyboard.press("Space")
        await page.keyboard.press("Space")
        await late.release_and_wait()
    await expect(page.locator(".candidates li").first).to_be_visible()
    assert await _left(page) == before - 1
    await expect(page.get_by_text("1 labelled")).to_be_visible()


async def _left(page):
    """Return the number of questions that are not labelled yet."""
    return int(re.search(r"(\d+) questions? left", await page.locator(".labelling").inner_text())[1])


async def test_files_awaiting_price_accept_more_files(visit, tmp_path):
    page = visit.page
    files = [tmp_path / f"price-{number}.txt" for number in range(5)]
    for file in files:
        file.write_text(f"The file {file.name} is about prices.")
    await visit.go("/documents")
    await choose_cost_preview(page)
    await page.locator("input[type=file]").set_input_files(files[:3])
    card = page.get_by_role("status", name="Cost estimate")
    await expect(card).to_contain_text("3 files")
    await page.locator("input[type=file]").set_input_files(files[3:])
    await expect(card).to_contain_text("5 files")
    await card.get_by_role("button", name="Upload").click()
    await expect(page.locator(".uploads")).to_contain_text("5 files uploaded")


async def test_finished_run_is_listed_as_finished(visit, deployment):
    page = visit.page
    questions = [{"question": "How many days of leave does everybody have?", "external_ids": ["leave.md"]}]
    deployment.client.put(
        "/v1/collections/default/labelled-sets/late", json={"questions": questions}
    ).raise_for_status()
    await visit.go("/lab/compare")
    await page.get_by_label("Set").select_option("late")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.locator(".compared tbody tr")).to_have_count(4)
    newest = page.locator("ul.questions li").first
    await expect(newest).to_contain_text("late")
    await expect(newest).to_contain_text("done")
    await expect(newest.get_by_role("button", name="Delete")).to_be_visible()


async def test_chunk_opened_on_phone_takes_and_returns_focus(visit, deployment):
    page = visit.page
    await page.set_viewport_size({"width": 400, "height": 800})
    document = deployment.client.get("/v1/documents?external_id=leave.md").json()["items"][0]["id"]
    await visit.go(f"/documents/{document}")
    row = page.locator(".row button").first
    await row.click()
    await expect(page.locator("#chunk-title")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(row).to_be_focused()
