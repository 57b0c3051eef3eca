"""The page in a real browser."""

import re

from playwright.async_api import expect

from bench.page import fill
from tests.page.conftest import HOSTILE, act, ask, until
from tests.page.screens import fits


async def test_answer_shows_sources_with_positions(visit):
    await ask(visit, "How many days of leave does everybody have?")
    page = visit.page
    await expect(page.locator(".written .cited").first).to_be_visible()
    await page.locator(".written .cited").first.click()
    await expect(page.locator("#source-title")).to_be_focused()
    await expect(page.locator(".detail .marked")).to_contain_text("thirty days of leave")
    await expect(page.locator(".channels tr")).to_have_count(3)
    await page.keyboard.press("Escape")
    await expect(page.locator(".detail")).to_have_count(0)
    await expect(page.locator(".written .cited").first).to_be_focused()
    await page.keyboard.press("Enter")
    await page.get_by_role("link", name="Open in document").click()
    await expect(page).to_have_url(re.compile(r"/documents/[0-9a-f-]{36}\?chunk="))
    await expect(page.locator(".questions li").first).to_be_visible()


async def test_answered_question_is_accepted_and_retracted(visit, deployment):
    await ask(visit, "What are my holidays, please?")
    await visit.page.get_by_role("button", name="Helpful", exact=True).click()
    await expect(visit.page.locator(".notice")).to_contain_text("Your question now finds this passage")
    accepted = deployment.client.get("/v1/collections/default/accepted-questions").json()["items"]
    assert [each["question"] for each in accepted] == ["What are my holidays, please?"]
    await visit.page.get_by_role("button", name="Undo").click()
    await expect(visit.page.locator(".notice")).to_contain_text("Your question was removed")
    assert deployment.client.get("/v1/collections/default/accepted-questions").json()["items"] == []


async def test_untrusted_content_is_shown_as_text(visit, deployment):
    hostile = next(each for each in deployment.documents() if each["external_id"] == "hostile.md")
    await visit.go("/documents")
    await expect(visit.page.locator(".rows")).to_contain_text("<img src=x onerror=alert(1)>")
    await visit.go(f"/documents/{hostile['id']}")
    await expect(visit.page.locator(".detail .marked")).to_contain_text(HOSTILE)
    await ask(visit, f"Who wrote {HOSTILE}?")
    await expect(visit.page.locator(".question-title")).to_contain_text(HOSTILE)
    assert await fits(visit.page)


async def test_uploaded_documents_show_their_states(visit, deployment, files):
    deployment.client.put("/v1/collections/thirteen", json={}).raise_for_status()
    await visit.go("/documents?collection=thirteen")
    await visit.page.locator("input[type=file]").set_input_files(files)
    await expect(visit.page.locator(".uploads")).to_contain_text("13 files uploaded")
    documents = deployment.wait_until_settled(13, collection="thirteen")
    await visit.page.fill("#search", "note")
    await expect(visit.page.locator(".row")).to_have_count(12)
    await expect(visit.page.locator(".row .state.ready")).to_have_count(12)
    await visit.page.fill("#search", "")
    await visit.page.locator("main select").nth(1).select_option("failed")
    await expect(visit.page.locator(".row")).to_have_count(1)
    await expect(visit.page.locator(".row")).to_contain_text("nothing.pdf")
    assert sorted(each["state"] for each in documents) == ["failed"] + ["ready"] * 12
    await visit.page.get_by_role("button", name="Actions for nothing.pdf").click()
    await visit.page.get_by_role("menuitem", name="Delete").click()
    await visit.page.get_by_role("button", name="Undo").click()
    await expect(visit.page.locator(".row")).to_have_count(1)
    await visit.go("/work")
    reason = next(d["error"] for d in documents if d["error"])
    await visit.page.locator(".reasons").get_by_role("link", name=reason).click()
    await expect(visit.page.locator(".row")).to_have_count(1)
    await expect(visit.page.locator(".row")).to_contain_text("nothing.pdf")
    await visit.go("/jobs")
    card = visit.page.get_by_role("listitem", name="Load of thirteen")
    await expect(card).to_contain_text("done with errors")
    await card.get_by_role("link", name="13 of 13 documents").click()
    await expect(visit.page.locator(".row")).to_have_count(13)
    await visit.page.go_back()
    await card.get_by_role("link", name="1 with errors").click()
    await expect(visit.page.locator(".row")).to_have_count(1)
    await visit.page.get_by_role("button", name="Show all documents").click()
    await expect(visit.page.locator(".narrowing")).to_have_count(0)


