"""The reader of a scan: the page and confidence of its chunks, its picture, and pages that could not be read."""

import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import until
from tests.support.pictures import picture, saved, scribble


@pytest.fixture(scope="module")
def scans(deployment):
    """The documents of a readable picture, and of two pages of which one has ink but no words, by name."""
    if "read" not in deployment.processes:
        deployment.worker("read")
    deployment.client.put("/v1/collections/scans", json={}).raise_for_status()
    page = picture("The harbour opens at six in the morning.")
    for name, content in {
        "harbour.png": saved([page], "PNG"),
        "letter.tiff": saved([page, scribble()], "TIFF"),
    }.items():
        files = {"file": (name, content)}
        deployment.client.post("/v1/documents", files=files, data={"collection": "scans"}).raise_for_status()
    return {each["external_id"]: each for each in deployment.wait_until_settled(2, collection="scans")}


async def test_chunk_of_scan_shows_confidence_and_picture(visit, scans):
    page = visit.page
    await visit.go(f"/documents/{scans['harbour.png']['id']}")
    detail = page.locator(".detail")
    await expect(detail.locator("header")).to_have_text(re.compile(r"page 1 · confidence \d+ %"))
    await detail.get_by_role("button", name="Show picture").click()
    image = detail.get_by_alt_text("The picture that was read")
    await until(lambda: image.evaluate("image => image.naturalWidth"))


async def test_unread_page_has_reason_and_is_retried(visit, deployment, scans):
    page, document = visit.page, scans["letter.tiff"]
    assert (document["state"], document["pages"], document["pages_unread"]) == ("degraded", 2, 1)
    await visit.go(f"/documents/{document['id']}")
    unread = page.get_by_role("region", name="Unread pages")
    await expect(unread).to_contain_text("1 page of 2 could not be read.")
    await expect(unread.get_by_role("listitem")).to_contain_text(re.compile("page 2"))
    await unread.get_by_role("button", name="Read again").click()
    await expect(page.get_by_text("The pages are read again.")).to_be_visible()

    def version():
        return deployment.client.get(f"/v1/documents/{document['id']}").json()["version"]

    assert version() == document["version"] + 1
