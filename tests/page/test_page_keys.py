"""Keys in the page, with an API that requires them: each key's permissions, and no key in addresses or logs."""

import httpx
from playwright.async_api import expect

from tests.page.conftest import FIRST, OURS, SAMPLED, THEIRS, visiting
from tests.page.screens import SCREENS, require_accessible

QUESTION = "How many days of leave does everybody have?"


def scoped(client: httpx.Client, name: str, *scopes: str) -> dict[str, str]:
    return client.post("/v1/keys", json={"name": name, "scopes": scopes}).raise_for_status().json()


async def enter(page, key: str) -> None:
    await page.get_by_role("textbox", name="Key").fill(key)
    await page.get_by_role("button", name="Continue").click()


async def test_key_appears_in_no_address_source_or_log(browser, keyed, deployment):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401",)
        addresses = []
        visit.page.on("request", lambda each: addresses.append(each.url))
        await visit.go("/ask")
        await expect(visit.page.get_by_role("dialog")).to_contain_text("requires an API key")
        await enter(visit.page, "a-wrong-key-0123456789")
        await expect(visit.page.get_by_text("This key is not valid")).to_be_visible()
        await enter(visit.page, OURS)
        await expect(visit.page.get_by_role("dialog")).to_have_count(0)
        assert await visit.page.evaluate("localStorage.getItem('foreask.key')") is None
        for path in SCREENS:
            await visit.go(path)
            await expect(visit.page.locator("nav a[aria-current=page]")).to_have_count(1)
            assert OURS not in await visit.page.content()
        assert len(addresses) > len(SCREENS)
        assert not any(OURS in each for each in addresses)
        assert OURS not in (deployment.data_dir / "logs" / "keyed.log").read_text()


async def test_key_revoked_during_work_loses_no_typed_text(browser, keyed):
    first, second = (scoped(keyed, name, "ask", "read") for name in ("first", "second"))
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403")
        await visit.go("/ask")
        await enter(visit.page, first["key"])
        await expect(visit.page.get_by_role("heading", name="Try one of these")).to_be_visible()
        await visit.page.fill("#question", "How many days of leave")
        keyed.delete(f"/v1/keys/{first['id']}").raise_for_status()
        await visit.page.locator("#question").press_sequentially(" does everybody have?")
        await visit.page.keyboard.press("Enter")
        await expect(visit.page.get_by_text("This key was revoked")).to_be_visible()
        await enter(visit.page, second["key"])
        await expect(visit.page.locator(".facts")).to_be_visible()
        await expect(visit.page.locator(".question-title")).to_have_text(QUESTION)
        await expect(visit.page.locator("#question")).to_have_value("")


async def test_key_dialog_waits_for_typing_user(browser, keyed):
    first, second = (scoped(keyed, name, "read") for name in ("typing", "typed"))
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403")
        await visit.go("/documents")
        await enter(visit.page, first["key"])
        await expect(visit.page.locator(".row").first).to_be_visible()
        keyed.delete(f"/v1/keys/{first['id']}").raise_for_status()
        await visit.page.locator("#search").press_sequentially("travel", delay=400)  # each letter starts a search
        await expect(visit.page.locator("#search")).to_have_value("travel")
        await enter(visit.page, second["key"])
        await expect(visit.page.locator(".row")).to_have_count(1)


async def test_query_only_key_is_refused_management(browser, keyed):
    key = scoped(keyed, "website", "ask")["key"]
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401",)
        await visit.go("/ask")
        await enter(visit.page, key)
        await expect(visit.page.locator(".rail a")).to_have_text(["Ask", "Explain", "API"])
        await expect(visit.page.locator(".account")).to_contain_text("default")
        await expect(visit.page.locator(".account")).to_contain_text("website")
        await asked(visit.page)
        await visit.page.locator(".written .cited").first.click()
        await expect(visit.page.locator(".detail .marked")).to_contain_text("thirty days of leave")
        await expect(visit.page.locator(".detail a")).to_have_count(0)  # the reader needs another scope
        assert await visit.page.locator("[role=alert]").count() == 0
        visit.allowed = ("401", "403")
        for path in ("/documents", "/work", "/questions"):
            await visit.go(path)  # the address is typed: the API decides, not the page
            await expect(visit.page.locator("[role=alert]").first).to_contain_text("scope")
        await visit.go("/documents")
        await expect(visit.page.get_by_text("Upload", exact=True)).to_have_count(0)


