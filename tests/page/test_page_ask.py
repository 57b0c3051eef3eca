"""The Ask screen: answers are in view, sources follow the history, and a key that only asks is refused nothing."""

import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import act, ask, drawn, visiting
from tests.page.screens import fits, require_accessible
from tests.page.test_page_conversation import follow_up
from tests.page.test_page_keys import with_key
from tests.page.test_page_late import held
from tests.support.pdfs import pdf
from tests.support.planted import guards

QUESTIONS = ("How many days of leave does everybody have?", "And in the first year?", "What about travel abroad?")
SIZES = [(1440, 900), (1024, 768), (390, 844)]
PHONE = {"width": 390, "height": 844}
PIER = "The keeper of the pier counts every gull at noon."
# Pixels of the last answer, of its part above the field, of its title below the window's edge, and of its turn.
SEEN = """() => {
    const turn = [...document.querySelectorAll(".answer")].at(-1);
    const box = (name) => turn.querySelector(name).getBoundingClientRect();
    const [words, title] = [box(".written"), box(".question-title")];
    const field = document.querySelector(".ask-form").getBoundingClientRect();
    const seen = Math.min(words.bottom, field.top) - Math.max(words.top, 0);
    return { seen, all: words.height, title: title.top, turn: turn.offsetHeight, field: field.height };
}"""


@pytest.fixture(scope="module")
def two(deployment):
    """Two collections, so that there is one to choose; the second one has a PDF."""
    deployment.client.put("/v1/collections/piers", json={}).raise_for_status()
    form = {"collection": "piers", "external_id": "pier.pdf"}
    file = ("pier.pdf", pdf([["The first page is about the sea."], [PIER]]))
    deployment.client.post("/v1/documents", files={"file": file}, data=form).raise_for_status()
    deployment.wait_until_settled(1, collection="piers")
    return "piers"


@guards(
    "api/web/style/page.css",
    "min-height: calc(100dvh - 7rem);",
    "min-height: 0;",
    means="the answer to a follow-up question is at the end of the window",
)
@guards(
    "api/web/style/page.css",
    "  .with-composer .notice-area { inset-block-end: 7rem; }",
    "",
    means="a notice covers the field for the next question",
)
@pytest.mark.parametrize(("width", "height"), SIZES)
async def test_follow_up_answers_are_in_view(visit, two, width, height):
    page = visit.page
    await page.set_viewport_size({"width": width, "height": height})
    await ask(visit, QUESTIONS[0])
    for question in QUESTIONS[1:]:
        await follow_up(page, question)
        await drawn(page)
        found = await page.evaluate(SEEN)
        assert found["seen"] == found["all"] > 0, found
        assert 0 <= found["title"] <= 40, found
        assert found["turn"] > 0.7 * height, found
        assert found["field"] < 0.12 * height or width > 390, found
    await act(page.locator(".answer").last, "Ask again")
    notice, field = page.locator(".notice"), page.locator(".ask-form")
    await expect(notice).to_contain_text("Answer replaced")
    below = await notice.bounding_box()
    assert below["y"] + below["height"] <= (await field.bounding_box())["y"]
    assert await fits(page)


