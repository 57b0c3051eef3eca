"""The page in a browser on a processor at a quarter of its speed: `python -m bench page [--documents N]`.

Prints medians of five with their goals: the time until the first paint and until the user can type, on loopback and
with a round trip of 100 ms, and the time that this browser needs for a line of text, which is the minimum for any page;
the time until 300 passages are reordered after a weight was moved; the longest task and the 95th percentile of the
frames while very many documents, or the 500 chunks of a document, are scrolled, ten rows in a frame, and the heap after
that; the time until a document is found by its name; and the time from an event of a stream until it is drawn. It needs
the extra `page` and a Chromium; without them nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import os
import shutil
import statistics
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from tests.support.deployment import Deployment, ScriptedProvider

if TYPE_CHECKING:
    from playwright.async_api import Browser, Page

DOCUMENTS = 3_000
_TIMES = 5
_SLOWER = 4
_RTT_MS = 100
_PASSAGES = 300
_CHUNKS = 500
_QUESTION = "How many days is trip 7?"

# Make finished documents, as the ledger has them an hour after their ingest.
_MAKE_DOCUMENTS = Statement("""
    INSERT INTO documents (id, public_id, tenant, collection_id, external_id, live_version, lane, state, created_at,
                           updated_at, error)
    SELECT md5(name || '/' || n)::uuid, md5(name || '/' || n)::uuid, tenant, id, 'paper-' || lpad(n::text, 6, '0'),
           1, 1,
           CASE WHEN n % 1000 = 0 THEN 'failed' ELSE 'ready' END, now() - n * interval '1 second',
           now() - interval '1 hour' - n * interval '1 second', CASE WHEN n % 1000 = 0 THEN 'no text in it' END
    FROM collections, generate_series(1, :documents) n WHERE name = :collection
""")

# Make their versions; lists read their names there.
_MAKE_VERSIONS = Statement("""
    INSERT INTO document_versions (document_id, version, filename, title, upload, size_bytes, content_hash)
    SELECT id, 1, external_id || '.md', 'Paper ' || external_id, 'none', 1, decode(md5(external_id), 'hex')
    FROM documents WHERE collection_id = (SELECT id FROM collections WHERE name = :collection)
""")

# Measure the first paint and the time until the question can be typed.
_WATCH = """
    window.typeable = new Promise((resolve) => {
        const check = () => document.querySelector("#question") && resolve(performance.now());
        new MutationObserver(check).observe(document, { subtree: true, childList: true });
    });
    window.tasks = [];
    new PerformanceObserver((list) => window.tasks.push(...list.getEntries().map((each) => each.duration)))
        .observe({ type: "longtask", buffered: true });
"""

_FIRST_PAINT = "performance.getEntriesByName('first-contentful-paint')[0].startTime"

# Measure the time from a stream's event until the page changes.
_WATCH_STREAMS = """
    window.delays = [];
    let received = 0;
    const read = ReadableStreamDefaultReader.prototype.read;
    ReadableStreamDefaultReader.prototype.read = async function () {
        const got = await read.call(this);
        if (typeof got.value === "string" && /event: (token|document)/.test(got.value)) received ||= performance.now();
        return got;
    };
    new MutationObserver(() => {
        if (!received) return;
        window.delays.push(performance.now() - received);
        received = 0;
    }).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
