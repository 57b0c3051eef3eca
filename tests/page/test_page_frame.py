"""Features of all screens: collections in links, retries after a pause, requests to copy, screen reader messages."""

import asyncio
import json
import re
import shlex
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from playwright.async_api import expect

from tests.page.conftest import ask, choose_cost_preview, until
from tests.page.screens import require_accessible


@pytest.fixture
def other(deployment):
    """A second collection, which is empty."""
    deployment.client.put("/v1/collections/other", json={})
    yield "other"
    deployment.client.delete("/v1/collections/other")


async def test_link_selects_its_collection(visit, other):
    await visit.go(f"/questions?collection={other}&show=accepted")
    chooser = visit.page.get_by_label("Collection")
    await expect(chooser).to_have_value(other)
    await expect(visit.page.get_by_role("button", name="Accepted")).to_have_attribute("aria-pressed", "true")
    await chooser.select_option("default")
    await expect(visit.page).to_have_url(re.compile(r"/questions\?collection=default&show=accepted$"))
    await visit.page.reload()
    await expect(chooser).to_have_value("default")


async def test_shown_request_can_be_sent_as_is(visit, deployment):
    await ask(visit, "What's a day of leave?")
    await visit.page.get_by_text("Show raw request").click()
    command = shlex.split(await visit.page.locator(".request pre").inner_text())
    assert command[0] == "curl"
    assert command[-1] == f"{visit.base}/v1/query"
    reply = deployment.client.post("/v1/query", json=json.loads(command[command.index("-d") + 1]))
    assert reply.status_code == 200
    assert reply.json()["metadata"]["query_id"]
    await visit.page.get_by_role("button", name="Python").click()
    await expect(visit.page.locator(".request pre")).to_contain_text("import httpx")
    program = await visit.page.locator(".request pre").inner_text()
    ran = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=asyncio.subprocess.PIPE)
    printed, _ = await ran.communicate()
    assert (ran.returncode, b"query_id" in printed) == (0, True)


async def test_screen_reader_announces_answer_once_completely(visit):
    await visit.go("/ask")
    await visit.page.evaluate("""() => {
        window.spoken = [];
        const watch = () => document.querySelectorAll(".answer [role=status]").forEach((region) => {
            const text = region.textContent;
            if (text && window.spoken.at(-1) !== text) window.spoken.push(text);
        });
        new MutationObserver(watch).observe(document.body, {subtree: true, childList: true, characterData: true});
    }""")
    await visit.page.fill("#question", "How many days of leave does everybody have?")
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.locator(".facts")).to_be_visible()
    announced = await visit.page.evaluate("window.spoken")
    assert announced[0] == "Searching."
    assert announced[-1] == "The documents say so."
    assert set(announced[1:-1]) <= {"Writing the answer."}  # single words are not announced


async def test_estimated_files_are_uploaded_after_confirmation(visit, deployment, tmp_path):
    async def priced(route):
        me = await (await route.fetch()).json()
        await route.fulfill(json=me | {"prices": {"prompt": 0.4, "completion": 1.6}})

    page = visit.page
    await page.route("**/v1/me", priced)
    await visit.go("/documents")
    before = len(deployment.documents())
    notes = [tmp_path / f"priced-{number}.txt" for number in range(3)]
    for number, path in enumerate(notes):
        path.write_text(f"What is priced {number} times is paid for once.")
    await page.locator("input[type=file]").set_input_files(notes)
    offered = page.get_by_label("Cost estimate")
    await expect(offered).to_contain_text("3 files")
    await expect(offered).to_contain_text("about 3 calls")
    assert len(deployment.documents()) == before
    await offered.get_by_role("button", name="Cancel").click()
    await expect(offered).to_have_count(0)
    await page.locator("input[type=file]").set_input_files(notes)
    await offered.get_by_role("button", name="Upload").click()
    await expect(page.locator(".uploads")).to_contain_text("3 files uploaded")
    assert len(deployment.documents()) == before + 3


