"""The cost of event listeners: `python -m bench listeners [--documents N] [--seconds N] [--minutes N]`.

A tenant has very many documents. Prints the processor usage of PostgreSQL and the API without listeners to the tenant's
events and with twenty listeners, while idle and while 200 documents change per second; the difference is the cost of
the listeners. Then a page shows the list of those documents for some minutes while they change, and its heap is printed
after each garbage collection: it must not grow. The page needs the extra `page` and a Chromium.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import httpx

from bench.page import fill
from shared.ledger.postgres.database import Database
from shared.ledger.postgres.statements import Statement
from tests.support.deployment import Deployment, ScriptedProvider

DOCUMENTS = 100_000
SECONDS = 30
MINUTES = 10
_LISTENERS = 20
_CHANGES = 200
_HEAP_GOAL_MB = 60
_SHARE_GOAL = 5

# Update documents, other ones each time.
_CHANGE = Statement("""
    UPDATE documents SET updated_at = now()
    WHERE id IN (SELECT md5('many/' || 1 + (:first + n) % :documents)::uuid FROM generate_series(0, :changes - 1) n)
""")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench listeners")
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--seconds", type=int, default=SECONDS)
    parser.add_argument("--minutes", type=int, default=MINUTES)
    arguments = parser.parse_args()
    provider = ScriptedProvider()
    try:
        with tempfile.TemporaryDirectory() as folder, Deployment(provider.settings(), Path(folder)) as deployment:
            asyncio.run(_measure(deployment, arguments.documents, arguments.seconds, arguments.minutes))
    finally:
        provider.close()


async def _measure(deployment: Deployment, documents: int, seconds: int, minutes: int) -> None:
    await fill(deployment, "large", documents)
    print(f"{documents:,} documents; shares of a processor in %, over {seconds} s each", flush=True)
    print(f"{'':44}{'PostgreSQL':>12}{'API':>8}", flush=True)
    for changes in (0, _CHANGES):
        alone = await _shares(deployment, documents, changes, 0, seconds)
        watched = await _shares(deployment, documents, changes, _LISTENERS, seconds)
        while_ = f", {changes} changes a second" if changes else ", at rest"
        _print(f"nobody listens{while_}", alone)
        _print(f"{_LISTENERS} listen{while_}", watched)
        cost = watched[0] - alone[0], watched[1] - alone[1]
        _print(f"cost of the listeners (goal of PostgreSQL: {_SHARE_GOAL})", cost)
    await _watch(deployment, documents, minutes)


def _print(what: str, shares: tuple[float, float]) -> None:
    print(f"{what:44}{shares[0]:12.1f}{shares[1]:8.1f}", flush=True)


async def _shares(
    deployment: Deployment, documents: int, changes: int, listeners: int, seconds: int
) -> tuple[float, float]:
    """Return the shares of PostgreSQL and of the API."""

    def used() -> tuple[float, float]:
        return deployment.engine_cpu_seconds()["postgres"], deployment.cpu_seconds()["api"]

    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(trust_env=False, timeout=None))
        for _ in range(listeners):
            await stack.enter_async_context(_listening(client, f"http://127.0.0.1:{deployment.port}/v1/events"))
        await stack.enter_async_context(_changing(deployment, documents, changes))
        await asyncio.sleep(3)  # a new listener receives more events than a continuing one
        before, started = used(), time.monotonic()
        await asyncio.sleep(seconds)
        after, took = used(), time.monotonic() - started
    return 100 * (after[0] - before[0]) / took, 100 * (after[1] - before[1]) / took


@asynccontextmanager
async def _listening(client: httpx.AsyncClient, url: str) -> AsyncIterator[None]:
    async def read() -> None:
        async with client.stream("GET", url) as reply:
            async for _ in reply.aiter_bytes():
                pass

    task = asyncio.create_task(read())
    try:
        yield
    finally:
        task.cancel()


@asynccontextmanager
async def _changing(deployment: Deployment, documents: int, changes: int) -> AsyncIterator[None]:
    """Change `changes` documents in each second."""
    url = deployment.stack.settings.database_url
    assert url is not None
    database = Database(url.get_secret_value(), timeout=None)

    async def change() -> None:
        first = 0
        while changes:
            async with database.transaction() as connection:
                parameters = {"first": first, "changes": changes, "documents": documents}
                await connection.execute(_CHANGE, parameters)
            first += changes
            await asyncio.sleep(1)

    task = asyncio.create_task(change())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await database.aclose()


async def _watch(deployment: Deployment, documents: int, minutes: int) -> None:
    """Print the heap of a page that shows the list while documents change."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if importlib.util.find_spec("playwright") is None or chromium is None:
        print("the page is not measured: it needs `pip install 'foreask[page]'` and a Chromium", flush=True)
        return
    async_playwright = importlib.import_module("playwright.async_api").async_playwright
    async with async_playwright() as playwright:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=chromium, args=options)
        page = await browser.new_page()
        session = await page.context.new_cdp_session(page)
        await page.goto(f"http://127.0.0.1:{deployment.port}/documents?collection=large")
        await page.locator(".row").first.wait_for()
        async with _changing(deployment, documents, _CHANGES):
            for minute in range(minutes + 1):
                await session.send("HeapProfiler.collectGarbage")
                used = (await session.send("Runtime.getHeapUsage"))["usedSize"] / 1e6
                print(f"heap of the page after {minute:2} min {used:21.1f} MB{_HEAP_GOAL_MB:7} MB", flush=True)
                if minute < minutes:
                    await asyncio.sleep(60)
        await browser.close()


if __name__ == "__main__":
    main()
