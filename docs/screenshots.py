"""Take the screenshots of the page for the README: `python docs/screenshots.py http://127.0.0.1:8350`, in Chromium.

The server must have the demo's documents: run `make demo`, then `foreask up --data-dir .foreask/demo`, and wait a
minute until their questions are written.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

IMAGES = Path(__file__).parent / "images"
QUESTION = "How much faster is asyncpg than psycopg?"
COLLECTION = "demo"


def ask(page: Page) -> None:
    page.fill("#question", QUESTION)
    page.keyboard.press("Enter")
    page.locator(".facts").wait_for()
    page.locator(".channels").wait_for()


def read(page: Page) -> None:
    page.locator("main select").nth(2).select_option("updated")
    page.locator(".state.ready").first.wait_for()
    page.locator(".row:has(.state.ready) .row-main").first.click()
    page.locator(".questions li").first.wait_for()


def work(page: Page) -> None:
    page.locator(".cards").wait_for()


def try_(page: Page) -> None:
    page.get_by_role("button", name="Generate questions").click()
    page.locator(".card .questions li").first.wait_for()
    for question in ("How many people live in Berlin?", "Which state is around it?"):
        page.get_by_label("Question", exact=True).fill(question)
        page.keyboard.press("Enter")
        page.get_by_role("columnheader", name=question).first.wait_for()
    page.locator(".heat").first.evaluate("table => table.scrollIntoView({block: 'end'})")


SCREENS = {
    "ask": (f"/ask?collection={COLLECTION}", ask),
    "try": ("/lab/try", try_),
    "reader": (f"/documents?collection={COLLECTION}", read),
    "work": ("/work", work),
}


def main(base: str) -> None:
    IMAGES.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": 1240, "height": 720}, color_scheme=scheme)
            page = context.new_page()
            page.set_default_timeout(180_000)  # the small model writes one question at a time
            for name, (path, act) in SCREENS.items():
                page.goto(base + path)
                act(page)
                page.wait_for_timeout(500)
                page.screenshot(path=IMAGES / f"{name}-{scheme}.png")
            context.close()
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1])
