"""A collection of 100,000 documents in the page: first rows, search, keyboard navigation, arriving rows."""

import asyncio
import re

import pytest
from playwright.async_api import expect

from bench.page import fill
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from tests.page.conftest import TIMEOUT

DOCUMENTS = 100_000
ROW = 5_000
COMING = 640
MOST_ROWS = 80


@pytest.fixture(scope="module")
async def large(deployment):
    """The name of a collection with 100,000 documents."""
    await fill(deployment, "large", DOCUMENTS)
    yield "large"
    database = Database(deployment.stack.settings.database_url.get_secret_value(), timeout=None)
    async with database.transaction() as connection:
        await connection.execute(Statement("DELETE FROM documents WHERE external_id LIKE 'paper-%'"))
    await database.aclose()


async def test_document_among_many_is_found_and_scrolled_to(visit, large):
    page = visit.page
    await visit.go(f"/documents?collection={large}")
    await expect(page.locator(".row").first).to_contain_text("paper-000001")
    await expect(page.locator(".counts")).to_contain_text("99,900 ready")
    await page.fill("#search", "paper-077777")
    await expect(page.locator(".row")).to_have_count(1)
    await expect(page.locator(".row")).to_contain_text("paper-077777")
    await page.fill("#search", "")
    await expect(page.locator(".row").first).to_contain_text("paper-000001")

    await page.locator(".window").focus()
    wanted = page.locator(f'.row[aria-posinset="{ROW}"]')
    for _ in range(ROW):
        await page.keyboard.press("End")
        await page.wait_for_timeout(20)
        assert await page.locator(".row").count() <= MOST_ROWS
        if int(await page.locator(".row").last.get_attribute("aria-posinset")) >= ROW:
            break
    await page.locator(".window").evaluate("(window, row) => window.scrollTo(0, (row - 5) * 48)", ROW)
    await expect(wanted).to_contain_text(f"paper-{ROW:06}")
    await wanted.locator("a").focus()
    await page.keyboard.press("Tab")
    await expect(wanted.get_by_role("button", name="Actions for")).to_be_focused()


async def test_arriving_documents_move_neither_view_nor_focus(visit, deployment, large):
    page = visit.page
    await visit.go(f"/documents?collection={large}")
    await expect(page.locator(".counts")).to_contain_text("99,900 ready")
    link = page.locator(".row a", has_text="paper-000003")
    await link.focus()
    position = await link.bounding_box()
    deployment.ingest({f"new-{n}": f"Number {n} is new." for n in range(COMING)}, collection=large)
    await expect(page.locator(".counts")).to_contain_text(f"{99_900 + COMING:,} ready")
    await expect(link).to_be_focused()
    assert (await link.bounding_box())["y"] == position["y"]
    assert await page.locator(".row").count() <= MOST_ROWS
    await page.locator(".window").press("Home")
    await expect(page.locator(".row").first).to_contain_text("new-")


async def test_late_rows_show_missed_events(visit, deployment, large):
    page = visit.page
    later = re.compile(r".*/v1/documents\?.*cursor=.*")
    read, free = asyncio.Event(), asyncio.Event()
    rows = []

    async def hold(route):
        reply = await route.fetch()
        rows.extend((await reply.json())["items"])
        read.set()
        await free.wait()
        await route.fulfill(response=reply)

    await visit.go(f"/documents?collection={large}")
    await expect(page.locator(".row").first).to_be_visible()
    await page.route(later, hold, times=1)
    await page.locator(".window").evaluate("window => window.scrollTo(0, 95 * 48)")
    await asyncio.wait_for(read.wait(), TIMEOUT / 1000)
    deployment.client.patch(f"/v1/documents/{rows[3]['id']}", json={"title": "Renamed meanwhile"}).raise_for_status()
    await page.wait_for_timeout(3000)  # the event must arrive before the rows; later it would change the drawn row
    free.set()
    await expect(page.locator(".row", has_text="Renamed meanwhile")).to_be_visible()
