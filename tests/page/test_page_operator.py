"""An operator's key in the page: the state of the installation, tenants with their use, and budgets."""

import re

from playwright.async_api import expect

from tests.page.conftest import OPERATOR, visiting
from tests.page.screens import require_accessible
from tests.page.test_page_keys import with_key

HEADERS = {"authorization": f"Bearer {OPERATOR}"}
BUDGETS = "/v1/operator/tenants/default/budgets"


async def test_operator_starts_with_tenants_and_their_use(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403")
        page = visit.page
        await with_key(visit, "/audit", OPERATOR)
        await page.goto(f"{visit.base}/")
        await expect(page).to_have_url(re.compile("/tenants$"))
        await expect(page.locator(".rail a")).to_have_text(["Tenants", "Audit", "API"])
        await expect(page.locator(".account")).to_contain_text("Operator")
        await expect(page.locator(".trouble")).to_have_count(0)
        state = page.get_by_role("region", name="State of the server")
        await expect(state).to_contain_text("All components answer.")
        await expect(state).to_contain_text(re.compile(r"Version \d"))
        row = page.get_by_role("button", name="default")
        await row.click()
        limits = page.get_by_role("table", name="Limits of default")
        await expect(limits.get_by_role("row", name=re.compile("Documents"))).to_contain_text("unlimited")
        await expect(page.get_by_role("table", name="Collections of default")).to_contain_text("scripted-embedding")
        for width in (1024, 390):
            await page.set_viewport_size({"width": width, "height": 800})
            await require_accessible(page, f"a tenant, {width} pixels")
        await row.click()
        await expect(limits).to_have_count(0)


async def test_operator_sets_and_deletes_budget_of_tenant(browser, keyed):
    async with visiting(browser, str(keyed.base_url).rstrip("/")) as visit:
        visit.allowed = ("401", "403", "409")
        page = visit.page
        await with_key(visit, "/tenants", OPERATOR)
        await page.get_by_role("button", name="default").click()
        await page.get_by_text("Set a budget").click()
        await page.get_by_label("Limit", exact=True).fill("1")
        await page.get_by_label("Unit").select_option("tokens")
        await page.get_by_role("button", name="Set budget", exact=True).click()
        await expect(page.get_by_label("Limit", exact=True)).to_have_attribute("aria-invalid", "true")
        await require_accessible(page, "a refused budget")
        await page.get_by_label("Limit", exact=True).fill("900000000")
        await page.get_by_role("button", name="Set budget", exact=True).click()
        budget = page.get_by_role("table", name="Budgets").get_by_role("row", name=re.compile("everything, tokens"))
        await expect(budget).to_contain_text("900,000,000")
        assert [each["set_by"] for each in keyed.get(BUDGETS, headers=HEADERS).json()["items"]] == ["operator"]
        await budget.get_by_role("button", name="Delete the budget of everything").click()
        await page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
        await expect(budget).to_have_count(0)
        await page.get_by_role("link", name="Audit").click()
        changes = page.get_by_role("table", name="Changes")
        await expect(changes.get_by_role("rowheader").first).to_contain_text("delete budget everything, month, tokens")
        await expect(changes.get_by_role("row").nth(1)).to_contain_text("(operator)")
