"""The screen of a collection: its counts, its options, the price of a rebuild, and the comparison with Qdrant."""

import json
import re

from playwright.async_api import expect

from tests.page.conftest import FRESH, ingest_with_questions, visiting
from tests.page.screens import fits, require_accessible

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
    await visit.go("/collections")
    await page.get_by_role("link", name="default", exact=True).click()
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


async def test_changed_option_is_estimated_and_saved(visit, deployment):
    deployment.client.put("/v1/collections/options", json={"questions_per_chunk": 4})
    page = visit.page
    await visit.go("/collections/options")
    await expect(page.get_by_label("Questions per chunk")).to_have_value("4")
    await expect(page.get_by_label("Prompt version 2 default")).to_have_value(re.compile("^Write the questions"))
    await page.get_by_label("Maximum chunk length").fill("900")
    await page.get_by_label("Write context and search terms").check()
    await page.get_by_role("button", name="Estimate a rebuild").click()
    await expect(page.locator(".collection .card")).to_contain_text(
        "Rebuild with another value of: Maximum chunk length, Write context and search terms"
    )
    await page.get_by_role("button", name="Save for new documents").click()
    await expect(page.locator(".notice")).to_contain_text("New documents use these options")
    options = deployment.client.get("/v1/collections/options").json()["options"]
    assert (options["questions_per_chunk"], options["chunk_max_chars"], options["context"]) == (4, 900, True)
    assert options["prompt"] is None
    await page.get_by_role("button", name="Delete the collection").click()
    dialog = page.get_by_role("dialog")
    await expect(dialog).to_contain_text("0 documents with 0 chunks and 0 questions")
    await require_accessible(page)
    await dialog.get_by_label("to confirm").fill("other")
    await dialog.get_by_role("button", name="Delete collection").click()
    await expect(dialog).to_contain_text("The name does not match.")
    await dialog.get_by_label("to confirm").fill("options")
    await dialog.get_by_role("button", name="Delete collection").click()
    await page.wait_for_url("**/collections")
    assert deployment.client.get("/v1/collections/options").status_code == 404


async def test_collection_is_created_described_and_listed(visit, deployment):
    page = visit.page
    await visit.go("/collections")
    await page.get_by_role("button", name="Create a collection").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Name").fill("default")
    await dialog.get_by_role("button", name="Create", exact=True).click()
    await expect(dialog).to_contain_text("A collection of this name exists.")
    await dialog.get_by_label("Name").fill("New one")
    await dialog.get_by_role("button", name="Create", exact=True).click()
    await expect(dialog.locator(".kit-error")).to_have_text("Use lower-case letters, digits, - and _.")
    await dialog.get_by_label("Name").fill("created")
    await dialog.get_by_role("button", name="Add a field").click()
    await dialog.get_by_label("Field").fill("year")
    await dialog.get_by_label("Values").select_option("integer")
    await require_accessible(page)
    await dialog.get_by_role("button", name="Create", exact=True).click()
    await expect(page.get_by_role("heading", name="created")).to_be_visible()
    await page.get_by_role("button", name="Edit description").click()
    await page.get_by_role("dialog").get_by_label("Description").fill("Rules for staff")
    await page.get_by_role("dialog").get_by_role("button", name="Save").click()
    await expect(page.locator(".collection-head")).to_contain_text("Rules for staff")
    made = deployment.client.get("/v1/collections/created").json()
    assert (made["description"], made["options"]["filterable"]) == ("Rules for staff", {"year": "integer"})
    await page.get_by_role("navigation").get_by_role("link", name="Collections").click()
    await expect(page.get_by_role("row", name=re.compile("created"))).to_contain_text("Rules for staff")
    deployment.client.delete("/v1/collections/created").raise_for_status()


async def test_screens_of_empty_tenant_request_nothing_missing(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401",)
        page, missing = visit.page, []
        page.on("response", lambda reply: missing.append(reply.url) if reply.status == 404 else None)
        await visit.go("/collections")
        await page.get_by_role("dialog").get_by_label("Key").fill(FRESH)
        await page.keyboard.press("Enter")
        for path in ("/collections", "/collections/default", "/lab/compare"):
            await visit.go(path)
            await expect(page.locator(".kit-empty")).to_be_visible()
            await expect(page.locator(".trouble")).to_have_count(0)
            await require_accessible(page, path)
        assert missing == []


async def test_gate_shows_counts_while_it_runs(visit, deployment):
    deployment.client.post("/v1/collections/default/builds", json={"questions_per_chunk": 2}).raise_for_status()
    page = visit.page
    await visit.go("/collections/default")
    await expect(page.get_by_role("button", name="Run the gate")).to_be_enabled()  # once it is filled, without a reload
    counts = "event: progress\ndata: " + json.dumps({"state": "running", "points": 1200, "documents": 30}) + "\n\n"
    await page.route("**/gate", lambda route: route.fulfill(content_type="text/event-stream", body=counts))
    await page.evaluate(RECORD_BUSY)
    await page.get_by_role("button", name="Run the gate").click()
    shown = "Comparing: 1,200 points, 30 documents\u2026"
    await page.wait_for_function("text => window.busyTexts.includes(text)", arg=shown)
    await expect(page.locator(".busy")).to_be_empty()

    await page.unroute("**/gate")
    await page.get_by_role("button", name="Run the gate").click()
    await expect(page.get_by_role("listitem", name="Build 2")).to_contain_text(re.compile("The gate is (open|closed)"))
    await expect(page.get_by_role("listitem", name="Build 2")).to_contain_text("Build 1 stays complete")
    await require_accessible(page)
    deployment.client.delete("/v1/collections/default/builds/2").raise_for_status()