async def test_small_files_are_uploaded_together(visit, deployment, tmp_path):
    files = [tmp_path / f"memo-{number}.md" for number in range(60)]
    for number, file in enumerate(files):
        file.write_text(f"# Memo {number}\n\nGrüße vom Büro {number}.")
    deployment.client.put("/v1/collections/memos", json={}).raise_for_status()
    sent = []
    visit.page.on("request", lambda request: sent.append((request.method, request.url)))
    await visit.go("/documents?collection=memos")
    await visit.page.locator("input[type=file]").set_input_files(files)
    await expect(visit.page.locator(".uploads")).to_contain_text("60 files uploaded")

    documents = deployment.wait_until_settled(60, collection="memos")
    assert {(each["filename"], each["media_type"], each["state"]) for each in documents} == {
        (file.name, "text/markdown", "ready") for file in files
    }
    assert len([url for method, url in sent if method == "POST" and "/v1/documents" in url]) == 1
    first = next(each for each in documents if each["filename"] == "memo-0.md")
    assert deployment.client.get(f"/v1/documents/{first['id']}/content").content == files[0].read_bytes()


# All sliders are moved before the page is drawn again.
MOVE_SLIDERS = """() => {
    for (const slider of document.querySelectorAll("input[type=range]")) {
        slider.value = "0.3";
        slider.dispatchEvent(new Event("input", { bubbles: true }));
    }
}"""


async def test_explanation_reorders_rows_and_accepts_question(visit, deployment):
    await visit.go("/lab/explain")
    await visit.page.fill("#question", "Who signs the travel form?")
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.locator(".explained tbody tr").first).to_be_visible()
    await visit.page.evaluate(MOVE_SLIDERS)
    for number in await visit.page.locator(".weight .number").all():
        await expect(number).to_have_text("0.3")
    await visit.page.get_by_role("button", name="Add question").first.click()
    await expect(visit.page.locator(".notice")).to_contain_text("Question added.")
    accepted = deployment.client.get("/v1/collections/default/accepted-questions").json()["items"]
    assert "Who signs the travel form?" in [each["question"] for each in accepted]


async def test_expected_chunk_shows_rank_and_remedy(visit, deployment):
    page, question = visit.page, "May I take the dog along to the office?"
    await visit.go("/lab/explain")
    await page.fill("#question", question)
    await page.keyboard.press("Enter")
    await page.get_by_label("Document", exact=True).fill("urlaub")
    await page.get_by_role("button", name="Urlaub", exact=True).click()
    await page.locator(".missing .passages button").first.click()
    await expect(page.locator(".missing .card")).to_contain_text("of all")
    await page.get_by_role("button", name="Add this question to the passage").click()
    await expect(page.locator(".notice")).to_contain_text("Question added.")

    async def first_of_all():
        async with page.expect_response("**/v1/retrieve"):
            await page.get_by_role("button", name="Refresh").click()
        return "Rank 1 of all passages" in await page.locator(".missing .card").inner_text()

    await until(first_of_all)
    await expect(page.locator(".missing .card q")).to_have_text(question)
    await page.get_by_role("button", name="Compare with its questions").click()
    nearest = page.locator(".missing .nearest tr").first
    await expect(nearest).to_contain_text(f"from a user {question}")
    await expect(nearest.locator(".number")).to_have_text("1.00")
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(page)


