"""Many tabs of one browser: they share one stream of events, and miss none when the tab that reads it is closed."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from playwright.async_api import BrowserContext, Page, expect

from tests.page.conftest import SharedBrowser, until
from tests.page.test_page import _hide
from tests.support.deployment import Deployment

TABS = 8


class Streams:
    """The open event streams of the tabs of a browser."""

    def __init__(self, context: BrowserContext) -> None:
        self.open: list[Page] = []
        context.on("request", lambda each: each.url.endswith("/v1/events") and self.open.append(each.frame.page))
        context.on("requestfailed", lambda each: each.url.endswith("/v1/events") and self._ended(each.frame.page))

    def _ended(self, page: Page) -> None:
        if page in self.open:
            self.open.remove(page)

    async def are(self, count: int) -> list[Page]:
        """Wait until this number of tabs has a stream."""

        async def so_many() -> bool:
            self.open = [each for each in self.open if not each.is_closed()]
            return len(self.open) == count

        await until(so_many)
        return self.open

    async def of_one_tab(self) -> Page:
        return (await self.are(1))[0]


@pytest.fixture
def tabs(browser: SharedBrowser, deployment: Deployment):
    """Open tabs that list the documents of one collection."""

    @asynccontextmanager
    async def opened(count: int, collection: str) -> AsyncIterator[tuple[list[Page], Streams]]:
        base = f"http://127.0.0.1:{deployment.port}"
        async with browser.context(base) as context:
            streams = Streams(context)
            pages = [await context.new_page() for _ in range(count)]
            for page in pages:
                await page.goto(f"{base}/documents?collection={collection}")
            for page in pages:
                await expect(page.locator(".row")).to_have_count(1)
            yield pages, streams

    return opened


async def test_eight_tabs_share_one_stream_and_survive_closing(tabs, deployment):
    deployment.ingest({"before": "This was there before."}, collection="tabs")
    deployment.wait_until_settled(1, collection="tabs")
    async with tabs(TABS, "tabs") as (pages, streams):
        leader = await streams.of_one_tab()
        deployment.ingest({"meanwhile": "This came meanwhile."}, collection="tabs")
        for page in pages:
            await expect(page.locator(".row .state.ready")).to_have_count(2)

        await leader.close()
        pages.remove(leader)
        deployment.ingest({"after": "This came when no tab had a stream, or just after."}, collection="tabs")
        assert await streams.of_one_tab() in pages
        for page in pages:
            await expect(page.locator(".row .state.ready")).to_have_count(3)
            assert await page.get_by_text("Not connected").count() == 0


async def _has(streams, page):
    return await streams.of_one_tab() is page


async def test_hidden_tab_yields_stream_to_visible_one(tabs, deployment):
    deployment.ingest({"before": "This was there before."}, collection="hidden-tabs")
    deployment.wait_until_settled(1, collection="hidden-tabs")
    async with tabs(2, "hidden-tabs") as (pages, streams):
        first = await streams.of_one_tab()
        second = next(page for page in pages if page is not first)
        await _hide(first, hidden=True)
        await until(lambda: _has(streams, second))
        await _hide(second, hidden=True)
        await streams.are(0)

        deployment.ingest({"unseen": "This came while no tab was seen."}, collection="hidden-tabs")
        deployment.wait_until_settled(2, collection="hidden-tabs")
        for page in pages:
            await _hide(page, hidden=False)
        for page in pages:
            await expect(page.locator(".row .state.ready")).to_have_count(2)


async def test_tab_hidden_before_first_event_misses_nothing(tabs, deployment):
    deployment.ingest({"before": "This was there before."}, collection="early-tabs")
    deployment.wait_until_settled(1, collection="early-tabs")
    async with tabs(1, "early-tabs") as ([page], streams):
        await page.route("**/v1/events", lambda route: None)  # its stream never starts
        await page.reload()
        await expect(page.locator(".row")).to_have_count(1)
        await streams.are(1)
        await _hide(page, hidden=True)
        await streams.are(0)

        deployment.ingest({"unseen": "This came while the tab was hidden."}, collection="early-tabs")
        deployment.wait_until_settled(2, collection="early-tabs")
        await page.unroute("**/v1/events")
        await _hide(page, hidden=False)
        await expect(page.locator(".row .state.ready")).to_have_count(2)


async def test_tabs_with_other_key_have_own_stream(tabs, deployment):
    deployment.ingest({"before": "This was there before."}, collection="keyed-tabs")
    deployment.wait_until_settled(1, collection="keyed-tabs")
    async with tabs(2, "keyed-tabs") as (pages, streams):
        leader = await streams.of_one_tab()
        other = next(page for page in pages if page is not leader)
        await other.evaluate("sessionStorage.setItem('foreask.key', 'another')")
        await other.reload()
        await expect(other.locator(".row")).to_have_count(1)
        assert set(await streams.are(2)) == {leader, other}