async def test_back_closes_source_on_phone(visit):
    page, panel = visit.page, visit.page.locator(".detail")
    await page.set_viewport_size(PHONE)
    await ask(visit, QUESTIONS[0])
    address = page.url
    source = page.locator(".sources button").first
    await source.click()
    await expect(page.locator("#source-title")).to_be_focused()
    await page.go_back()
    await expect(panel).to_have_count(0)
    await expect(source).to_be_focused()
    assert page.url.split("&conversation")[0] == address.split("&conversation")[0]
    await page.go_forward()
    await expect(panel).to_have_count(1)
    await expect(page.locator("#source-title")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(panel).to_have_count(0)
    await expect(source).to_be_focused()
    await source.click()
    await page.reload()  # a stored answer: its passage is read again
    await expect(page.locator(".detail .marked")).to_contain_text("leave")
    await page.get_by_role("button", name="Close", exact=True).last.click()
    await expect(panel).to_have_count(0)
    await expect(page.locator(".question-title")).to_have_text(QUESTIONS[0])


async def test_back_and_forward_show_each_conversation(visit):
    page, title = visit.page, visit.page.locator(".question-title")
    await ask(visit, QUESTIONS[0])
    await expect(page).to_have_url(re.compile("conversation="))
    await page.get_by_role("button", name="New conversation").click()
    await expect(title).to_have_count(0)
    await page.go_back()
    await expect(title).to_have_text(QUESTIONS[0])
    await page.go_forward()
    await expect(title).to_have_count(0)
    await page.fill("#question", QUESTIONS[2])
    await page.keyboard.press("Enter")
    await expect(page.locator(".facts")).to_be_visible()
    await expect(page.locator(".conversations li")).to_have_count(2)
    await page.go_back()
    await expect(title).to_have_text(QUESTIONS[0])
    await page.go_forward()
    await expect(title).to_have_text(QUESTIONS[2])


@guards(
    "api/web/routes/ask.js",
    "export function unload() {\n",
    "export function unload() {\n  running?.control.abort();\n",
    means="opening another screen stops an answer",
)
async def test_answer_continues_on_another_screen(visit):
    page = visit.page
    await visit.go("/ask")
    async with held(page, "**/v1/query") as late:
        await page.fill("#question", QUESTIONS[0])
        await page.keyboard.press("Enter")
        await late.taken()
        await page.get_by_role("link", name="Documents").click()
        await expect(page.locator(".row").first).to_be_visible()
        late.release()
        await page.get_by_role("link", name="Ask", exact=True).click()
        await expect(page.locator(".question-title")).to_have_text(QUESTIONS[0])
        await expect(page.locator(".facts")).to_be_visible()
        await expect(page.get_by_text("Stopped.")).to_have_count(0)


async def test_unknown_address_shows_page(visit):
    visit.allowed = ("404",)
    await visit.go("/documents/a/b")
    await expect(visit.page.get_by_role("heading", name="Page not found")).to_be_visible()
    await require_accessible(visit.page, "an unknown address")
    await visit.page.get_by_role("link", name="Ask a question").click()
    await expect(visit.page.locator("#question")).to_be_visible()


@guards(
    "api/web/parts/source.js",
    '  if (!may("read")) return null;\n',
    "",
    means="a key that only asks is refused the neighbours of a passage",
)
@pytest.mark.parametrize("is_filtered", [False, True])
async def test_asking_key_opens_cited_page_unless_filtered(browser, keyed, two, is_filtered):
    only = {"not": {"audience": "board"}}
    body = {"name": f"asks-{is_filtered}", "scopes": ["ask"]} | ({"filter": only} if is_filtered else {})
    key = keyed.post("/v1/keys", json=body).raise_for_status().json()["key"]
    async with visiting(browser, str(keyed.base_url).rstrip("/"), viewport={"width": 1360, "height": 850}) as visit:
        visit.allowed = ("401",)
        page = visit.page
        refused = []
        page.on("response", lambda reply: reply.status == 403 and refused.append(reply.url))
        await with_key(visit, f"/ask?collection={two}", key)
        await page.fill("#question", "Who counts every gull at noon?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".facts")).to_be_visible()
        await page.locator(".written .cited").first.click()
        await expect(page.locator(".detail .marked")).to_contain_text("gull")
        await expect(page.locator(".detail a")).to_have_count(0)
        opens = page.get_by_role("button", name=re.compile("^Open at page"))
        await expect(opens).to_have_count(0 if is_filtered else 1)
        if not is_filtered:
            await opens.click()
            await expect(page.locator("#original-title")).to_be_focused()
            await expect(page.locator(".page-mark").first).to_be_visible()
            await require_accessible(page, "an original next to its passage")
            await page.keyboard.press("Escape")
            await expect(page.locator(".original")).to_have_count(0)
            await expect(opens).to_be_focused()
        await page.reload()
        await page.locator(".written .cited").first.click()
        await expect(page.locator(".notice")).to_contain_text("Your key may not open passages of earlier answers")
        await page.get_by_role("link", name="Explain").click()
        await expect(page).to_have_title(re.compile("Explain"))
        await page.fill("#question", "Who counts every gull at noon?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".explained tbody tr").first).to_be_visible()
        assert refused == []
