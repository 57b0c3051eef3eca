"""Keys in the page, with an API that requires them: each key's permissions, and no key in addresses or logs."""

import hashlib
import sys
import time

import httpx
import pytest
from playwright.async_api import expect

from embedded.ports import free_port
from tests.page.conftest import TIMEOUT, visiting
from tests.page.test_page import SCREENS

OURS, THEIRS = "key-of-ours-0123456789", "key-of-theirs-0123456789"


@pytest.fixture(scope="module")
def keyed(deployment):
    """A client of a second API of the same ledger, with a key of the documents' tenant and a key of another tenant."""
    port = free_port()
    keys = {"default": OURS, "theirs": THEIRS}
    setting = ",".join(f"{tenant}:sha256:{hashlib.sha256(key.encode()).hexdigest()}" for tenant, key in keys.items())
    process = deployment.run("keyed", [sys.executable, "-m", "api"], api_port=port, api_keys=setting)
    headers = {"authorization": f"Bearer {OURS}"}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=TIMEOUT / 1000
    ) as client:
        while not answers(client):
            assert process.poll() is None, deployment.logs()
            time.sleep(0.1)
        yield client
    process.terminate()
    process.wait()
    del deployment.processes["keyed"]


def answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").status_code == 200
    except httpx.HTTPError:
        return False


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
        await enter(visit.page, "a-wrong-key-0123456789")
        await expect(visit.page.get_by_text("no longer accepts this key")).to_be_visible()
        await enter(visit.page, OURS)
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
        await enter(visit.page, second["key"])
        await expect(visit.page.locator(".facts")).to_be_visible()
        await expect(visit.page.locator("#question")).to_have_value("How many days of leave does everybody have?")


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
        visit.allowed = ("401", "403")
        await visit.go("/ask")
        await enter(visit.page, key)
        await expect(visit.page.locator(".rail a")).to_have_text(["Ask", "Explain", "API"])
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
