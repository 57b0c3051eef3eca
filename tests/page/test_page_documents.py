"""The list of documents: deletion, the way back, columns and menus, repair of a file, and search in texts."""

import re

import pytest
from playwright.async_api import expect

from bench.page import fill
from tests.page.conftest import drawn, until
from tests.page.screens import require_accessible
from tests.support.planted import guards

ENDS = """(lines) => lines.map((line) => [...line.children]
    .filter((cell) => cell.offsetWidth).map((cell) => Math.round(cell.getBoundingClientRect().right)))"""
SCROLL = "(list, rows) => list.scrollTo(0, rows * 48)"
DAMAGED = b"%PDF-1.4 nothing"


@pytest.fixture(scope="module")
async def listed(deployment):
    """The name of a collection with 250 documents."""
    await fill(deployment, "listed", 250)
    return "listed"


@pytest.fixture
def damaged(deployment, request):
    """A document whose file cannot be read, in a collection of its own."""
    name = f"damaged-{abs(hash(request.node.name)) % 10_000}"
    form = {"collection": name, "external_id": "report.pdf", "metadata": '{"year": 2026}'}
    files = {"file": ("report.pdf", DAMAGED)}
    deployment.client.post("/v1/documents", data=form, files=files).raise_for_status()
    [document] = deployment.wait_until_settled(1, collection=name)
    assert document["state"] == "failed"
    return document


@guards(
    "api/web/parts/notice.js",
    'addEventListener("pagehide", end);',
    "",
    means="a document is listed again if the page is loaded before its notice closes",
)
async def test_reloaded_page_has_deleted_the_document(visit, deployment):
    deployment.ingest({name: f"This is {name}." for name in ("kept", "removed", "later")}, collection="reloaded")
    deployment.wait_until_settled(3, collection="reloaded")
    page = visit.page

    async def left():
        items = deployment.client.get("/v1/documents?collection=reloaded").json()["items"]
        return sorted(each["external_id"] for each in items)

    async def are_left(*names):
        return await left() == sorted(names)

    await visit.go("/documents?collection=reloaded")
    await page.get_by_role("button", name="Actions for removed").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await expect(page.locator(".notice")).to_be_visible()
    assert await left() == ["kept", "later", "removed"]
    await page.reload()
    await until(lambda: are_left("kept", "later"))
    await expect(page.locator(".row", has_text="removed")).to_have_count(0)

    await page.get_by_role("button", name="Actions for later").click()
    await page.get_by_role("menuitem", name="Delete").click()
    await page.goto("about:blank")
    await until(lambda: are_left("kept"))


@guards(
    "api/web/app.js",
    'addEventListener("beforeunload", () => current?.route.leave?.());',
    "",
    means="a reload returns to an earlier place of a list",
)
@guards(
    "api/web/app.js",
    "current?.route.leave?.(); // stores",
    "// stores",
    means="Back returns to the start of a list",
)
async def test_list_returns_where_it_was_left(visit, listed):
    page = visit.page
    await visit.go(f"/documents?collection={listed}&sort=name&q=paper&state=ready")
    await expect(page.locator(".row").first).to_contain_text("paper-000001")
    await page.locator(".window").evaluate(SCROLL, 90)
    await expect(page.locator(".row", has_text="paper-000101")).to_be_visible()
    row, is_restored = await _scrolled(page, 180)
    await row.locator("a").click()
    await expect(page.get_by_role("heading", name="Paper paper-")).to_be_visible()
    link = page.locator("#to-list")
    await expect(link).to_have_attribute("href", re.compile("q=paper&state=ready|state=ready&q=paper|sort=name"))
    await page.go_back()
    await until(is_restored)

    _, is_restored = await _scrolled(page, 140)
    await page.reload()
    await until(is_restored)
    await expect(page.locator("#search")).to_have_value("paper")
    await expect(page.locator("main select").nth(1)).to_have_value("ready")
    await expect(page.locator("main select").nth(2)).to_have_value("name")
    await expect(page.locator(".counts [role=status]")).to_have_text("250 hits")


async def _scrolled(page, number):
    """Scroll the list by rows, and return a visible row, and whether a list shows the same rows at the same height."""
    await page.locator(".window").evaluate(SCROLL, number)
    row = page.locator(f'.row[aria-posinset="{number + 5}"]')
    await expect(row).to_be_visible()
    place, count = await row.bounding_box(), await page.locator(".row").count()

    async def is_restored():
        await expect(row).to_be_visible()
        return (await row.bounding_box(), await page.locator(".row").count()) == (place, count)

    return row, is_restored


async def test_columns_of_all_rows_are_aligned(visit, deployment, damaged):
    page = visit.page
    deployment.ingest({"a-long-name-of-a-note.md": "# Note\n\nThis is a note."}, collection=damaged["collection"])
    deployment.wait_until_settled(2, collection=damaged["collection"])
    await visit.go(f"/documents?collection={damaged['collection']}")
    await expect(page.locator(".row .state.ready")).to_have_count(1)
    for width in (1440, 1024, 800, 390):
        await page.set_viewport_size({"width": width, "height": 800})
        await drawn(page)
        head, *ends = await page.locator(".row, .row-head").evaluate_all(ENDS)
        assert len(ends) == 2
        assert ends[0] == ends[1] == [*head, ends[0][-1]], width  # the column of the menus has no name
        await require_accessible(page, str(width))


