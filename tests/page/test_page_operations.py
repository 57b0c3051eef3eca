"""Keys, budgets and the audit log in the page: created, limited, revoked, and hidden from other keys."""

import time

import httpx
from playwright.async_api import expect

from tests.page.conftest import OURS, TIMEOUT, until, visiting
from tests.page.screens import require_accessible
from tests.page.test_page_keys import scoped, with_key


async def test_page_creates_limits_and_revokes_key(browser, keyed):
    base = str(keyed.base_url).rstrip("/")
    async with visiting(browser, base, permissions=["clipboard-read", "clipboard-write"]) as visit:
        visit.allowed = ("401", "403")
        page = visit.page
        await with_key(visit, "/keys", OURS)
        await expect(page.get_by_text("From the settings")).to_be_visible()
        await page.get_by_role("button", name="Create a key").click()
        await expect(page.get_by_label("Name", exact=True)).to_be_focused()
        await page.get_by_role("button", name="Create", exact=True).click()  # the browser requires a name
        await expect(page.get_by_label("Name", exact=True)).to_have_attribute("aria-invalid", "true")
        await require_accessible(visit.page, "a form with an error")
        await page.get_by_label("Name", exact=True).fill("reporter")
        await page.get_by_label("Read documents").check()
        await page.get_by_role("button", name="Create", exact=True).click()
        made = page.locator("#made")
        await expect(made).to_be_focused()
        await require_accessible(visit.page, "a new key")
        secret = await made.locator("code").inner_text()
        await made.get_by_role("button", name="Copy").click()
        assert await page.evaluate("navigator.clipboard.readText()") == secret

        with httpx.Client(base_url=base, headers={"authorization": f"Bearer {secret}"}, trust_env=False) as reporter:
            assert [reporter.get("/v1/status").status_code for _ in range(3)] == [200] * 3
            card = page.get_by_role("listitem", name="reporter")
            await card.get_by_role("button", name="Actions of reporter").click()
            await require_accessible(visit.page, "an open menu", only_colours=True)
            await page.keyboard.press("Enter")
            await require_accessible(visit.page, "limits of a key")
            await card.get_by_label("Requests per second").fill("0.5")
            await card.get_by_role("button", name="Save").click()
            await expect(card).to_contain_text("0.5 requests per second")
            deadline = time.monotonic() + TIMEOUT / 1000
            while reporter.get("/v1/status").status_code != 429:
                assert time.monotonic() < deadline

            await card.get_by_role("button", name="Actions of reporter").click()
            await page.get_by_role("menuitem", name="Revoke").click()
            await page.get_by_role("dialog").get_by_role("button", name="Revoke").click()
            await expect(card).to_contain_text("revoked")
            await expect(card.get_by_role("button", name="Actions of reporter")).to_have_count(0)
            await until(lambda: _is_refused(reporter))
        await expect(made).to_have_count(0)
        await page.get_by_role("link", name="Audit").click()
        rows = page.locator("tbody tr").filter(has_text="reporter")
        await expect(rows).to_have_count(3)
        await require_accessible(visit.page, "recorded changes")
        await expect(rows.get_by_role("rowheader")).to_have_text(
            ["revoke key reporter", "change key reporter", "create key reporter"]
        )
        await expect(rows.nth(1)).to_contain_text("requests per second: 0.5")
        await _filters_by_name(page, rows)
        assert secret not in await page.content()


async def _filters_by_name(page, rows):
    for name, found in (("nobody", 0), ("reporter", 3)):
        await page.get_by_label("Name of the object").fill(name)
        await page.keyboard.press("Enter")
        await expect(rows).to_have_count(found)
        await expect(page.get_by_text("No changes match.")).to_have_count(0 if found else 1)


async def _is_refused(client):
    return client.get("/v1/status").status_code == 401


async def test_page_sets_changes_and_deletes_budget(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403")
        page = visit.page
        await with_key(visit, "/limits", OURS)
        await expect(page.get_by_role("heading", name="No budgets")).to_be_visible()
        await page.get_by_role("button", name="Set a budget").click()
        await page.get_by_label("Collection").fill("papers")
        await page.get_by_label("Unit").select_option("tokens")
        await page.get_by_label("Limit", exact=True).fill("5000")
        await page.get_by_role("button", name="Set budget", exact=True).click()
        await expect(page.get_by_role("row", name="papers, tokens a month")).to_contain_text("5,000")
        actions = page.get_by_role("button", name="Actions of papers, tokens a month")
        await actions.click()
        await page.get_by_role("menuitem", name="Change").click()
        limit = page.get_by_label("Limit of papers, tokens a month", exact=True)
        await expect(limit).to_have_value("5000")
        await require_accessible(visit.page, "budgets")
        await limit.fill("7000")
        await page.keyboard.press("Enter")
        await expect(page.locator(".notice")).to_contain_text("The budget was changed.")
        assert [each["limit"] for each in keyed.get("/v1/budgets").json()["items"]] == [7000]
        await actions.click()
        await page.get_by_role("menuitem", name="Delete").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
        await expect(page.get_by_role("heading", name="No budgets")).to_be_visible()


async def test_key_without_permission_sees_no_operations(browser, keyed):
    reader = scoped(keyed, "only-reads", "read", "ask", "write")
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403")
        await with_key(visit, "/work", reader["key"])
        await expect(visit.page.locator(".rail a", has_text="Work")).to_be_visible()
        await expect(visit.page.locator(".rail a", has_text="Keys")).to_have_count(0)
        for path in ("/keys", "/audit"):
            await visit.go(path)  # the address is typed: the API decides, not the page
            await expect(visit.page.locator("[role=alert]").first).to_contain_text("scope")
            await expect(visit.page.get_by_text("Create a key")).to_have_count(0)
