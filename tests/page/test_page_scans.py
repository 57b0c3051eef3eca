"""The reader of a scan: the page and confidence of its chunks, its picture, and pages that could not be read."""

import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import until
from tests.support.pictures import picture, saved, scribble

# A page of more than half a chunk, so that two pages are two chunks.
REST = "\n".join(f"Paragraph {number} belongs to the same page." for number in range(1, 5))


@pytest.fixture(scope="module")
def scans(deployment):
    """The documents of a picture, of two pages, and of two pages of which one has ink but no words, by name."""
    if "read" not in deployment.processes:
        deployment.worker("read")
    deployment.client.put("/v1/collections/scans", json={"chunk_max_chars": 250}).raise_for_status()
    page = picture(f"The harbour opens at six in the morning.\n{REST}")
    for name, content in {
        "harbour.png": saved([page], "PNG"),
        "letter.tiff": saved([page, scribble()], "TIFF"),
        "ferry.pdf": saved([page, picture(f"Ferries leave every hour.\n{REST}")], "PDF"),
    }.items():
        files = {"file": (name, content)}
        deployment.client.post("/v1/documents", files=files, data={"collection": "scans"}).raise_for_status()
    return {each["external_id"]: each for each in deployment.wait_until_settled(3, collection="scans")}


async def test_chunk_of_scan_shows_confidence_and_page(visit, scans):
    for name in ("harbour.png", "letter.tiff", "ferry.pdf"):
        await visit.go(f"/documents/{scans[name]['id']}")
        await _shows_confidence_and_page(visit.page)


async def _shows_confidence_and_page(page):
    detail = page.locator(".detail")
    await expect(detail.locator("header")).to_have_text(re.compile(r"page 1 · confidence \d+ %"))
    await expect(detail.locator(".scan .marked")).to_contain_text("opens at six")
    image = detail.locator(".scan").get_by_alt_text("Page 1")
    await until(lambda: image.evaluate("image => image.naturalWidth"))
    page_box, text = await image.bounding_box(), await detail.locator(".scan .marked").bounding_box()
    assert page_box["x"] + page_box["width"] <= text["x"]


async def test_other_chunk_shows_its_own_page(visit, scans):
    page = visit.page
    await visit.go(f"/documents/{scans['ferry.pdf']['id']}")
    await page.get_by_text("Ferries leave every hour").first.click()
    image = page.locator(".detail .scan").get_by_alt_text("Page 2")
    await until(lambda: image.evaluate("image => image.naturalWidth"))


async def test_unread_page_has_reason_and_is_retried(visit, deployment, scans):
    page, document = visit.page, scans["letter.tiff"]
    assert (document["state"], document["pages"], document["pages_unread"]) == ("degraded", 2, 1)
    await visit.go(f"/documents/{document['id']}")
    unread = page.get_by_role("region", name="Unread pages")
    await expect(unread).to_contain_text("1 page of 2 could not be read.")
    await expect(unread.get_by_role("listitem")).to_contain_text(re.compile("page 2"))
    visit.allowed = ("404",)  # the page may ask for the old version when the new one has replaced it
    await unread.get_by_role("button", name="Read again").click()
    await expect(page.get_by_text("The pages are read again.")).to_be_visible()

    def version():
        return deployment.client.get(f"/v1/documents/{document['id']}").json()["version"]

    assert version() == document["version"] + 1
