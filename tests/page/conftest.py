"""A deployment with documents, and a browser that visits it."""

import asyncio
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, CDPSession, Locator, Page, async_playwright, expect

from embedded.ports import free_port
from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.forkserver import ForkServer
from tests.support.waiting import TIMEOUT_SECONDS

INSECURE = "insecure.example"  # a name of this computer that browsers do not trust, so that pages lack some functions
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
TIMEOUT = round(TIMEOUT_SECONDS * 500)  # milliseconds; ends a test whose condition never holds
expect.set_options(timeout=TIMEOUT)
HOSTILE = "<img src=x onerror=alert(1)><script>alert(2)</script> javascript:alert(3) ${alert(4)}"
LEAVE = (
    "# Leave\n\nEverybody has thirty days of leave a year.\n\n## First year\n\nIn the first year leave is pro rata.\n"
)
OURS, THEIRS = "key-of-ours-0123456789", "key-of-theirs-0123456789"
FRESH = "key-of-fresh-0123456789"  # of a tenant without documents
FIRST, SAMPLED = "key-of-first-0123456789", "key-of-sampled-0123456789"  # of tenants that upload in one test
OPERATOR = "key-of-operator-0123456789"
DOCUMENTS = {
    "leave.md": LEAVE,
    "travel.md": "# Travel\n\nAbroad, the per diem follows the table of the ministry.\n",
    "urlaub.md": "# Urlaub\n\nAlle haben drei\u00dfig Tage Urlaub im Jahr.\n",
    "ijaza.md": "# الإجازة\n\nلكل موظف ثلاثون يوما في السنة.\n",
    "hostile.md": f"# {HOSTILE}\n\n{HOSTILE} is a sentence of another user. " + "x" * 3000 + "\n",
    "empty.md": "",
}


@pytest.fixture(scope="session")
def deployment(
    provider_process: ScriptedProvider, forks: ForkServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Deployment]:
    folder = tmp_path_factory.mktemp("page")
    settings = provider_process.settings(
        webhooks_private_networks=True,
        source_roots={"*": [tmp_path_factory.getbasetemp().as_uri()]},
        query_answers=True,
        tuning={"sync_deletion_after": 0.01, "reconcile_interval": 0.5},
    )
    roles = ("parse", "generate", "index")
    with Deployment(settings, folder, roles=roles, launch=forks.launch, durable=False) as deployment:
        # Other APIs store these, and a scheduler with the default settings would delete them every minute.
        deployment.worker("scheduler", conversation_retention_days=30, shared_answer_retention_days=7)
        deployment.wait_for_workers()
        deployment.ingest({name: text for name, text in DOCUMENTS.items() if text})
        deployment.wait_until_settled(len(DOCUMENTS) - 1)
        yield deployment


def ingest_with_questions(deployment: Deployment, collection: str, texts: Mapping[str, str], question: str) -> None:
    """Upload texts by their external ids, each with a question about its id, so that no model writes questions."""
    lines = [{"external_id": name, "text": text, "questions": [question.format(name)]} for name, text in texts.items()]
    body = {"content": "\n".join(map(json.dumps, lines)), "headers": {"content-type": "application/x-ndjson"}}
    deployment.client.post("/v1/documents:batch", params={"collection": collection}, **body).raise_for_status()
    deployment.wait_until_settled(len(lines), collection=collection)


@contextmanager
def another_api(deployment: Deployment, name: str, key: str = "", **settings: object) -> Iterator[httpx.Client]:
    """Start another API over the deployment's data, with other settings, and yield a client with a key."""
    port = free_port()
    process = deployment.run(name, [sys.executable, "-m", "api"], api_port=port, **settings)
    headers = {"authorization": f"Bearer {key}"} if key else {}
    with httpx.Client(
        base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=TIMEOUT / 1000
    ) as client:
        while not _answers(client):
            assert process.poll() is None, deployment.logs()
            time.sleep(0.1)
        yield client
    process.terminate()
    process.wait()
    del deployment.processes[name]


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/health/ready").status_code == 200
    except httpx.HTTPError:
        return False


def api_keys(**keys: str) -> str:
    """Return the setting `api_keys` with a key for each of these tenants."""
    return ",".join(f"{tenant}:sha256:{hashlib.sha256(key.encode()).hexdigest()}" for tenant, key in keys.items())


@pytest.fixture(scope="session")
def keyed(deployment: Deployment) -> Iterator[httpx.Client]:
    """A client of an API with keys of the documents' tenant, of three others, and of an operator."""
    keys = {
        "api_keys": api_keys(default=OURS, theirs=THEIRS, fresh=FRESH, first=FIRST, sampled=SAMPLED),
        "operator_keys": f"sha256:{hashlib.sha256(OPERATOR.encode()).hexdigest()}",
    }
    with another_api(deployment, "keyed", OURS, **keys, shared_answer_retention_days=7) as client:
        yield client