async def test_token_preview_survives_reload_with_warning(visit, files):
    page = visit.page
    files[0].write_text("Nobody wrote questions for this sentence yet.")
    leaving = "() => !dispatchEvent(new Event('beforeunload', {cancelable: true}))"
    await visit.go("/documents")
    await choose_cost_preview(page)
    await page.reload()
    assert not await page.evaluate(leaving)
    await page.locator("input[type=file]").set_input_files(files[:1])
    offered = page.get_by_label("Cost estimate")
    await expect(offered).to_contain_text(re.compile(r"about 1 call · \d+ tokens · [^$]+note-0.txt"))
    assert await page.evaluate(leaving)
    await page.route("**/v1/documents", lambda route: None, times=1)
    await offered.get_by_role("button", name="Upload").click()
    await expect(page.locator(".uploads")).to_contain_text("Keep this page open until the upload finishes")
    assert await page.evaluate(leaving)
    await page.locator(".uploads").get_by_role("button", name="Stop").click()
    await expect(page.locator(".uploads")).to_contain_text("cancelled")
    assert not await page.evaluate(leaving)


async def test_revoked_actions_disappear_after_refused_request(visit):
    visit.allowed = ("403",)
    await visit.go("/documents")
    await expect(visit.page.locator(".rail a")).to_have_count(16)
    await visit.page.route("**/v1/me", lambda route: route.fulfill(json={"scopes": ["read"]}))
    refusal = {"status": 403, "detail": "This needs a key with another scope."}
    await visit.page.route("**/queries*", lambda route: route.fulfill(status=403, json=refusal))
    await visit.page.get_by_role("link", name="Questions").click()
    shown = ["Documents", "Collections", "Sources", "Work", "Jobs", "API"]
    await expect(visit.page.locator(".rail a")).to_have_text(shown)


async def test_small_display_has_menu_of_all_screens(visit):
    for width in (320, 390):
        await _has_menu_of_all_screens(visit, width)


async def _has_menu_of_all_screens(visit, width):
    page = visit.page
    await page.set_viewport_size({"width": width, "height": 780})
    await visit.go("/ask")
    shown, menu = page.locator(".rail a:visible"), page.get_by_role("button", name="Menu")
    await expect(shown).to_have_text(["Ask", "Documents", "Work"])
    boxes = [await each.bounding_box() for each in await page.locator(".rail :is(a, button):visible").all()]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= width and box["height"] >= 44 for box in boxes)

    await menu.click()
    await expect(shown).to_have_count(16)
    await page.keyboard.press("Escape")
    await expect(shown).to_have_count(3)

    await menu.click()
    await page.get_by_role("link", name="Jobs").click()
    await expect(page).to_have_title(re.compile("Jobs"))
    await expect(shown).to_have_count(3)
    await expect(menu).to_have_attribute("data-current", "true")


async def test_navigation_names_its_groups(visit):
    await visit.go("/work")
    groups = visit.page.locator(".rail [role=group]")
    names = [await each.get_attribute("aria-label") for each in await groups.all()]
    assert names == ["Library", "Insights", "Lab", "Operations"]
    await expect(visit.page.get_by_role("group", name="Operations").locator("[aria-current=page]")).to_have_text("Work")


async def test_palette_opens_screen_and_document(visit):
    page = visit.page
    await visit.go("/work")
    field = page.get_by_role("combobox", name="Screen or document")
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await require_accessible(page, "the palette")
    await page.keyboard.type("exp")
    await expect(page.locator("#palette").get_by_role("option")).to_have_text(["Explain"])
    await page.keyboard.press("Enter")
    await expect(page).to_have_title(re.compile("Explain"))
    await expect(field).to_have_count(0)

    await page.keyboard.press("Control+k")
    await field.fill("travel")
    await page.get_by_role("option", name="Travel").click()
    await expect(page).to_have_url(re.compile("/documents/"))
    await page.keyboard.press("Control+k")
    await expect(field).to_be_focused()
    await page.keyboard.press("Escape")
    await expect(field).to_have_count(0)


