"""Untrusted input is shown as text on every screen: names, titles, headings, metadata, questions and errors."""

import pytest
from playwright.async_api import expect

from tests.page.conftest import HOSTILE, ask
from tests.page.screens import SCREENS, fits

WORD = "w" * 100_000
TURNED = "\u202eturned\u2066 \u0627\u0644\u0625\u062c\u0627\u0632\u0629"
NAME = f"{HOSTILE} {TURNED}.md"
QUESTION = f"{HOSTILE} {TURNED} asks whom?"
TEXT = f"# {HOSTILE} {TURNED}\n\n{HOSTILE} {TURNED} is what a stranger wrote.\n\n## A word\n\n{WORD}\n"
FAILED = f"{HOSTILE}.pdf"


@pytest.fixture(scope="module")
def hostile(deployment):
    """The ids of a document that is hostile in all its fields, and of a document that failed."""
    metadata = {HOSTILE: HOSTILE, "nested": {HOSTILE: [HOSTILE, TURNED]}, "long": "w" * 10_000}
    deployment.ingest({NAME: TEXT}, collection="hostile", title=f"{HOSTILE} {TURNED}", metadata=metadata)
    files = {"file": ("nothing.pdf", b"%PDF-1.4 nothing")}
    named = {"collection": "hostile", "external_id": FAILED}
    deployment.client.post("/v1/documents", files=files, data=named).raise_for_status()
    deployment.wait_until_settled(2, collection="hostile")
    ids = {each["external_id"]: each["id"] for each in deployment.documents("hostile")}
    chunks = deployment.client.get(f"/v1/documents/{ids[NAME]}/chunks").raise_for_status().json()["items"]
    accepted = {"chunk_id": chunks[0]["id"], "question": QUESTION}
    deployment.client.post("/v1/collections/hostile/accepted-questions", json=accepted).raise_for_status()
    questions = [{"question": QUESTION, "external_ids": [NAME]}]
    deployment.client.put("/v1/collections/hostile/labelled-sets/all", json={"questions": questions}).raise_for_status()
    return ids


async def test_hostile_document_is_text_on_every_screen(visit, hostile):
    page = visit.page
    for path in (*SCREENS, "/collections/hostile"):
        await visit.go(f"{path}?collection=hostile")
        await expect(page.locator("main")).not_to_be_empty()
        await _is_text(page)

    await visit.go("/documents?collection=hostile")
    await expect(page.locator(".row", has_text=HOSTILE).first).to_be_visible()
    await _is_text(page)
    await visit.go(f"/documents/{hostile[FAILED]}")
    await expect(page.locator("main")).to_contain_text(FAILED)
    await _is_text(page)
    await visit.go(f"/documents/{hostile[NAME]}")
    for shown in (HOSTILE, "wwwwwwww"):
        await expect(page.locator("main")).to_contain_text(shown)
    await _is_text(page)

    await visit.go("/questions?collection=hostile&show=accepted")
    await expect(page.locator(".questions li")).to_contain_text(QUESTION)
    await _is_text(page)
    await visit.go("/lab/explain?collection=hostile")
    await page.fill("#question", QUESTION)
    await page.keyboard.press("Enter")
    await expect(page.locator(".explained tbody tr").first).to_contain_text(HOSTILE)
    await _is_text(page)
    await visit.go("/lab/compare?collection=hostile")
    await page.get_by_role("button", name="Run", exact=True).click()
    await expect(page.locator(".compared tbody tr")).to_have_count(4)
    await _is_text(page)
    await ask(visit, QUESTION)
    await page.locator(".sources button").first.click()
    await expect(page.locator(".detail .marked")).to_be_visible()
    await _is_text(page)


async def _is_text(page):
    """Assert that no hostile text became an element, and that none is wider than a window."""
    assert await page.locator("img[src=x], main script").count() == 0
    assert await page.locator("main a[href^='javascript:']").count() == 0
    for width in (360, 1360):
        await page.set_viewport_size({"width": width, "height": 800})
        assert await fits(page), f"{page.url}, {width} pixels"
