"""The addresses of the page's screens, and accessibility checks of the shown one."""

from typing import Any

from axe_playwright_python.async_playwright import Axe
from playwright.async_api import Page

SCREENS = (
    *("/", "/documents", "/collections", "/questions", "/gaps", "/work", "/jobs", "/sources"),
    *("/lab/explain", "/lab/try", "/lab/compare", "/api"),
    *("/keys", "/access", "/limits", "/audit"),
)
# Screens that are not in the navigation of a server without keys.
TENANTS = "/tenants"
MISSING = "/an/address/without/screen"
OFF_NAVIGATION = (TENANTS, MISSING, "/erase")
_TAGS = {"type": "tag", "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
_COLOURS = {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}
_VIOLATIONS = """(options) => axe.run(options).then(({ violations }) =>
    violations.map(({ id, nodes }) => [id, nodes.map(({ target }) => target)]))"""


async def require_accessible(page: Page, where: str = "", *, only_colours: bool = False) -> None:
    """Assert that the screen follows WCAG 2.2 at level AA, and fits the width of the window.

    Args:
        only_colours: for a screen that was checked in other colours before.
    """
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(Axe().axe_script)
    options: dict[str, Any] = {"runOnly": _COLOURS if only_colours else _TAGS, "resultTypes": ["violations"]}
    violations = await page.evaluate(_VIOLATIONS, options)
    assert violations == [], (where, violations)
    assert await fits(page), where


async def fits(page: Page) -> bool:
    return await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