"""

# Move a weight, and wait until the rows are laid out.
_MOVE = """(value) => new Promise((resolve) => {
    const slider = document.querySelector("input[type=range]");
    const started = performance.now();
    slider.value = value;
    slider.dispatchEvent(new Event("input", { bubbles: true }));
    const handled = performance.now() - started;
    requestAnimationFrame((frame) => {
        document.body.offsetHeight;
        resolve(handled + performance.now() - frame);
    });
})"""

# Scroll to the last row; return its number, the longest task, and the durations of the frames.
_SCROLL = """async (rows) => {
    const frame = () => new Promise(requestAnimationFrame);
    const box = document.querySelector(".window");
    const frames = [];
    window.tasks.length = 0;
    const last = () => Number([...document.querySelectorAll(".row")].at(-1)?.ariaPosInSet ?? 0);
    let before = await frame();
    for (let left = 20000; left && last() < rows; left -= 1) {
        box.scrollBy(0, 480);
        const now = await frame();
        frames.push(now - before);
        before = now;
    }
    await new Promise((resolve) => setTimeout(resolve, 300));
    return [last(), Math.max(0, ...window.tasks), frames];
}"""

# Type a name into the search field, and wait until only its document is listed.
_SEARCH = """(name) => new Promise((resolve) => {
    const started = performance.now();
    const check = () => {
        const rows = document.querySelectorAll(".row");
        if (rows.length === 1 && rows[0].textContent.includes(name)) resolve(performance.now() - started);
    };
    new MutationObserver(check).observe(document, { subtree: true, childList: true, characterData: true });
    const field = document.querySelector("#search");
    field.value = name;
    field.dispatchEvent(new Event("input", { bubbles: true }));
})"""


async def fill(deployment: Deployment, collection: str, documents: int) -> None:
    """Insert documents without chunks into the ledger."""
    deployment.client.put(f"/v1/collections/{collection}", json={}).raise_for_status()
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value(), timeout=None)
    async with database.transaction() as connection:
        await connection.execute(_MAKE_DOCUMENTS, {"documents": documents, "collection": collection})
        await connection.execute(_MAKE_VERSIONS, {"collection": collection})
    await database.aclose()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench page")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if importlib.util.find_spec("playwright") is None or chromium is None:
        print("not measured: it needs `pip install 'foreask[page]'` and a Chromium", flush=True)
        return
    provider = ScriptedProvider()
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder)) as deployment:
            asyncio.run(_measure(deployment, chromium, arguments.documents))
    finally:
        provider.close()


async def _measure(deployment: Deployment, chromium: str, documents: int) -> None:
    async_playwright = importlib.import_module("playwright.async_api").async_playwright
    trips = {f"trip-{n}": f"Trip {n}: days of travel, the hotel and leave for {n} days." for n in range(_PASSAGES)}
    deployment.ingest(trips)
    deployment.wait_until_settled(_PASSAGES)
    await fill(deployment, "large", documents)
    deployment.ingest({"book": "\n\n".join(_chapter(n) for n in range(_CHUNKS))}, collection="books")
    (book,) = deployment.wait_until_settled(1, "books")
    base = f"http://127.0.0.1:{deployment.port}"
    print(f"{'at a quarter of the processor':52}{'median':>10}{'goal':>10}", flush=True)
    async with async_playwright() as playwright:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=chromium, args=options)
        line = [await _painted(browser, f"{base}/health/live") for _ in range(_TIMES)]
        print(f"{'a line of text is painted, on loopback':52}{statistics.median(line):7.1f} ms", flush=True)
        for rtt, painted, typed in ((0, 400, 700), (_RTT_MS, 1500, 1500)):
            cold = [await _opened(browser, base, rtt) for _ in range(_TIMES)]
            where = f"over {rtt} ms" if rtt else "on loopback"
            _print(f"painted, {where}", [first for first, _ in cold], painted)
            _print(f"one may type, {where}", [second for _, second in cold], typed)
        warm = [await _opened(browser, base, _RTT_MS, again=True) for _ in range(_TIMES)]
        _print(f"painted, over {_RTT_MS} ms, again", [first for first, _ in warm], 500)
        _print(f"a weight is moved, {_PASSAGES} passages are in order", await _weights(browser, base), 16)
        await _list(browser, base, documents)
        await _reader(browser, base, book["id"], book["chunks"]["total"])
        _print("a streamed word is drawn", await _words(browser, base), 17)
        _print("a document's event is drawn", await _document_events(browser, base, deployment), 250)
        await browser.close()


def _print(what: str, milliseconds: list[float], goal: float) -> None:
    median = statistics.median(milliseconds)
    print(f"{what:52}{median:7.1f} ms{goal:7,.0f} ms{'  missed' if median > goal else ''}", flush=True)


@asynccontextmanager
async def _slow(browser: Browser, rtt_ms: int = 0) -> AsyncIterator[Page]:
    """Yield a tab with a slow processor and the given round-trip time to its server."""
    context = await browser.new_context(viewport={"width": 1360, "height": 850})
    page = await context.new_page()
    session = await context.new_cdp_session(page)
    await session.send("Emulation.setCPUThrottlingRate", {"rate": _SLOWER})
    if rtt_ms:
        conditions: dict[str, Any] = {
            "offline": False,
            "latency": rtt_ms,
            "downloadThroughput": -1,
            "uploadThroughput": -1,
        }
        await session.send("Network.enable")
        await session.send("Network.emulateNetworkConditions", conditions)
    await page.add_init_script(_WATCH)
    await page.add_init_script(_WATCH_STREAMS)
    try:
        yield page
    finally:
        await context.close()


async def _painted(browser: Browser, address: str) -> float:
    async with _slow(browser) as page:
        await page.goto(address)
        await page.wait_for_timeout(300)
        return float(await page.evaluate(_FIRST_PAINT))


async def _opened(browser: Browser, base: str, rtt_ms: int, *, again: bool = False) -> tuple[float, float]:
    """Return the milliseconds until the first paint and until the user can type; `again`: files are cached."""
    async with _slow(browser, rtt_ms) as page:
        await page.goto(f"{base}/ask")
        if again:
            await page.wait_for_timeout(500)
            await page.goto(f"{base}/ask")
        typed = await page.evaluate("window.typeable")
        await page.wait_for_timeout(300)
        return await page.evaluate(_FIRST_PAINT), typed


async def _weights(browser: Browser, base: str) -> list[float]:
    async with _slow(browser) as page:
        await page.goto(f"{base}/lab/explain")
        await page.fill("#question", _QUESTION)
        await page.keyboard.press("Enter")
        await page.locator(".explained tbody tr").first.wait_for()
        await page.wait_for_timeout(1000)
        return [await page.evaluate(_MOVE, str(0.1 + 0.3 * n)) for n in range(_TIMES)]


async def _list(browser: Browser, base: str, documents: int) -> None:
    async with _slow(browser) as page:
        await page.goto(f"{base}/documents?collection=large")
        await page.locator(".row").first.wait_for()
        await _scroll(page, documents, "rows")
        found = await page.evaluate(_SEARCH, f"paper-{documents:06}")
        _print(f"one of {documents:,} documents is found by name", [found], 600)


async def _reader(browser: Browser, base: str, document: str, chunks: int) -> None:
    async with _slow(browser) as page:
        await page.goto(f"{base}/documents/{document}")
        await page.locator(".row").first.wait_for()
        await _scroll(page, chunks, "chunks")


async def _scroll(page: Page, rows: int, name: str) -> None:
    """Scroll to the end of a list, and print the longest task, the frames and the heap."""
    last, longest, frames = await page.evaluate(_SCROLL, rows)
    _print(f"longest task while {last:,} {name} are scrolled", [longest], 50)
    _print(f"p95 of a frame while {last:,} {name} are scrolled", [statistics.quantiles(frames, n=20)[-1]], 50)
    session = await page.context.new_cdp_session(page)
    await session.send("HeapProfiler.collectGarbage")
    used = (await session.send("Runtime.getHeapUsage"))["usedSize"]
    print(f"{f'heap after {last:,} {name}':52}{used / 1e6:7.1f} MB", flush=True)


def _chapter(number: int) -> str:
    """Return text that becomes one chunk."""
    sentences = (
        f"On day {day} the traveller of chapter {number} leaves hotel {day} for the next one." for day in range(18)
    )
    return f"# Chapter {number}\n\n{' '.join(sentences)}"


async def _words(browser: Browser, base: str) -> list[float]:
    async with _slow(browser) as page:
        await page.goto(f"{base}/ask")
        await page.fill("#question", _QUESTION)
        await page.evaluate("window.delays.length = 0")
        await page.keyboard.press("Enter")
        await page.locator(".facts").wait_for()
        return list(await page.evaluate("window.delays"))


async def _document_events(browser: Browser, base: str, deployment: Deployment) -> list[float]:
    async with _slow(browser) as page:
        await page.goto(f"{base}/documents?collection=large")
        await page.locator(".row").first.wait_for()
        await page.wait_for_timeout(1500)
        await page.evaluate("window.delays.length = 0")
        for n in range(_TIMES):
            deployment.ingest({f"new-{n}": f"Number {n} is new."}, collection="large")
            await page.wait_for_timeout(1200)
        return list(await page.evaluate("window.delays"))


if __name__ == "__main__":
    main()
