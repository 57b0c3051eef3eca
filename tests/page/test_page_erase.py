"""A person's data is found on the page, and only the chosen documents are erased."""

import re

from playwright.async_api import expect

from tests.page.conftest import ingest_with_questions
from tests.page.screens import require_accessible
from tests.support.planted import guards

NAMED = "erased-page"


@guards(
    "api/web/routes/erase.js",
    "document_ids: [...seen.chosen]",
    "document_ids: (seen.result?.documents ?? []).map(({ id }) => id)",
    means="a document that was not chosen is erased",
)
@guards(
    "api/web/routes/erase.js",
    "toLowerCase() !== expected()",
    "toLowerCase() === expected()",
    means="the confirmation accepts another text",
)
@guards(
    "api/web/routes/erase.js",
    "history.pushState(null",
    "history.replaceState(null",
    "`${ROOT}/erase/${id}`); // a reload",
    "`${ROOT}/erase`); // a reload",
    means="a reload loses the progress of an erasure",
)
async def test_page_erases_chosen_documents_of_person(visit, deployment):
    texts = {
        "roster.md": "In week 12, Zelda Quill leads the team.",
        "minutes.md": "Zelda Quill opened the meeting.",
        "rules.md": "The gate opens at six.",
    }
    ingest_with_questions(deployment, NAMED, texts, "What is in {}?")
    page = visit.page
    await visit.go(f"/documents?collection={NAMED}")
    await page.get_by_role("button", name="More actions").first.click()
    await page.get_by_role("menuitem", name="Erase a person").click()
    await page.get_by_label("Texts that name the person").fill("Zelda Quill\nzelda@quill.example")
    await page.get_by_role("button", name="Find data").click()

    found = page.get_by_role("table", name="Documents that name the person")
    await expect(found.get_by_role("checkbox")).to_have_count(2)
    await expect(found).to_contain_text("Zelda Quill leads the team")
    await require_accessible(page, "found documents")
    await found.get_by_role("checkbox", name="Erase minutes.md").uncheck()
    await page.get_by_label(re.compile("Type “Zelda Quill”")).fill("zelda")
    await page.get_by_role("button", name="Erase permanently").click()
    await expect(page.get_by_text("This is not the text above.")).to_be_visible()
    await page.get_by_label(re.compile("Type “Zelda Quill”")).fill("zelda quill")
    await page.get_by_role("button", name="Erase permanently").click()

    await expect(page.get_by_role("heading", name="1 document")).to_be_visible()
    await page.reload()
    await expect(page.get_by_role("heading", name="1 document")).to_be_visible()
    await expect(page.get_by_role("status").first).to_contain_text(re.compile("documents are|has finished"))
    await require_accessible(page, "progress")
    rest = deployment.client.get("/v1/documents", params={"collection": NAMED}).json()["items"]
    assert sorted(document["external_id"] for document in rest) == ["minutes.md", "rules.md"]


async def test_palette_opens_search_for_person(visit):
    await visit.go("/documents")
    await visit.page.keyboard.press("Control+k")
    await visit.page.get_by_role("combobox", name="Screen or document").fill("erase")
    await expect(visit.page.locator("#palette").get_by_role("option")).to_have_text(["Erase a person"])
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.get_by_role("heading", name="Erase a person")).to_be_visible()
