"""The page in a browser whose settings block its stores: access to them throws, and locks are denied."""

import pytest
from playwright.async_api import expect

from tests.page.conftest import OURS, visiting
from tests.page.test_page_keys import asked, enter
from tests.support.planted import guards

BLOCKED = """{
    const denied = () => new DOMException("Access is denied.", "SecurityError");
    for (const name of ["localStorage", "sessionStorage"]) {
        Object.defineProperty(window, name, { get() { throw denied(); } });
    }
    navigator.locks.request = () => Promise.reject(denied());
}"""


@pytest.fixture
async def blocked(browser, keyed):
    """A tab of a browser that blocks stores."""
    options = {"viewport": {"width": 1440, "height": 900}}
    async with visiting(browser, str(keyed.base_url).rstrip("/"), **options) as visit:
        visit.allowed = ("401", "403")
        await visit.page.add_init_script(BLOCKED)
        yield visit


@guards(
    "api/web/store.js",
    "export const isStoring = hasStores();",
    "export const isStoring = true;",
    means="the page needs the stores of the browser",
)
async def test_key_and_conversation_last_until_page_closes(blocked):
    page = blocked.page
    await blocked.go("/ask")
    await enter(page, OURS)
    await asked(page)
    await expect(page.locator(".conversations li")).to_have_count(1)
    await expect(page.locator(".conversations")).to_contain_text("closed: the browser cannot store them.")
    await page.get_by_role("link", name="Documents").click()
    await expect(page.locator(".row").first).to_be_visible()
    await expect(page.get_by_role("textbox", name="Key")).to_have_count(0)


@guards(
    "api/web/events.js",
    "if (!navigator.locks || !isStoring)",
    "if (!navigator.locks)",
    means="the list of documents waits for a lock that the browser denies",
)
async def test_documents_update_live_without_stores(blocked, keyed):
    def upload(name):
        body = {"collection": "blocked", "external_id": name, "filename": name, "text": f"The text of {name}."}
        keyed.post("/v1/documents", json=body).raise_for_status()

    upload("before.md")
    await blocked.go("/documents?collection=blocked")
    await enter(blocked.page, OURS)
    await expect(blocked.page.locator(".row .state.ready")).to_have_count(1)
    upload("after.md")
    await expect(blocked.page.locator(".row .state.ready")).to_have_count(2)