async def test_unanswered_questions_are_listed(visit):
    await ask(visit, "Who won the football World Cup in 1990?")
    await visit.go("/questions?state=none")
    await expect(visit.page.get_by_label("Result")).to_have_value("none")
    await visit.page.get_by_label("Result").select_option("")
    await expect(visit.page.locator(".questions")).to_contain_text("Who won the football World Cup in 1990?")


async def test_explain_opens_with_question_of_answer(visit):
    await ask(visit, "How many days of leave does everybody have?")
    await act(visit.page.locator(".answer"), "Explain")
    await expect(visit.page.locator("#question")).to_have_value("How many days of leave does everybody have?")
    await expect(visit.page.locator(".explained tbody tr").first).to_be_visible()


async def test_hidden_tab_catches_up_when_visible(visit, deployment):
    deployment.ingest({"before": "This was there before."}, collection="hidden")
    await visit.go("/documents?collection=hidden")
    await expect(visit.page.locator(".row .state.ready")).to_have_count(1)
    deployment.ingest({"seen": "This came with an event, which has a position in the stream."}, collection="hidden")
    await expect(visit.page.locator(".row .state.ready")).to_have_count(2)
    await _hide(visit.page, hidden=True)
    deployment.ingest({"meanwhile": "This came meanwhile."}, collection="hidden")
    deployment.wait_until_settled(3, collection="hidden")
    for hidden in (False, True, False):
        await _hide(visit.page, hidden=hidden)
    await expect(visit.page.locator(".row .state.ready")).to_have_count(3)


async def _hide(page, *, hidden):
    script = """(hidden) => {
        Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
    }"""
    await page.evaluate(script, hidden)


async def test_same_file_name_in_folders_makes_two_documents(visit, deployment, tmp_path):
    deployment.ingest({"first": "This was the first."}, collection="folders")
    deployment.wait_until_settled(1, collection="folders")
    for name in ("a", "b"):
        (tmp_path / "notes" / name).mkdir(parents=True)
        (tmp_path / "notes" / name / "readme.md").write_text(f"# Notes\n\nThese are those of {name}.\n")
    await visit.go("/documents")
    await visit.page.locator("main select").first.select_option("folders")
    await expect(visit.page.locator(".row")).to_have_count(1)
    browser_session = await visit.page.context.new_cdp_session(visit.page)
    dropped = {"items": [], "files": [str(tmp_path / "notes")], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, "x": 600, "y": 400, "data": dropped}
        await browser_session.send("Input.dispatchDragEvent", event)
    await expect(visit.page.locator(".uploads")).to_contain_text("2 files uploaded")
    documents = deployment.wait_until_settled(3, collection="folders")
    assert sorted(each["external_id"] for each in documents) == ["first", "notes/a/readme.md", "notes/b/readme.md"]


async def test_only_visible_rows_are_rendered(visit, deployment):
    await fill(deployment, "many", 250)
    await visit.go("/documents")
    await visit.page.locator("main select").first.select_option("many")
    await visit.page.locator("main select").nth(2).select_option("name")
    await expect(visit.page.locator(".row").first).to_contain_text("paper-000001")
    await visit.page.locator(".window").focus()

    async def last_is_shown():
        await visit.page.keyboard.press("PageDown")
        return "paper-000250" in await visit.page.locator(".row").last.inner_text()

    await until(last_is_shown)
    assert await visit.page.locator(".row").count() <= 80
    await visit.page.locator(".row a").last.click()
    await expect(visit.page.get_by_role("heading", name="Paper paper-")).to_be_visible()
    await visit.page.get_by_role("link", name="Documents").first.click()
    await expect(visit.page.locator(".row").first).to_contain_text("paper-000001")


async def test_page_works_with_keyboard_only(visit):
    await visit.go("/")
    keyboard = visit.page.keyboard
    await visit.page.locator("body").press("g")
    await keyboard.press("d")
    await expect(visit.page).to_have_url(re.compile(r"/documents(\?|$)"))  # the address may also have the collection
    await keyboard.press("/")
    await expect(visit.page.locator("#search")).to_be_focused()
    await keyboard.press("Tab")
    shown = await visit.page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert shown != "none"