async def test_low_window_shows_all_screens_and_languages(visit):
    await visit.page.set_viewport_size({"width": 1024, "height": 768})
    await visit.go("/work")
    await expect(visit.page.locator(".rail a")).to_have_count(16)
    assert await visit.page.locator(".rail").evaluate("(rail) => rail.scrollHeight <= rail.clientHeight")
    box = await visit.page.locator(".rail .language").bounding_box()
    assert box["y"] + box["height"] <= 768


@pytest.mark.parametrize("width", [390, 1024])
async def test_explained_rows_fit_the_window(visit, width):
    page = visit.page
    await page.set_viewport_size({"width": width, "height": 800})
    await visit.go("/lab/explain#q=How%20many%20days%20of%20leave%20does%20everybody%20have")
    row = page.locator(".explained tbody tr").first
    await expect(row).to_contain_text("Leave")
    for part in (
        row.locator(".passage-cell a"),
        row.get_by_role("button", name="Add question"),
        row.locator(".bar.bm25"),
    ):
        box = await part.bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    await require_accessible(page, f"explained, {width} pixels")


async def test_opened_screen_takes_focus(visit):
    page = visit.page
    await visit.go("/documents")
    await page.get_by_role("link", name="Work").click()
    await expect(page).to_have_title(re.compile("Work"))
    await expect(page.locator("#main")).to_be_focused()
    await page.keyboard.press("g")
    await page.keyboard.press("j")
    await expect(page).to_have_title(re.compile("Jobs"))
    await expect(page.locator("#main")).to_be_focused()
    await page.locator(".rail a").first.focus()
    await page.go_back()
    await expect(page).to_have_title(re.compile("Work"))
    await expect(page.locator("#main")).to_be_focused()


async def test_key_dialog_returns_focus_to_field(visit):
    visit.allowed = ("401",)
    page = visit.page

    async def guarded(route):
        if route.request.headers.get("authorization") == "Bearer right":
            await route.continue_()
        else:
            await route.fulfill(status=401, json={"status": 401, "detail": "no"})

    await visit.go("/ask")
    await expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()  # no request is in flight
    await page.route("**/v1/**", guarded)
    await page.fill("#question", "How many days of leave does everybody have?")
    await page.keyboard.press("Enter")
    await page.get_by_role("textbox", name="Key").fill("right")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("dialog")).to_have_count(0)
    await expect(page.locator("#question")).to_be_focused()


async def test_restored_page_is_loaded_again(visit, deployment):
    deployment.ingest({"before": "This was there before."}, collection="restored")
    deployment.wait_until_settled(1, collection="restored")
    page = visit.page
    await visit.go("/documents?collection=restored")
    await expect(page.locator(".row")).to_have_count(1)
    await page.goto("about:blank")
    await page.go_back()
    await expect(page.locator(".row")).to_have_count(1)
    async with page.expect_event("load"):  # a page in the cache is frozen: its key may have been removed since
        await page.evaluate("dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }))")
    deployment.ingest({"after": "This came after the return."}, collection="restored")
    await expect(page.locator(".row .state.ready")).to_have_count(2)


@pytest.fixture
def receiver():
    """The address of a webhook, and the list of events that it received."""
    received = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(json.loads(self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/events", received
    server.shutdown()
    thread.join()
    server.server_close()


async def test_webhook_is_created_and_messages_resent(visit, deployment, receiver):
    address, received = receiver
    page = visit.page
    await visit.go("/api")
    await page.get_by_text("Add a webhook").click()
    await page.get_by_label("URL", exact=True).fill(address)
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.locator(".webhook .warning code")).to_contain_text("whsec_")
    deployment.ingest({"webhook.md": "A document for the webhook."})

    async def received_document():
        return any(each["type"] == "document.ready" for each in received)

    async def received_again():
        return len(received) > before

    await until(received_document)
    await page.get_by_text("Recent deliveries").click()
    await expect(page.locator(".webhook tbody tr", has_text="document.ready")).to_contain_text("delivered")
    await require_accessible(page)
    before = len(received)
    await page.get_by_role("button", name="Send again").first.click()
    await until(received_again)
    await page.get_by_role("button", name=f"Delete the webhook {address}").click()
    await require_accessible(page, "a question")
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.locator(".webhook")).to_have_count(0)
