"""The parts of the page in each of their states, photographed at four sizes in light and dark."""

import pytest
from playwright.async_api import Page, expect

from tests.page.conftest import drawn
from tests.page.screens import require_accessible
from tests.support.planted import guards

WIDTHS = (1440, 1024, 768, 390)
COLOURS = ("light", "dark")


async def photograph(page: Page, folder, state: str, widths=WIDTHS):
    """Check the shown state in windows of all sizes and colours, and store a picture of each in a folder."""
    for width in widths:
        await page.set_viewport_size({"width": width, "height": 900})
        for colours in COLOURS:
            await page.emulate_media(color_scheme=colours, reduced_motion="reduce")
            await drawn(page)
            where = f"{state}, {width} pixels, {colours}"
            await require_accessible(page, where, only_colours=colours != COLOURS[0])
            picture = folder / f"{state}-{width}-{colours}.png"
            await page.screenshot(path=picture, full_page=True)
            assert picture.stat().st_size > 10_000, where


@pytest.fixture
async def gallery(visit):
    await visit.go("/gallery")
    await expect(visit.page.get_by_role("heading", name="Skeleton")).to_be_visible()
    return visit.page


@guards(
    "api/web/style/kit/table.css",
    "overflow-wrap: anywhere;",
    "white-space: nowrap;",
    means="a long name makes a table wider than the window",
)
async def test_gallery_parts_fit_and_are_accessible(gallery, tmp_path):
    for name in ("Refused", "Failed", "Slow"):
        form = gallery.get_by_role("form", name=name, exact=True)
        await form.get_by_label("Name").fill("handbook")
        await form.get_by_role("button").click()
    await expect(gallery.get_by_text("A source with this name exists.")).to_be_visible()
    await expect(gallery.get_by_role("alert")).to_contain_text("unreachable")
    await expect(gallery.get_by_role("button", name="Adding\u2026")).to_have_attribute("aria-disabled", "true")
    await photograph(gallery, tmp_path, "parts")


async def test_gallery_menu_and_dialogs_obey_keys(gallery, tmp_path):
    button = gallery.get_by_role("button", name="More actions").first
    await button.focus()
    await gallery.keyboard.press("Enter")
    await expect(gallery.get_by_role("menuitem", name="Rename")).to_be_focused()
    await photograph(gallery, tmp_path, "menu", WIDTHS[-1:])
    await gallery.keyboard.press("ArrowUp")
    await expect(gallery.get_by_role("menuitem", name="Delete")).to_be_focused()
    await gallery.keyboard.press("Escape")
    await expect(button).to_be_focused()

    await gallery.keyboard.press("Enter")
    await gallery.keyboard.press("d")
    await gallery.keyboard.press("Enter")
    dialog = gallery.get_by_role("dialog")
    await expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    await photograph(gallery, tmp_path, "question", WIDTHS[-1:])
    await gallery.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
    await expect(gallery.locator("output")).to_have_text("kept")
    await expect(button).to_be_focused()

    await gallery.get_by_role("button", name="Open a form").click()
    await dialog.get_by_role("button", name="Add").click()
    await expect(dialog.get_by_label("Name")).to_be_focused()
    await expect(dialog.get_by_label("Name")).to_have_attribute("aria-invalid", "true")
    await photograph(gallery, tmp_path, "form", WIDTHS[-1:])
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)


async def test_gallery_tabs_move_with_arrows(gallery):
    await gallery.get_by_role("tab", name="Text").focus()
    await gallery.keyboard.press("ArrowRight")
    await expect(gallery.get_by_role("tab", name="Original")).to_be_focused()
    await expect(gallery.get_by_role("tabpanel")).to_have_text("The file, as it was uploaded.")
