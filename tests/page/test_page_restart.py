"""The API is killed and restarted during an upload of many files: the page resumes without user action."""

import asyncio
import sys

from playwright.async_api import expect

from tests.support.deployment import Deployment

FILES = 200
FAILING = 2


async def test_files_are_uploaded_once_despite_api_kill(visit, deployment, tmp_path):
    visit.allowed = ("net::ERR_",)
    folder = tmp_path / "batch"
    folder.mkdir()
    for number in range(FILES - FAILING):
        (folder / f"page-{number:03}.txt").write_text(f"Page {number} speaks of subject{number}.")
    for number in range(FAILING):
        (folder / f"scan-{number}.pdf").write_bytes(b"%PDF-1.4 nothing" + bytes([number]))
    form = {"collection": "restart", "external_id": "batch/page-007.txt"}
    file = ("page-007.txt", (folder / "page-007.txt").read_bytes(), "text/plain")
    deployment.client.post("/v1/documents", data=form, files={"file": file}).raise_for_status()
    deployment.wait_until_settled(1, collection="restart")

    page = visit.page
    await visit.go("/documents?collection=restart")
    await expect(page.locator(".row")).to_have_count(1)
    killed = await _held_back(page)
    await _drop(page, folder)
    await expect(page.locator(".row").nth(10)).to_be_visible()
    _kill_api(deployment)
    killed.set()
    await expect(page.get_by_text("Not connected")).to_be_visible()
    await expect(page.locator(".uploads")).to_contain_text("The server is unreachable.")
    deployment.run("api", [sys.executable, "-m", "api"])

    await expect(page.locator(".uploads")).to_contain_text(f"{FILES} files uploaded")
    await expect(page.locator(".uploads")).to_contain_text("already uploaded")
    assert await page.locator(".uploads .bad").count() == 0
    documents = deployment.wait_until_settled(FILES, collection="restart")
    assert sorted(each["state"] for each in documents) == ["failed"] * FAILING + ["ready"] * (FILES - FAILING)
    await expect(page.locator(".counts")).to_contain_text(f"{FILES - FAILING} ready")
    await expect(page.locator(".counts")).to_contain_text(f"{FAILING} failed")
    await expect(page.get_by_text("Not connected")).to_have_count(0)
    expected = sorted((each["filename"], each["state"]) for each in documents)
    for _ in range(5):  # poll, because the last event arrives within a second
        if await _rows(page) == expected:
            break
    assert await _rows(page) == expected


async def _held_back(page) -> asyncio.Event:
    """Hold back all requests with small files but the first until the returned event is set: a kill interrupts them."""
    released, sent = asyncio.Event(), 0

    async def forward(route):
        nonlocal sent
        sent += 1
        if sent > 1:
            await released.wait()
        await route.continue_()

    await page.route("**/v1/documents:batch?*", forward)
    return released


def _kill_api(deployment: Deployment) -> None:
    deployment.processes["api"].kill()
    deployment.processes["api"].wait()


async def _drop(page, folder) -> None:
    browser_session = await page.context.new_cdp_session(page)
    dropped = {"items": [], "files": [str(folder)], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        await browser_session.send("Input.dispatchDragEvent", {"type": kind, "x": 600, "y": 400, "data": dropped})


async def _rows(page) -> list[tuple[str, str]]:
    """Return the name and the state of every row of the list."""
    script = """async () => {
        const frame = () => new Promise(requestAnimationFrame);
        const box = document.querySelector(".window");
        const found = new Map();
        for (let top = 0; top < box.scrollHeight; top += 240) {
            box.scrollTo(0, top);
            for (const _ of [1, 2, 3]) await frame(); // it scrolls, the list hears of it, and is drawn
            for (const row of document.querySelectorAll(".row")) {
                const [name, state] = [row.querySelector(".name").textContent, row.querySelector(".state")];
                found.set(Number(row.ariaPosInSet), [name, state.classList[1]]);
            }
        }
        return [...found.values()];
    }"""
    return sorted(map(tuple, await page.evaluate(script)))
