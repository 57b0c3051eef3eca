"""Each screen loads, recovers, and is accessible: one visit, which changes the window and its colours."""

import re

import pytest
from playwright.async_api import expect

from tests.page.conftest import ask
from tests.page.screens import OFF_NAVIGATION, SCREENS, TENANTS, fits, require_accessible
from tests.support.planted import guards

QUESTION = "How many days of leave does everybody have?"
DOCUMENT = "/documents/{document}"
COLLECTION = "/collections/default"
MOVING = "document.getAnimations().length"
# The window's size and its colours: the first ones of each size are checked by all rules.
WINDOWS = [
    (1440, {"color_scheme": "light"}),
    (1440, {"color_scheme": "dark"}),
    (360, {"color_scheme": "dark"}),
    (360, {"color_scheme": "light"}),
    (768, {"color_scheme": "light"}),
    (768, {"color_scheme": "dark"}),
    (768, {"color_scheme": "light", "forced_colors": "active"}),
]
FEW = [WINDOWS[0], WINDOWS[2]]


async def in_windows(page, windows, where):
    """Check the screen in windows of some sizes and colours."""
    await page.emulate_media(reduced_motion="reduce")  # colours change at once
    checked = set()
    for width, media in windows:
        await page.set_viewport_size({"width": width, "height": 800})
        await page.emulate_media(**{"forced_colors": "none"} | media)
        await require_accessible(page, f"{where}, {width} pixels, {media}", only_colours=width in checked)
        checked.add(width)


def address(path, deployment):
    [document] = [each["id"] for each in deployment.documents() if each["external_id"] == "leave.md"]
    return path.format(document=document)


@pytest.mark.parametrize("path", [*SCREENS, COLLECTION, DOCUMENT, TENANTS])
async def test_screen_recovers_from_failure_and_is_accessible(visit, deployment, path):
    page = visit.page
    visit.allowed = ("ERR_FAILED",)
    api_requests = re.compile(r".*/(v1/|openapi\.json).*")
    await page.emulate_media(reduced_motion="reduce")
    await page.route(api_requests, lambda route: route.abort())
    reply = await page.goto(visit.base + address(path, deployment))
    policy = reply.headers["content-security-policy"]
    assert "require-trusted-types-for 'script'" in policy
    assert "unsafe" not in policy
    trouble = page.locator(".trouble")
    await expect(trouble).to_have_count(1)
    assert await page.locator("nav a[aria-current=page]").count() == (path != TENANTS)

    await page.unroute(api_requests)
    await trouble.get_by_role("button", name="Try again").click()
    await expect(trouble).to_have_count(0)
    await expect(page.locator("main")).not_to_be_empty()
    assert await page.evaluate(MOVING) == 0
    assert await page.locator(":is(button, .button).main:visible").count() <= 1
    await in_windows(page, FEW, path)


@pytest.mark.parametrize("path", [*SCREENS, COLLECTION, DOCUMENT, *OFF_NAVIGATION])
async def test_screen_is_accessible_in_all_windows(visit, deployment, path):
    visit.allowed = ("404",)
    await visit.go(address(path, deployment))
    await expect(visit.page.locator("main")).not_to_be_empty()
    await in_windows(visit.page, WINDOWS, path)
    await visit.page.set_viewport_size({"width": 320, "height": 256})  # 1,280 pixels at 400 % are 320 of CSS
    assert await fits(visit.page)


@pytest.mark.parametrize("windows", [FEW, WINDOWS], ids=["few", "all"])
async def test_answer_and_source_are_accessible(visit, windows):
    page = visit.page
    await ask(visit, QUESTION)
    await page.get_by_role("button", name="Close", exact=True).last.click()
    await expect(page.locator(".detail")).to_have_count(0)
    await in_windows(page, windows, "an answer")
    await page.locator(".written .cited").first.click()
    await expect(page.locator("#source-title")).to_be_visible()
    await in_windows(page, windows, "a source")
    await page.set_viewport_size({"width": 320, "height": 256})
    assert await fits(page)


@guards(
    "api/web/style/page.css",
    "max-height: calc(100dvh - 32px);\n  overflow-y: auto;\n  position: fixed;",
    "position: fixed;",
    means="the first keyboard shortcuts are above an enlarged window, where nobody can scroll to them",
)
@guards(
    "api/web/style/page.css",
    "  .rail { position: static;",
    "  .rail {",
    means="the navigation covers a quarter of an enlarged window",
)
@guards(
    "api/web/style/page.css",
    ".inline > input { min-width: 0; }",
    "",
    means="a field of Explain is wider than an enlarged window",
)
async def test_enlarged_window_covers_and_cuts_nothing(visit):
    page = visit.page
    await page.set_viewport_size({"width": 320, "height": 256})
    await visit.go(f"/lab/explain#q={QUESTION}")
    await page.get_by_role("button", name="Explain").click()
    await expect(page.locator(".explained tbody tr").first).to_be_visible()
    assert await fits(page)
    await page.evaluate("scrollTo(0, 400)")
    await expect(page.get_by_role("navigation", name="Main")).not_to_be_in_viewport()

    await page.locator("main").focus()
    await page.keyboard.press("?")
    first = page.locator(".help dt").first
    await first.scroll_into_view_if_needed()
    await expect(first).to_be_in_viewport(ratio=1)