class SharedBrowser:
    """Contexts of a browser, which one test after another uses: to start one takes half of a test's processor time.

    A test has its own tab and finds empty stores. The scripts of the page stay in the context's cache, and its renderer
    in the tab that stays open.
    """

    def __init__(self, browser: Browser) -> None:
        self.browser = browser
        self._free: dict[str, list[tuple[BrowserContext, CDPSession]]] = {}

    @asynccontextmanager
    async def context(self, base: str, **options: Any) -> AsyncIterator[BrowserContext]:
        """Lend a context of its own to each caller; it is lent again unless the caller fails."""
        free = self._free.setdefault(repr(sorted(options.items())), [])
        context, session = free.pop() if free else await self._open(base, options)
        stays = context.pages[0]
        try:
            yield context
        except BaseException:
            await context.close()
            raise
        for page in context.pages:
            if page is not stays:
                await page.close()
        await session.send("Storage.clearDataForOrigin", {"origin": base, "storageTypes": "all"})
        free.append((context, session))

    async def _open(self, base: str, options: dict[str, Any]) -> tuple[BrowserContext, CDPSession]:
        context = await self.browser.new_context(**options)
        context.set_default_timeout(TIMEOUT)
        page = await context.new_page()
        await page.goto(f"{base}/health/live")
        return context, await context.new_cdp_session(page)


@pytest.fixture(scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SharedBrowser]:
    assert CHROMIUM, (
        "Chromium is missing: install Debian's package `chromium`, or put another one on PATH under this name."
    )
    home = tmp_path_factory.mktemp("browser")
    async with async_playwright() as playwright:
        # An animated scroll after a key press would continue after the test's next scroll.
        options = ["--disable-smooth-scrolling", f"--host-resolver-rules=MAP {INSECURE} 127.0.0.1"]
        options += ["--process-per-site"]  # a tab takes a fifth less without a process of its own
        options += ["--no-sandbox"] if os.getuid() == 0 else []
        environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TMPDIR": str(home)}
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=options, env=environment)
        yield SharedBrowser(browser)
        await browser.close()


class Visit:
    """A tab that records unwanted behaviour: errors, blocked contents, requests to other servers."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.faults: list[str] = []
        self.allowed: tuple[str, ...] = ()
        page.on("console", lambda message: self._on_console(message.type, message.text, message.location["url"]))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._on_request(request.url))

    async def go(self, path: str) -> None:
        await self.page.goto(self.base + path)
        if path in {"/", "/ask"}:
            await expect(self.page.locator(STARTED).first).to_be_visible()

    def _on_console(self, kind: str, text: str, address: str) -> None:
        if address.endswith("/favicon.ico"):  # Chromium requests it for a reply that is not a page
            return
        if kind in {"error", "warning"} and not any(part in text for part in self.allowed):
            self.faults.append(f"{text} {address}")

    def _on_request(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.faults.append(url)


async def until(holds: Callable[[], Awaitable[object]]) -> None:
    """Poll ten times a second until a condition holds that `expect` cannot check."""
    async with asyncio.timeout(TIMEOUT / 1000):
        while not await holds():
            await asyncio.sleep(0.1)


async def drawn(page: Page) -> None:
    """Wait until the page has drawn its state: it does so in the next frame after each change."""
    await page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done())))")


STARTED = ".empty, .trouble, .answer, dialog"  # one of them when the start of the Ask screen has been read
OF_TABS = ("color_scheme", "reduced_motion", "forced_colors")


@asynccontextmanager
async def visiting(browser: SharedBrowser, base: str, **options: Any) -> AsyncIterator[Visit]:
    """Open a tab. Its window and its media are its own; another option needs a context of its own."""
    media = {name: options.pop(name) for name in OF_TABS if name in options}
    viewport = options.pop("viewport", None)
    async with browser.context(base, **options) as context:
        visit = Visit(await context.new_page(), base)
        if viewport:
            await visit.page.set_viewport_size(viewport)
        if media:
            await visit.page.emulate_media(**media)
        yield visit
        assert visit.faults == []


@pytest.fixture
async def visit(browser: SharedBrowser, deployment: Deployment) -> AsyncIterator[Visit]:
    async with visiting(
        browser, f"http://127.0.0.1:{deployment.port}", viewport={"width": 1360, "height": 850}
    ) as visit:
        yield visit


async def ask(visit: Visit, question: str) -> None:
    await visit.go("/ask")
    await visit.page.fill("#question", question)
    await visit.page.keyboard.press("Enter")
    await expect(visit.page.locator(".facts")).to_be_visible()


async def act(answer: Locator, name: str) -> None:
    """Choose an action in the menu of an answer."""
    await answer.get_by_role("button", name="More actions").click()
    await answer.get_by_role("menuitem", name=name).click()


async def choose_cost_preview(page: Page) -> None:
    """Choose "Always show the cost before uploading" in the menu of the Documents screen."""
    await page.get_by_role("button", name="More actions").click()
    await page.get_by_role("menuitemcheckbox", name="Always show the cost before uploading").click()


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Files to upload: twelve valid ones, and one without text."""
    found = [tmp_path / f"note-{number}.txt" for number in range(12)]
    for number, path in enumerate(found):
        path.write_text(f"Note {number}: the meeting about subject{number} is on day {number}.")
    empty = tmp_path / "nothing.pdf"
    empty.write_bytes(b"%PDF-1.4 nothing")
    return [*found, empty]
