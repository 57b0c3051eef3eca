"""Readers of documents in the page: change them, review them, and see documents as a person."""

import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import ingest_with_questions
from tests.page.screens import require_accessible
from tests.support.planted import guards

LEGAL = "legalpapers"


async def require_fitting(page, where):
    """Check the screen in a large and in a small window."""
    for width in (1360, 390):
        await page.set_viewport_size({"width": width, "height": 850})
        await require_accessible(page, f"{where}, {width} pixels")
    await page.set_viewport_size({"width": 1360, "height": 850})


@pytest.fixture(scope="module")
def papers(deployment):
    texts = {"contract.md": "The contract ends in May.", "menu.md": "The canteen opens at noon."}
    ingest_with_questions(deployment, LEGAL, texts, "What is in {}?")
    listed = deployment.client.get("/v1/documents", params={"collection": LEGAL}).json()["items"]
    return {each["external_id"]: each["id"] for each in listed}


@guards(
    "api/web/routes/document.js",
    "if (shown.id === changed.id) shown.document = changed;",
    "",
    means="the document still names its former readers",
)
async def test_readers_are_changed_checked_and_reviewed(visit, deployment, papers):
    page = visit.page
    await visit.go(f"/documents/{papers['contract.md']}")
    await expect(page.get_by_text("Readers: not set (every person reads it)")).to_be_visible()
    await page.get_by_role("button", name="Change readers").click()
    dialog = page.get_by_role("dialog", name="Readers")
    await dialog.get_by_label("Which persons read it?").select_option("named")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog.get_by_text("Name at least one group or user.")).to_be_visible()
    await require_fitting(page, "readers")
    await dialog.get_by_label("Groups", exact=True).fill("legal")
    await dialog.get_by_label("Users", exact=True).fill("ada@example.org")
    await dialog.get_by_role("button", name="Save").click()
    await expect(dialog).to_have_count(0)
    await expect(page.get_by_text("Readers: group legal, user ada@example.org", exact=True)).to_be_visible()

    await page.get_by_role("button", name="Change readers").click()
    await dialog.get_by_text("Can a person read it?").click()
    await dialog.get_by_label("User", exact=True).fill("eve@example.org")
    await dialog.get_by_role("button", name="Check").click()
    await expect(dialog.get_by_role("status")).to_contain_text("eve@example.org does not read the document")
    await page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)

    await visit.go("/access")
    await page.get_by_label("Documents of").select_option(LEGAL)
    row = page.get_by_role("row", name=re.compile("group legal"))
    await expect(row).to_contain_text("no person has this group")
    await require_fitting(page, "review")
    await row.get_by_role("link").click()
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator(".narrowing")).to_contain_text("Readers: group legal")
    await page.get_by_role("button", name="Show all documents").click()
    await expect(page.locator(".row")).to_have_count(2)


async def test_view_as_person_hides_other_documents(visit, deployment, papers):
    deployment.client.patch(f"/v1/documents/{papers['contract.md']}", json={"readable_by": ["group:legal"]})
    page = visit.page
    await visit.go("/access")
    form = page.get_by_role("form", name="View as a person")
    await form.get_by_label("User", exact=True).fill("Zoë@example.org")
    await form.get_by_role("button", name="View").click()

    banner = page.get_by_role("complementary", name="View as a person")
    await expect(banner).to_contain_text("You see documents as Zoë@example.org")
    await visit.go(f"/documents?collection={LEGAL}")
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator(".row")).to_contain_text("menu.md")
    await expect(page.locator(".rail a")).to_have_text(["Ask", "Documents", "API"])
    await require_fitting(page, "view as a person")
    await banner.get_by_role("button", name="Stop viewing").click()
    await expect(page.get_by_role("heading", name="Access")).to_be_visible()
    await expect(banner).to_have_count(0)
    await visit.go(f"/documents?collection={LEGAL}")
    await expect(page.locator(".row")).to_have_count(2)
