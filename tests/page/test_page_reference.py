"""The API reference in a real browser, rendered from `/openapi.json`."""

import json
import re
import shlex

from playwright.async_api import expect

from tests.page.screens import fits, require_accessible


async def test_reference_shows_operations_with_working_requests(visit, deployment):
    page = visit.page
    described = deployment.client.get("/openapi.json").json()
    operations = [about for methods in described["paths"].values() for about in methods.values()]
    await visit.go("/ask")
    await page.get_by_role("link", name="API", exact=True).click()
    await expect(page.locator(".operation")).to_have_count(len(operations))
    for tag in {each["tags"][0] for each in operations}:
        await expect(page.get_by_role("heading", name=tag, exact=True)).to_be_visible()
    await page.get_by_label("Search the reference").fill("retrieve chunks")
    await page.locator(".operation", has_text="/v1/retrieve").locator("summary").first.click()
    shown = page.locator(".operation .card")
    await expect(shown.get_by_role("group", name="Fields of the body").first).to_contain_text("top_k")
    await expect(shown).to_contain_text("Problem details (RFC 9457): 400")
    command = shlex.split(await shown.locator("pre").last.inner_text())
    assert command[-1] == f"{visit.base}/v1/retrieve"
    body = json.loads(command[command.index("-d") + 1]) | {"collection": "default"}
    assert deployment.client.post("/v1/retrieve", json=body).status_code == 200
    await page.reload()
    await expect(shown).to_be_visible()
    await expect(page.locator(".operation[open] > summary")).to_be_in_viewport()


async def test_every_operation_can_be_drawn_and_is_accessible(visit, deployment):
    page = visit.page
    await visit.go("/api")
    await expect(page.locator(".operation").first).to_be_visible()
    await page.evaluate("document.querySelectorAll('.operation').forEach((each) => (each.open = true))")
    total = await page.locator(".operation").count()
    await expect(page.locator(".operation .card")).to_have_count(total)
    await expect(page.locator("pre", has_text="-F 'file=@leave.md'").first).to_be_visible()
    await require_accessible(page)
    await page.set_viewport_size({"width": 360, "height": 740})
    assert await fits(page)


async def test_swagger_page_runs_only_its_own_script(visit):
    await visit.go("/docs")
    await expect(visit.page.locator(".opblock").first).to_be_visible()
    policy = (await visit.page.request.get(visit.base + "/docs")).headers["content-security-policy"]
    assert re.search(r"script-src 'self' 'sha256-[^']+';", policy)
