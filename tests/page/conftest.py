"""A deployment with documents, and a browser that visits it."""

import asyncio
import hashlib
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import httpx
import pytest
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

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
        webhooks_private=True,
        source_roots={"*": [tmp_path_factory.getbasetemp().as_uri()]},
        tuning={"sync_deletion_after": 0.01},
    )
    roles = ("parse", "generate", "index")
    with Deployment(settings, folder, roles=roles, launch=forks.launch, durable=False) as deployment:
        # Other APIs store these, and a scheduler with the default settings would delete them every minute.
        deployment.worker("scheduler", conversation_days=30, shared_answer_days=7)
        deployment.wait_for_workers()
        deployment.ingest({name: text for name, text in DOCUMENTS.items() if text})
        deployment.wait_until_settled(len(DOCUMENTS) - 1)
        yield deployment


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
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Browser]:
    assert CHROMIUM, (
        "Chromium is missing: install Debian's package `chromium`, or put another one on PATH under this name."
    )
    home = tmp_path_factory.mktemp("browser")
    async with async_playwright() as playwright:
        # An animated scroll after a key press would continue after the test's next scroll.
        options = ["--disable-smooth-scrolling", f"--host-resolver-rules=MAP {INSECURE} 127.0.0.1"]
        options += ["--no-sandbox"] if os.getuid() == 0 else []
        environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home), "TMPDIR": str(home)}
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=options, env=environment)
        yield browser
        await browser.close()


class Visit:
    """A tab that records unwanted behaviour: errors, blocked contents, requests to other servers."""

    def __init__(self, page: Page, base: str) -> None:
        self.page = page
        self.base = base
        self.faults: list[str] = []
        self.allowed: tuple[str, ...] = ()
        page.on("console", lambda message: self._on_console(message.type, message.text))
        page.on("pageerror", lambda error: self.faults.append(str(error)))
        page.on("dialog", lambda dialog: self.faults.append(f"dialog: {dialog.message}"))
        page.on("request", lambda request: self._on_request(request.url))

    async def go(self, path: str) -> None:
        await self.page.goto(self.base + path)
        await self.page.wait_for_load_state("networkidle" if path in {"/", "/ask"} else "load")

    def _on_console(self, kind: str, text: str) -> None:
        if kind in {"error", "warning"} and not any(part in text for part in self.allowed):
            self.faults.append(text)

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


@asynccontextmanager
async def visiting(browser: Browser, base: str, **options: object) -> AsyncIterator[Visit]:
    context: BrowserContext = await browser.new_context(**options)  # type: ignore[arg-type]
    context.set_default_timeout(TIMEOUT)
    visit = Visit(await context.new_page(), base)
    try:
        yield visit
        assert visit.faults == []
    finally:
        await context.close()


@pytest.fixture
async def visit(browser: Browser, deployment: Deployment) -> AsyncIterator[Visit]:
    async with visiting(
        browser, f"http://127.0.0.1:{deployment.port}", viewport={"width": 1360, "height": 850}
    ) as visit:
        yield visit


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Files to upload: twelve valid ones, and one without text."""
    found = [tmp_path / f"note-{number}.txt" for number in range(12)]
    for number, path in enumerate(found):
        path.write_text(f"Note {number}: the meeting about subject{number} is on day {number}.")
    empty = tmp_path / "nothing.pdf"
    empty.write_bytes(b"%PDF-1.4 nothing")
    return [*found, empty]