async def test_menu_of_row_works_with_keyboard(visit, damaged):
    page = visit.page
    await visit.go(f"/documents?collection={damaged['collection']}")
    button = page.get_by_role("button", name="Actions for report.pdf")
    await button.focus()
    await page.keyboard.press("Enter")
    menu = page.locator("#actions")
    await expect(menu).to_contain_text(damaged["error"])
    await expect(page.get_by_role("menuitem")).to_have_text(["Replace file", "Try again", "Delete"])
    await expect(page.get_by_role("menuitem", name="Replace file")).to_be_focused()
    await require_accessible(page)
    await page.keyboard.press("ArrowUp")
    await expect(page.get_by_role("menuitem", name="Delete")).to_be_focused()
    await page.keyboard.press("ArrowDown")
    await expect(page.get_by_role("menuitem", name="Replace file")).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(menu).to_have_count(0)
    await expect(button).to_be_focused()


async def test_replaced_file_repairs_its_document(visit, deployment, damaged, tmp_path):
    page = visit.page
    better = tmp_path / "better.md"
    better.write_text("# Report\n\nThe report says that the harbour opens at six.")
    await visit.go(f"/documents/{damaged['id']}")
    await expect(page.locator("button.main")).to_have_text("Replace file")
    async with page.expect_file_chooser() as chooser:
        await page.get_by_role("button", name="Replace file").click()
    await (await chooser.value).set_files(better)
    await expect(page.locator(".notice")).to_contain_text("was replaced")
    await expect(page.locator(".counts .state.ready")).to_be_visible()
    [document] = deployment.wait_until_settled(1, collection=damaged["collection"])
    known = (document["id"], document["external_id"], document["metadata"], document["state"])
    assert known == (damaged["id"], "report.pdf", {"year": 2026}, "ready")


async def test_texts_are_searched_from_the_list(visit, deployment):
    page = visit.page
    texts = {"ferry.md": "# Ferry\n\nThe ferry to the island leaves at noon.", "office.md": "# Office\n\nIt is closed."}
    deployment.ingest(texts, collection="texts")
    deployment.wait_until_settled(2, collection="texts")
    await visit.go("/documents?collection=texts")
    await page.get_by_role("button", name="In texts").click()
    await page.fill("#search", "islands noon")
    hits = page.locator(".hits li")
    await expect(hits).to_have_count(1)
    await expect(hits.locator("mark")).to_have_text(["island", "noon"])
    await expect(page).to_have_url(re.compile("in=texts"))
    await require_accessible(page)
    await page.reload()
    await expect(hits).to_have_count(1)
    await hits.get_by_role("link").click()
    await expect(page.locator(".detail .marked")).to_contain_text("leaves at noon")
    asked = deployment.client.get("/v1/collections/texts/queries").json()["items"]
    assert asked == []


async def test_own_question_is_added_changed_and_removed(visit, deployment):
    page = visit.page
    deployment.ingest({"quay.md": "# Quay\n\nThe quay is closed in winter."}, collection="own")
    [document] = deployment.wait_until_settled(1, collection="own")

    def questions():
        items = deployment.client.get("/v1/collections/own/accepted-questions").json()["items"]
        return [each["question"] for each in items if each["state"] != "removing"]

    async def are(*wanted):
        return questions() == list(wanted)

    await visit.go(f"/documents/{document['id']}")
    await page.get_by_role("button", name="Add question").click()
    await expect(page.locator("#own-question")).to_be_focused()
    await page.keyboard.type("May I moor in January?")
    await page.keyboard.press("Enter")
    own = page.locator(".detail .questions li", has_text="May I moor in January?")
    await expect(own.get_by_role("img", name="kept")).to_be_visible()
    assert questions() == ["May I moor in January?"]
    await require_accessible(page)
    await own.get_by_role("button", name="Edit").click()
    await page.fill("#own-question", "May I moor in winter?")
    await page.keyboard.press("Enter")
    changed = page.locator(".detail .questions li", has_text="May I moor in winter?")
    await expect(changed.get_by_role("img", name="kept")).to_be_visible()
    await until(lambda: are("May I moor in winter?"))
    await changed.get_by_role("button", name="Remove").click()
    await until(are)


async def test_generated_question_is_switched_off_and_on(visit, deployment):
    page = visit.page
    deployment.ingest({"lock.md": "# Lock\n\nThe lock closes at dusk."}, collection="off")
    [document] = deployment.wait_until_settled(1, collection="off")
    [chunk] = deployment.client.get(f"/v1/documents/{document['id']}/chunks").json()["items"]
    text = next(each["text"] for each in chunk["questions"] if each["passed"])

    def matched():
        reply = deployment.client.post("/v1/retrieve", json={"question": text, "collection": "off", "record": False})
        return reply.json()["chunks"][0]["matched_question"]

    await visit.go(f"/documents/{document['id']}")
    row = page.locator(".detail .questions li").filter(has=page.get_by_text(text, exact=True))
    assert matched() == text
    await row.get_by_role("button", name=f"Switch off: {text}", exact=True).focus()
    await page.keyboard.press("Enter")

    await expect(row.get_by_role("img", name="switched off")).to_be_visible()
    await expect(row).to_contain_text("switched off")
    await expect(row.get_by_text(text, exact=True)).to_have_css("text-decoration-line", "line-through")
    await expect(row.get_by_role("button", name=f"Switch on: {text}", exact=True)).to_be_focused()
    await expect(page.locator(".notice")).to_contain_text("Question switched off.")
    assert matched() != text
    await require_accessible(page)
    await page.keyboard.press("Enter")

    await expect(row.get_by_role("img", name="kept")).to_be_visible()
    await expect(row.get_by_role("button", name=f"Switch off: {text}", exact=True)).to_be_focused()
    assert matched() == text
