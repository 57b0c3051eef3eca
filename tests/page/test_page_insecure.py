"""The page without HTTPS, on another computer: the browser offers no clipboard, digests or locks."""

import pytest
from playwright.async_api import expect

from tests.page.conftest import INSECURE, OURS, visiting
from tests.page.test_page_keys import QUESTION, asked, with_key


@pytest.fixture
async def insecure(browser, keyed):
    """A tab at an address that the browser does not trust."""
    base = f"http://{INSECURE}:{keyed.base_url.port}"
    async with visiting(browser, base, viewport={"width": 1440, "height": 900}) as visit:
        visit.allowed = ("401", "403", "Cross-Origin-Opener-Policy")  # ignored at such an address
        await with_key(visit, "/ask", OURS)
        assert await visit.page.evaluate("[isSecureContext, typeof navigator.clipboard]") == [False, "undefined"]
        yield visit


async def pasted(page):
    """Return the text of the clipboard."""
    await page.locator("#question").fill("")
    await page.keyboard.press("ControlOrMeta+v")
    return await page.locator("#question").input_value()


async def test_answers_and_links_are_copied_without_https(insecure):
    page = insecure.page
    await asked(page)
    await page.get_by_role("button", name="Copy", exact=True).first.click()
    await expect(page.locator(".notice")).to_contain_text("Answer copied as Markdown.")
    assert (await pasted(page)).startswith(f"## {QUESTION}\n")
    await page.get_by_role("button", name="Share").click()
    await expect(page.locator(".notice")).to_contain_text("Link copied.")
    assert (await pasted(page)).startswith(f"{insecure.base}/answers/")
    await page.get_by_text("Show raw request").click()
    await page.locator(".request").get_by_role("button", name="Copy").click()
    await expect(page.locator(".notice")).to_contain_text("Request copied.")
    assert (await pasted(page)).startswith("curl ")


async def test_new_key_is_copied_without_https(insecure):
    page = insecure.page
    await page.get_by_role("link", name="Keys").click()
    await page.get_by_role("button", name="Create a key").click()
    await page.get_by_label("Name", exact=True).fill("plain")
    await page.get_by_role("button", name="Create", exact=True).click()
    made = page.locator("#made")
    secret = await made.locator("code").inner_text()
    await made.get_by_role("button", name="Copy").click()
    await expect(page.locator(".notice")).to_contain_text("Key copied.")
    await page.get_by_role("link", name="Ask").click()
    assert await pasted(page) == secret


async def test_documents_update_live_without_locks(insecure, keyed):
    def upload(name):
        body = {"collection": "insecure", "external_id": name, "filename": name, "text": f"The text of {name}."}
        keyed.post("/v1/documents", json=body).raise_for_status()

    page = insecure.page
    upload("before.md")
    await insecure.go("/documents?collection=insecure")
    await expect(page.locator(".row .state.ready")).to_have_count(1)
    assert await page.evaluate("typeof navigator.locks") == "undefined"
    upload("after.md")
    await expect(page.locator(".row .state.ready")).to_have_count(2)