async def test_another_tenants_document_is_not_found(browser, keyed, deployment):
    document = deployment.documents()[0]
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "404")
        await visit.go(f"/documents/{document['id']}")
        await enter(visit.page, THEIRS)
        await expect(visit.page.locator("[role=alert]").first).to_contain_text("document")
        assert document["external_id"] not in await visit.page.locator("main").inner_text()
        assert (await visit.page.request.get(f"{visit.base}/v1/documents/{document['id']}")).status == 401


async def asked(page, question=QUESTION):
    await page.fill("#question", question)
    await page.keyboard.press("Enter")
    await expect(page.locator(".facts")).to_be_visible()


async def with_key(visit, path, key):
    await visit.go("/health/live")  # an address with the page's stores, which needs no key and loads no module
    await visit.page.evaluate("(key) => sessionStorage.setItem('foreask.key', key)", key)
    await visit.go(path)


async def test_another_key_sees_no_conversations(browser, keyed):
    first, second = (scoped(keyed, name, "ask", "read") for name in ("talks", "listens"))
    async with visiting(browser, str(keyed.base_url).rstrip("/"), viewport={"width": 1440, "height": 900}) as visit:
        visit.allowed = ("401", "403")
        page, rows = visit.page, visit.page.locator(".conversations li")
        await with_key(visit, "/ask", first["key"])
        await asked(page)
        await expect(rows).to_have_count(1)
        address = page.url
        stored = await page.evaluate("JSON.stringify(localStorage)")
        assert QUESTION in stored
        assert first["key"] not in stored

        await with_key(visit, "/ask", second["key"])
        await expect(page.locator("#question")).to_be_visible()
        await expect(rows).to_have_count(0)
        await visit.go(address.removeprefix(visit.base))
        await expect(page.locator(".notice")).to_contain_text("no such conversation for your key")
        await expect(page.locator(".question-title")).to_have_count(0)

        await with_key(visit, "/ask", first["key"])
        await expect(rows).to_have_count(1)


async def test_key_revoked_in_a_conversation_starts_another(browser, keyed):
    first, second = (scoped(keyed, name, "ask", "read") for name in ("ended", "follows"))
    async with visiting(browser, str(keyed.base_url).rstrip("/"), viewport={"width": 1440, "height": 900}) as visit:
        visit.allowed = ("401", "403")
        page = visit.page
        await with_key(visit, "/ask", first["key"])
        await asked(page)
        keyed.delete(f"/v1/keys/{first['id']}").raise_for_status()
        await page.fill("#question", "And in the first year?")
        await page.keyboard.press("Enter")
        await enter(page, second["key"])
        await expect(page.locator(".answer").last.locator(".facts")).to_be_visible()
        await asked_alone(page)
        await page.reload()
        await expect(page.locator(".question-title")).to_have_text(["Who decides?"])


async def asked_alone(page):
    """Ask in a conversation of another key, which starts a new one."""
    await page.fill("#question", "Who decides?")
    await page.keyboard.press("Enter")
    await expect(page.locator(".question-title")).to_have_text(["Who decides?"])
    await expect(page.locator(".facts")).to_be_visible()


SHARING = {"viewport": {"width": 1440, "height": 900}, "permissions": ["clipboard-read", "clipboard-write"]}


async def shared(visit):
    """Share an answer, and return the path of the copied link."""
    visit.allowed = ("401", "403")
    await with_key(visit, "/ask", OURS)
    await asked(visit.page)
    await visit.page.get_by_role("button", name="Share").click()
    await expect(visit.page.locator(".notice")).to_contain_text("Link copied.")
    link = await visit.page.evaluate("navigator.clipboard.readText()")
    assert link.startswith(f"{visit.base}/answers/")
    return link.removeprefix(visit.base)


