"""The screen of a collection: its counts, its options, the price of a rebuild, and the comparison with Qdrant."""

import json
import re

from playwright.async_api import expect

from tests.page.conftest import ingest_with_questions
from tests.page.screens import fits, require_accessible
from tests.support.waiting import eventually

# Record each text that the line of the current action shows.
RECORD_BUSY = """() => {
    window.busyTexts = [];
    const line = document.querySelector(".busy");
    new MutationObserver(() => window.busyTexts.push(line.textContent))
        .observe(line, { childList: true, characterData: true, subtree: true });
}"""


async def test_collection_screen_shows_contents_and_verification(visit, deployment):
    page = visit.page
    visit.allowed = ("422",)  # these few documents are too few for a calibration
    await visit.go("/documents")
    await page.get_by_role("link", name="Collection details").click()
    await expect(page.get_by_role("heading", name="default")).to_be_visible()
    await expect(page.locator(".counts")).to_contain_text(re.compile(r"\d+ points"))
    await page.get_by_role("button", name="Calibrate with generated questions").click()
    await expect(page.locator(".trouble")).to_contain_text("Fewer than 30 chunks")
    await page.get_by_role("button", name="Verify").click()
    await expect(page.get_by_text("No differences")).to_be_visible()
    await require_accessible(page)
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(page)


async def test_calibrated_collection_fits_a_narrow_window(visit, deployment):
    ships = {f"ship {n}": f"Ship {n} left." for n in range(32)}
    ingest_with_questions(deployment, "fleet", ships, "Where is {}?")
    deployment.client.post("/v1/collections/fleet/calibration", json={}).raise_for_status()
    await visit.page.set_viewport_size({"width": 360, "height": 740})
    await visit.go("/collections/fleet")
    await expect(visit.page.locator(".compared tr")).not_to_have_count(0)
    assert await fits(visit.page)


async def test_point_count_shows_its_age(visit):
    page = visit.page
    changes = {}

    async def aged(route):
        reply = await route.fetch()
        await route.fulfill(response=reply, json=await reply.json() | changes)

    await visit.go("/collections/default")
    await expect(page.locator(".counts")).to_contain_text(
        re.compile(r"\d+ points? \(counted (just now|\d+ (s|min) ago)\)")
    )
    await page.route("**/v1/collections/default", aged)
    for seconds, age in ((12.4, "12 s"), (400, "7 min")):
        changes["points_age_seconds"] = seconds
        await page.reload()
        await expect(page.locator(".counts")).to_contain_text(f"(counted {age} ago)")


async def test_changed_option_is_estimated_and_saved(visit, deployment):
    deployment.client.put("/v1/collections/options", json={"questions_per_chunk": 4})
    page = visit.page
    await visit.go("/collections/options")
    await expect(page.get_by_label("Questions per chunk")).to_have_value("4")
    await page.get_by_label("Maximum chunk length").fill("900")
    await page.get_by_label("Also write context and search terms for each chunk").check()
    await page.get_by_role("button", name="Estimate a rebuild").click()
    await expect(page.locator(".collection .card")).to_contain_text("With new chunk_max_chars, context: 0 documents")
    await page.get_by_role("button", name="Save", exact=True).click()
    await expect(page.locator(".notice")).to_contain_text("New documents use these options")
    options = deployment.client.get("/v1/collections/options").json()["options"]
    assert (options["questions_per_chunk"], options["chunk_max_chars"], options["context"]) == (4, 900, True)
    await page.get_by_text("Delete the collection").click()
    await page.get_by_label("Type the collection name to confirm").fill("other")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.locator(".trouble")).to_contain_text("The name does not match.")
    await page.get_by_label("Type the collection name to confirm").fill("options")
    await page.get_by_role("button", name="Delete", exact=True).click()
    await page.wait_for_url("**/documents*")
    assert deployment.client.get("/v1/collections/options").status_code == 404


async def test_gate_shows_counts_while_it_runs(visit, deployment):
    deployment.client.post("/v1/collections/default/builds", json={"questions_per_chunk": 2}).raise_for_status()
    page = visit.page
    await visit.go("/collections/default")
    await page.get_by_role("button", name="Refresh").wait_for()

    async def is_filled():
        await page.get_by_role("button", name="Refresh").click()
        return await page.get_by_role("button", name="Run the gate").count()

    await eventually(is_filled)
    counts = "event: progress\ndata: " + json.dumps({"state": "running", "points": 1200, "documents": 30}) + "\n\n"
    await page.route("**/gate", lambda route: route.fulfill(content_type="text/event-stream", body=counts))
    await page.evaluate(RECORD_BUSY)
    await page.get_by_role("button", name="Run the gate").click()
    shown = "Comparing: 1,200 points, 30 documents\u2026"
    await page.wait_for_function("text => window.busyTexts.includes(text)", arg=shown)
    await expect(page.locator(".busy")).to_be_empty()

    await page.unroute("**/gate")
    await page.get_by_role("button", name="Run the gate").click()
    await expect(page.locator(".notice")).to_contain_text(re.compile(r"The build passed the gate|[.]"))
    deployment.client.delete("/v1/collections/default/builds/2").raise_for_status()
