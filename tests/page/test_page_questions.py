"""A question's page, the filters of the list, and the way from a gap to a document that answers it."""

import re
from urllib.parse import quote

import pytest
from playwright.async_api import expect

from tests.page.conftest import FRESH, ask, until, visiting
from tests.page.screens import require_accessible
from tests.page.test_page_late import held
from tests.support.planted import guards

COLLECTION = "asked-page"
LEAVE = "How many days of leave does everybody have?"
GAP = "Where are the spare lamps of the lighthouse stored?"
SIZES = ((1440, 900), (1024, 768), (390, 844))


@pytest.fixture(scope="module")
def logged(deployment):
    """Log an answered question and one without an answer; return the ids of the queries."""
    deployment.ingest({"leave.md": "# Leave\n\nEverybody has thirty days of leave.\n"}, collection=COLLECTION)
    deployment.wait_until_settled(1, collection=COLLECTION)
    ids = []
    for question, options in ((LEAVE, {}), (GAP, {"min_score": 1.0})):
        body = {"question": question, "collection": COLLECTION, **options}
        reply = deployment.client.post("/v1/query", json=body).raise_for_status().json()
        ids.append(reply["metadata"]["query_id"])
    return ids


async def test_asked_question_has_page_with_its_answer(visit):
    page = visit.page
    await ask(visit, LEAVE)
    await visit.go("/questions?q=days+of+leave+does")
    await page.get_by_role("link", name=LEAVE).click()
    await expect(page).to_have_url(re.compile(r"/questions/[0-9a-f-]{36}$"))
    await expect(page.locator(".written")).to_contain_text("The documents say so")
    await page.locator(".written .cited").first.click()
    await expect(page.locator("#passage-1")).to_be_focused()
    await expect(page.locator("#passage-1")).to_contain_text("cited")

    await page.get_by_role("link", name="Conversation").click()
    await expect(page.locator("article.answer .question-title")).to_have_text(LEAVE)
    await page.go_back()
    await page.locator("#passage-1 a").click()
    await expect(page).to_have_url(re.compile(r"/documents/[0-9a-f-]{36}\?chunk="))


@guards(
    "api/web/routes/ask.js",
    '  history.replaceState(null, "", location.pathname + location.search);\n  start();',
    "  start();",
    means="the question stays in the address while it is answered",
)
@guards(
    "api/web/routes/ask.js",
    "if (isFromOutside) draft = given;",
    "if (false) draft = given;",
    means="a link of another site asks a question, and pays for it",
)
async def test_question_is_asked_again_once(visit, logged):
    page = visit.page
    await visit.go(f"/questions/{logged[0]}")
    actions = page.locator(".question-page .tools")
    await actions.get_by_role("link", name="Explain").click()
    await expect(page.locator("#question")).to_have_value(LEAVE)
    await page.go_back()
    async with held(page, "**/v1/query") as late:
        await actions.get_by_role("link", name="Ask again").click()
        await late.taken()
        assert quote(LEAVE) not in page.url  # a reload starts no other conversation
    await expect(page.locator("article.answer .facts")).to_be_visible()
    queries = []
    page.on("request", lambda request: queries.append(request.url) if request.url.endswith("/v1/query") else None)
    await page.reload()
    await expect(page.locator("article.answer .question-title")).to_have_text(LEAVE)
    await visit.go(f"/ask?collection={COLLECTION}#q={quote(GAP)}")  # as a link of another site
    await expect(page.locator("#question")).to_have_value(GAP)
    assert queries == []


async def test_filters_survive_reload_and_back(visit, logged):
    page = visit.page
    await visit.go(f"/questions?collection={COLLECTION}")
    rows = page.locator("ul.questions li")
    await page.get_by_label("Result").select_option("none")
    await expect(rows).to_have_count(1)
    await expect(rows).to_contain_text(GAP)
    await page.get_by_label("Result").select_option("")
    await page.get_by_label("Asked within").select_option("7")
    await page.get_by_label("Search questions").fill("LEAVE does")
    await expect(rows).to_have_count(1)
    await expect(page.locator(".counts")).to_have_text("1 question")
    await expect(page).to_have_url(re.compile(r"days=7&q=LEAVE\+does$"))

    await rows.get_by_role("link").click()
    await expect(page.locator(".question-page")).to_be_visible()
    await page.go_back()
    await expect(rows).to_have_count(1)
    await page.reload()
    await expect(page.get_by_label("Search questions")).to_have_value("LEAVE does")
    await expect(page.get_by_label("Asked within")).to_have_value("7")
    await expect(rows).to_have_count(1)
    await page.get_by_label("Search questions").fill("no such words")
    await page.get_by_role("button", name="Show all questions").click()
    await expect(rows).not_to_have_count(0)