async def test_shared_link_opens_with_access_only(browser, keyed):
    colleague = scoped(keyed, "colleague", "ask", "read")
    filtered = keyed.post("/v1/keys", json={"name": "public", "scopes": ["ask"], "filter": {"public": True}}).json()
    base = str(keyed.base_url).rstrip("/")
    async with visiting(browser, base, **SHARING) as visit:
        path = await shared(visit)

    async with visiting(browser, base, **SHARING) as visit:
        visit.allowed = ("401", "403")
        page = visit.page
        await visit.go(path)
        await enter(page, colleague["key"])
        await expect(page.locator(".question-title")).to_have_text(QUESTION)
        await expect(page.get_by_text("expires on")).to_contain_text("Shared")
        await page.locator(".written .cited").first.click()
        await expect(page.locator(".detail .marked")).to_contain_text("leave")
        await page.keyboard.press("Escape")
        await expect(page.locator(".written .cited").first).to_be_focused()
        assert await page.get_by_role("button", name="More actions").count() == 0

    for key in (THEIRS, filtered["key"]):
        async with visiting(browser, base) as visit:
            visit.allowed = ("401", "403", "404")
            await with_key(visit, path, key)
            await expect(visit.page.get_by_role("alert")).to_contain_text("There is no shared answer")
            await expect(visit.page.get_by_role("alert")).to_contain_text("ask the question again")
            await expect(visit.page.locator(".question-title")).to_have_count(0)


async def test_undone_sharing_ends_the_link(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/"), **SHARING) as visit:
        path = await shared(visit)
        await visit.page.get_by_role("button", name="Undo").click()
        await expect(visit.page.locator(".notice")).to_contain_text("The link no longer works.")
        assert keyed.get(f"/v1{path}").status_code == 404


DROPPED = """() => {
    const dropped = new DataTransfer();
    dropped.items.add(new File(["Parcels for the office in Kiel arrive at noon."], "parcels.txt"));
    return dropped;
}"""


async def test_first_visit_uploads_dropped_file_and_asks(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "404")
        page = visit.page
        await with_key(visit, "/ask", FIRST)
        await expect(page.locator("[aria-current=step]")).to_contain_text("Add documents")
        await expect(page.locator(".steps")).to_contain_text("collection \u201cdefault\u201d")
        await require_accessible(page, "the first visit")
        await page.locator(".drop-zone").dispatch_event("drop", {"dataTransfer": await page.evaluate_handle(DROPPED)})
        await expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()
        await asked(page, "When do parcels for the office in Kiel arrive?")
        await expect(page.locator(".sources li").first).to_be_visible()


async def test_first_visit_offers_upload_and_sample(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401",)
        page = visit.page
        await with_key(visit, "/ask", SAMPLED)
        await expect(page.get_by_role("heading", name="No documents")).to_be_visible()
        await expect(page.get_by_text("Choose files")).to_be_visible()
        await expect(page.locator(".chip")).to_have_count(0)  # no collection exists
        await page.get_by_role("button", name="Try the sample").click()
        await expect(page.get_by_role("heading", name="Try one of these")).to_be_visible()
        await page.locator(".examples button").first.click()
        await expect(page.locator(".facts")).to_be_visible()
        await expect(page.locator(".sources li").first).to_be_visible()


async def test_key_without_write_scope_is_offered_no_sample(browser, keyed):
    made = keyed.post(
        "/v1/keys", json={"name": "asks", "scopes": ["ask", "read"]}, headers={"authorization": f"Bearer {THEIRS}"}
    )
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403")
        await with_key(visit, "/ask", made.json()["key"])
        await expect(visit.page.get_by_text("Ask the operator to add documents")).to_be_visible()
        await expect(visit.page.get_by_role("button", name="Try the sample")).to_have_count(0)
