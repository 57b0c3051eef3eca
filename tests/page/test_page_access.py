"""Zoom, forced colours, reduced motion, keyboard only, and the number of messages to a screen reader."""

import asyncio
import itertools
import re

from playwright.async_api import expect

from tests.page.conftest import visiting

QUESTION = "How many days of leave does everybody have?"
SPOKEN = """() => {
    window.spoken = [];
    const said = new Map();
    const record = () => {
        for (const region of document.querySelectorAll("[role=status], [role=alert], [aria-live]")) {
            const words = region.innerText.trim();
            if (words && said.get(region) !== words) window.spoken.push([performance.now(), words]);
            said.set(region, words);
        }
    };
    record();
    window.spoken.length = 0;
    new MutationObserver(record).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""
COVERED = """() => {
    const focused = document.activeElement;
    const box = focused.getBoundingClientRect();
    const at = document.elementFromPoint(box.x + box.width / 2, box.y + Math.min(box.height, 20) / 2);
    const style = getComputedStyle(focused);
    const seen = focused.contains(at) || focused.closest("label")?.contains(at);
    return [focused.outerHTML.slice(0, 120), style.outlineStyle, seen];
}"""


async def test_reduced_motion_moves_rows_without_animation(browser, deployment):
    moving = "() => document.getAnimations().length"
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}", reduced_motion="reduce") as visit:
        await visit.go("/lab/explain")
        await visit.page.fill("#question", QUESTION)
        await visit.page.keyboard.press("Enter")
        await expect(visit.page.locator(".explained tbody tr").first).to_be_visible()
        for slider in await visit.page.locator("input[type=range]").all():
            await slider.fill("0.3")
            assert await visit.page.evaluate(moving) == 0


async def tab_to(page, wanted, key="Tab") -> None:
    """Press a key until an element has the focus; each focused element on the way is visible and not covered."""
    for _ in range(60):
        await page.keyboard.press(key)
        element, outline, visible = await page.evaluate(COVERED)
        assert outline != "none", element
        assert visible, element
        if await wanted.evaluate("(element) => element === document.activeElement"):
            return
    raise AssertionError("Tab does not reach the element")


async def test_keyboard_suffices_from_upload_to_source(browser, deployment, tmp_path):
    file = tmp_path / "parking.txt"
    file.write_text("The car park of the office in Kiel opens at seven.")
    viewport = {"width": 1360, "height": 850}
    async with visiting(browser, f"http://127.0.0.1:{deployment.port}", viewport=viewport) as visit:
        page = visit.page
        opened = asyncio.get_running_loop().create_future()

        def choose(chooser):
            opened.set_result(chooser)

        page.on("filechooser", choose)  # listen before the key press, because the event is not repeated
        await visit.go("/")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")  # follow the link that skips to the content
        await page.keyboard.press("g")
        await page.keyboard.press("d")
        await expect(page).to_have_url(re.compile(r"/documents(\?|$)"))  # the address may also have the collection
        await expect(page.locator(".row").first).to_be_visible()
        chooser = page.locator("input[type=file]").first
        for _ in range(12):
            await page.keyboard.press("Tab")
            if await chooser.evaluate("(element) => element === document.activeElement"):
                break
        await expect(chooser).to_be_focused()
        await page.keyboard.press("Enter")
        await (await asyncio.wait_for(opened, 30)).set_files(file)
        await expect(page.locator(".row", has_text="parking.txt").locator(".state.ready")).to_be_visible()
        await page.keyboard.press("g")
        await page.keyboard.press("a")
        await expect(page.locator("#question")).to_be_visible()
        await page.keyboard.press("/")
        await page.keyboard.type("When does the car park of the office in Kiel open?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".facts")).to_be_visible()
        cited = page.locator(".written .cited").first
        await tab_to(page, cited, "Shift+Tab")  # the field for the next question is below the answer
        await page.keyboard.press("Enter")
        await expect(page.locator("#source-title")).to_be_focused()
        await expect(page.locator(".detail .marked")).to_contain_text("opens at seven")
        await page.keyboard.press("Escape")
        await expect(cited).to_be_focused()


async def test_screen_reader_gets_one_message_in_five_seconds(visit, deployment):
    deployment.ingest({f"before-{n}": f"Number {n} came before." for n in range(40)}, collection="spoken")
    await visit.go("/documents?collection=spoken")
    await expect(visit.page.locator(".row .state.ready").first).to_be_visible()
    await visit.page.evaluate(SPOKEN)
    deployment.ingest({f"after-{n}": f"Number {n} came after." for n in range(40)}, collection="spoken")
    await expect(visit.page.locator(".counts")).to_contain_text("80 ready")
    spoken = await visit.page.evaluate("window.spoken")
    between = [later[0] - earlier[0] for earlier, later in itertools.pairwise(spoken)]
    assert all(each >= 4_900 for each in between), spoken