async def test_written_answer_resolves_gap_and_is_found(visit, deployment, logged):
    page, client = visit.page, deployment.client
    await visit.go(f"/questions/{logged[1]}")
    await expect(page.get_by_role("link", name="Gap", exact=True)).to_have_count(0)  # it is grouped by the list of gaps
    await visit.go(f"/gaps?collection={COLLECTION}")
    await expect(page.locator("li.gap")).to_have_count(1)
    await visit.go(f"/questions/{logged[1]}")
    await page.get_by_role("link", name="Gap", exact=True).click()
    await page.locator(".gap-details .questions a").click()
    await expect(page).to_have_url(re.compile(f"/questions/{logged[1]}$"))
    await page.go_back()
    await page.get_by_role("button", name="Write the answer").click()
    dialog = page.get_by_role("dialog", name="Write the answer")
    await dialog.get_by_role("button", name="Save the answer").click()
    await expect(dialog.get_by_label("Text")).to_have_attribute("aria-invalid", "true")
    await dialog.get_by_label("Title").fill("Spare lamps")
    await dialog.get_by_label("Text").fill("The spare lamps are in the cellar of the lighthouse.")
    for width, height in SIZES:
        await page.set_viewport_size({"width": width, "height": height})
        await require_accessible(page, f"dialog {width}", only_colours=width != SIZES[0][0])
    await dialog.get_by_role("button", name="Save the answer").click()

    await expect(page.locator(".notice")).to_contain_text("the gap is resolved by it")
    await expect(page.locator("li.gap")).to_have_count(0)
    await page.get_by_role("button", name="Resolved 1").click()
    await expect(page.locator(".gap-owner")).to_contain_text("answers/spare-lamps-")
    deployment.wait_until_settled(2, collection=COLLECTION)
    body = {"question": GAP, "collection": COLLECTION}
    first = client.post("/v1/retrieve", json=body).raise_for_status().json()["chunks"][0]
    assert (first["title"], first["matched_question"]) == ("Spare lamps", GAP)
    assert first["matched_question_source"] == "given"
    gaps = client.get(f"/v1/collections/{COLLECTION}/gaps").raise_for_status().json()
    assert gaps["counts"] == {"open": 0, "assigned": 0, "resolved": 1}


async def test_answer_is_written_on_page_of_question(visit, logged):
    page = visit.page
    await visit.go(f"/questions/{logged[0]}")
    write = page.get_by_role("button", name="Write the answer")
    await write.click()
    await expect(page.get_by_label("Title")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(write).to_be_focused()
    await write.click()
    await page.get_by_label("Text", exact=True).fill("Everybody has thirty days, and five more after ten years.")
    await page.get_by_role("button", name="Save the answer").click()
    await expect(page.locator(".question-page")).to_contain_text("Your answer is the document")
    await page.locator(".question-page p[role=status] a").click()
    await expect(page).to_have_url(re.compile(r"/documents/[0-9a-f-]{36}$"))


async def test_screens_of_questions_fit_and_are_accessible(visit, logged):
    page = visit.page
    for path, shown in (
        (f"/questions?collection={COLLECTION}", "ul.questions li"),
        (f"/questions/{logged[0]}", ".question-page"),
        (f"/gaps?collection={COLLECTION}", ".tabs"),
    ):
        for width, height in SIZES:
            await page.set_viewport_size({"width": width, "height": height})
            await visit.go(path)
            await expect(page.locator(shown).first).to_be_visible()
            await require_accessible(page, f"{path} {width}", only_colours=width != SIZES[0][0])


async def test_fresh_tenant_sees_no_error(browser, keyed):
    refused, base = [], str(keyed.base_url).rstrip("/")
    async with visiting(browser, base, viewport={"width": 1360, "height": 850}) as visit:
        page = visit.page
        await page.add_init_script(f"sessionStorage.setItem('foreask.key', '{FRESH}')")
        page.on("response", lambda reply: refused.append(reply.url) if reply.status >= 400 else None)
        for path in ("/questions", "/questions?show=accepted", "/gaps", "/gaps?show=resolved"):
            await visit.go(path)
            await expect(page.locator(".empty")).to_be_visible()
            await expect(page.locator(".trouble")).to_have_count(0)
        await visit.go("/gaps")
        await expect(page.locator(".empty")).to_contain_text("Questions are listed for 30 days.")
    assert refused == []


async def test_unknown_question_says_so(visit):
    visit.allowed = ("404",)
    await visit.go("/questions/0b4f7c1e-8d0a-4f0e-9d55-3c7a1f6f2b11")
    await expect(visit.page.locator(".trouble")).to_contain_text("does not exist")
    await visit.page.get_by_role("link", name="All questions").click()
    await until(lambda: visit.page.evaluate("location.pathname.endsWith('/questions')"))
