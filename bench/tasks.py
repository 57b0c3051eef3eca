"""Ten tasks of a user in the page: `python -m bench tasks [--url URL --key KEY]`.

Drives a browser through ten tasks, each from the screen Ask, and prints for each its clicks, its keystrokes (a typed
field counts once), the seconds that the user waits for the page, and the path. A task without a control is printed as
"not possible in the page", with the command or request that is needed instead. Without `--url`, a deployment with a
scripted model is measured; with it, a running deployment, such as another release, which gets a collection, a key and
questions. It needs the extra `page` and a Chromium; without them nothing is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import importlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

from embedded.ports import free_port
from tests.support.deployment import Deployment, ScriptedProvider
from tests.support.pdfs import pdf

if TYPE_CHECKING:
    from playwright.async_api import Browser, Locator, Page

COLLECTION = "tasks"
_CONTROL_SECONDS = 6.0  # a control that does not appear within this time does not exist
_RESULT_SECONDS = 60.0
_POLL_SECONDS = 0.1
_LOAD = 400  # documents of a load, so that it is open while it is looked at
_PERSON = "Mara Linde"
_LAMP = "Is the lamp of the tower in the north kept burning?"
_REGATTA = "When was the regatta of 1990?"
_QUESTION = "What is the fee of a vessel at the harbour office?"
_HARBOUR = [
    "Every vessel is registered before its departure.",
    "The fee of a vessel at the harbour office is 4.50 euros.",
]
_TEXTS = {
    "leave.md": "# Leave\n\nAll staff have thirty days of leave a year.\n\n## First year\n\nLeave is pro rata.\n",
    "beacon.md": "# Beacon\n\nThe warden of Skagen tends the beacon at night.\n",
    "tower.md": "# Tower\n\nThe lamp of the tower in the north was sold. A lamp of the old tower burned down.\n",
    "linde-contract.md": f"# Contract of {_PERSON}\n\n{_PERSON} works on the pier since 2019.\n",
    "linde-review.md": f"# Review of {_PERSON}\n\n{_PERSON} repairs cranes faster than any other.\n",
    "linde-address.md": f"# Address of {_PERSON}\n\n{_PERSON} lives at 4 Quay Street.\n",
}


class NotPossible(Exception):
    """The page lacks a control or a result."""


@dataclass
class Hands:
    """A user's actions in a tab, counted; waiting is timed.

    Args:
        page: the tab.
        site: the measured deployment.
    """

    page: Page
    site: MeasuredSite
    clicks: int = 0
    keystrokes: int = 0
    seconds: float = 0.0
    path: list[str] = field(default_factory=list)

    async def click(self, control: Locator, name: str) -> None:
        await self._appears(control, name, _CONTROL_SECONDS)
        await control.click()
        self.clicks += 1
        self.path.append(name)

    async def write(self, control: Locator, text: str, name: str) -> None:
        await self._appears(control, name, _CONTROL_SECONDS)
        await control.fill(text)
        self.keystrokes += 1
        self.path.append(f"type {name}")

    async def choose(self, control: Locator, value: str, name: str) -> None:
        await self._appears(control, name, _CONTROL_SECONDS)
        await control.select_option(value)
        self.clicks += 2
        self.path.append(name)

    async def enter(self) -> None:
        await self.page.keyboard.press("Enter")
        self.keystrokes += 1
        self.path.append("Enter")

    async def see(self, result: Locator, name: str) -> None:
        """Wait for a result."""
        await self._appears(result, name, _RESULT_SECONDS)

    async def _appears(self, control: Locator, name: str, seconds: float) -> None:
        timeout_error = importlib.import_module("playwright.async_api").TimeoutError
        started = time.monotonic()
        try:
            await control.wait_for(timeout=seconds * 1000)
        except timeout_error:
            raise NotPossible(name) from None
        self.seconds += time.monotonic() - started

    async def holds(self, condition: Callable[[], bool], name: str) -> None:
        """Wait until a condition of the deployment holds."""
        started = time.monotonic()
        while not condition():
            if time.monotonic() - started > _RESULT_SECONDS:
                raise NotPossible(name)
            await asyncio.sleep(_POLL_SECONDS)
        self.seconds += time.monotonic() - started

    def uncounted(self) -> Hands:
        """Return the same hands for the preparation of a task."""
        return Hands(self.page, self.site)

    # Steps that several tasks share

    async def open_screen(self, name: str) -> None:
        await self.click(self.page.get_by_role("link", name=name, exact=True).first, name)

    async def ask(self, question: str, answers: int = 1) -> None:
        await self.write(self.page.locator("#question"), question, "the question")
        await self.enter()
        await self.see(self.page.locator(".facts").nth(answers - 1), "an answer")


@dataclass(frozen=True)
class MeasuredSite:
    """A measured deployment: its address, a key with the scope `manage` or none, and a client of its API."""

    url: str
    key: str
    client: httpx.Client

    def ingest(self, contents: dict[str, bytes], **form: str) -> None:
        def upload(name: str) -> None:
            data = {"collection": COLLECTION, "external_id": name, **form}
            self.client.post("/v1/documents", data=data, files={"file": (name, contents[name])}).raise_for_status()

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(upload, contents))

    def documents(self, words: str = "") -> list[dict[str, Any]]:
        parameters = {"collection": COLLECTION, "limit": "200"} | ({"q": words} if words else {})
        return list(self.client.get("/v1/documents", params=parameters).raise_for_status().json()["items"])

    def seed(self) -> None:
        """Add the documents and questions of the tasks, and wait until they are finished."""
        self.client.put(f"/v1/collections/{COLLECTION}", json={}).raise_for_status()
        self.ingest({name: text.encode() for name, text in _TEXTS.items()})
        self.ingest(
            {"harbour.pdf": pdf([["This page has a table of tides."], _HARBOUR]), "scan.pdf": b"%PDF-1.4 nothing"}
        )
        for _ in range(int(_RESULT_SECONDS / _POLL_SECONDS) * 2):
            if all(each["state"] in {"ready", "failed", "degraded"} for each in self.documents()):
                break
            time.sleep(_POLL_SECONDS)
        body = {"collection": COLLECTION, "question": _REGATTA, "min_score": 0.99}
        self.client.post("/v1/retrieve", json=body).raise_for_status()


async def check_source(hands: Hands) -> None:
    page = hands.page
    await hands.ask(_QUESTION)
    await hands.click(page.get_by_role("link", name=re.compile("^Open (at page|PDF)")), "Open at page")
    await hands.see(page.locator(".page-mark").first, "a highlighted sentence")


async def follow_up(hands: Hands) -> None:
    await hands.uncounted().ask("How many days of leave do all staff have?")
    await hands.ask("And in the first year?", answers=2)


async def find_failure(hands: Hands) -> None:
    await hands.open_screen("Documents")
    await hands.choose(hands.page.locator("main select").nth(1), "failed", "State: failed")
    await hands.see(hands.page.locator(".row", has_text="scan.pdf").locator(".state.failed"), "the failed document")
    words = (await hands.page.locator(".row", has_text="scan.pdf").locator(".soft.small").first.inner_text()).strip()
    hands.path.append(f"\u201c{words}\u201d")


async def repair_retrieval(hands: Hands) -> None:
    page = hands.page
    await hands.open_screen("Explain")
    await hands.write(page.get_by_placeholder("ranked"), _LAMP, "the question")  # Ask has such a field, too
    await hands.enter()
    await hands.see(page.locator(".explained tbody tr").first, "ranked passages")
    await hands.write(page.locator(".missing input"), "beacon", "the document")
    await hands.click(page.locator(".missing").get_by_role("button", name="Beacon"), "Beacon")
    await hands.click(page.locator(".missing .passages button").first, "its passage")
    await hands.click(page.get_by_role("button", name="Add this question to the passage"), "Add this question")
    await hands.see(page.locator(".notice", has_text="Question added"), "a notice")
    await hands.click(page.locator(".missing").get_by_role("button", name="Refresh"), "Refresh")
    await hands.see(page.locator(".missing .card", has_text=_LAMP), "the question at its passage")
    hands.path.append((await page.locator(".missing .card strong").inner_text()).strip())


async def see_load(hands: Hands) -> None:
    """Look at a load while its documents are uploaded."""
    site = hands.site
    body = {"collection": COLLECTION, "documents": _LOAD}
    job = site.client.post("/v1/jobs", json=body).raise_for_status().json()["id"]
    uploads = {f"load-{n}.txt": f"Crate {n} has number{n * 7} of the load.".encode() for n in range(_LOAD)}
    upload = asyncio.create_task(asyncio.to_thread(site.ingest, uploads, job=job))
    try:
        await hands.open_screen("Jobs")
        card = hands.page.get_by_role("listitem", name=f"Load of {COLLECTION}").first
        await hands.see(card.filter(has_text="left"), "the remaining time")
        await hands.see(card.filter(has_text=re.compile(r"[$\u20ac]\s?\d|\d\s?\$")), "the cost")
    finally:
        await upload
        site.client.post(f"/v1/jobs/{job}/cancel")


async def compare_prompts(hands: Hands) -> None:
    page = hands.page
    await hands.open_screen("Try")
    await hands.click(page.get_by_text("Another prompt"), "Another prompt")
    await hands.click(page.get_by_role("button", name="Compare two prompts"), "Compare two prompts")
    prompt = "Write {count} short questions that the text answers. Text: {text}"
    await hands.write(page.get_by_role("group", name="B").get_by_label("Prompt"), prompt, "prompt B")
    await hands.click(page.get_by_role("button", name="Generate questions"), "Generate questions")
    await hands.see(page.locator("[role=status]", has_text="kept").nth(1), "the questions of both prompts")


async def limit_key(hands: Hands) -> None:
    page = hands.page
    await hands.open_screen("Keys")
    await hands.click(page.get_by_text("Create a key"), "Create a key")
    await hands.write(page.get_by_label("Name", exact=True), f"stand-{time.time_ns()}", "the name")
    await hands.write(page.get_by_label("Requests per second").first, "5", "the limit")
    await hands.click(page.get_by_role("button", name="Create", exact=True), "Create")
    await hands.see(page.locator("#made code"), "the key")


async def share_answer(hands: Hands) -> None:
    await hands.uncounted().ask(_QUESTION)
    await hands.click(hands.page.get_by_role("button", name="Share"), "Share")
    await hands.see(hands.page.locator(".notice", has_text="Colleagues"), "the link")


async def delete_person(hands: Hands) -> None:
    """Delete a person's documents, until the server has none."""
    page = hands.page
    await hands.open_screen("Documents")
    await hands.write(page.locator("#search"), _PERSON, "the name")
    await hands.see(page.locator(".row", has_text=_PERSON).nth(2), "three documents")
    every = page.get_by_role("button", name=re.compile("^Select all"))
    if await every.count():
        await hands.click(every, "Select all")
    else:
        for box in await page.get_by_label(re.compile(f"^Select .*{_PERSON}")).all():
            await hands.click(box, "select a document")
    await hands.click(page.get_by_role("button", name="Delete 3", exact=True), "Delete 3")
    await hands.click(page.locator(".notice").get_by_role("button", name="Close"), "close the notice")
    await hands.holds(lambda: not hands.site.documents(_PERSON), "the deletion")


async def list_unanswered(hands: Hands) -> None:
    page = hands.page
    gaps = page.get_by_role("link", name="Gaps", exact=True)
    if await gaps.count():
        await hands.open_screen("Gaps")
    else:
        await hands.open_screen("Questions")
        await hands.click(page.get_by_role("button", name="Unanswered"), "Unanswered")
    await hands.see(page.locator("main").get_by_text(_REGATTA).first, "the question")


@dataclass(frozen=True)
class Task:
    """A task.

    Args:
        otherwise: command or request for a page without the controls.
    """

    name: str
    run: Callable[[Hands], Awaitable[None]]
    otherwise: str


TASKS = (
    Task("ask, and check the source in the PDF", check_source, "GET /v1/documents/{id}/content, and a reader of PDFs"),
    Task("ask a follow-up question", follow_up, "repeat the subject, or POST /v1/chat/completions with the messages"),
    Task("find why a document failed", find_failure, "foreask dead-letters list"),
    Task("repair a retrieval", repair_retrieval, "POST /v1/collections/{name}/accepted-questions"),
    Task("see the remaining time and cost of a load", see_load, "foreask jobs"),
    Task("change the prompt and compare", compare_prompts, "POST /v1/trials, twice"),
    Task("create a limited key", limit_key, "foreask keys create"),
    Task("share an answer", share_answer, "copy the answer and the addresses of its sources by hand"),
    Task("delete a person's documents", delete_person, "DELETE /v1/documents/{id} for each, or foreask erase document"),
    Task("list unanswered questions", list_unanswered, "GET /v1/collections/{name}/queries?answered=false"),
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench tasks")
    parser.add_argument("--url", help="address of a running deployment; by default one is started")
    parser.add_argument("--key", default="", help="key with the scope manage, if the deployment requires keys")
    arguments = parser.parse_args()
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if importlib.util.find_spec("playwright") is None or chromium is None:
        print("not measured: install `pip install 'foreask[page]'` and Debian's package chromium", flush=True)
        return
    running = _started() if arguments.url is None else contextlib.nullcontext((arguments.url, arguments.key))
    with running as (url, key), _client(url, key) as client:
        site = MeasuredSite(url.rstrip("/"), key, client)
        site.seed()
        asyncio.run(_measure(site, chromium))


def _client(url: str, key: str) -> httpx.Client:
    headers = {"authorization": f"Bearer {key}"} if key else {}
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=_RESULT_SECONDS)


@contextmanager
def _started() -> Iterator[tuple[str, str]]:
    """Yield the address and the key of a deployment with a scripted model, which has a price."""
    key, port = "key-of-the-tasks-0123456789", free_port()
    provider = ScriptedProvider()
    try:
        settings = provider.settings(llm_input_price=0.4, llm_output_price=1.6)
        with tempfile.TemporaryDirectory() as folder, Deployment(settings, Path(folder)) as deployment:
            deployment.wait_for_workers()
            keys = f"default:sha256:{hashlib.sha256(key.encode()).hexdigest()}"
            command = [sys.executable, "-m", "api"]
            deployment.run("keyed", command, api_port=port, api_keys=keys, shared_answer_retention_days=7)
            url = f"http://127.0.0.1:{port}"
            with _client(url, key) as client:
                _wait_until_ready(client)
            yield url, key
    finally:
        provider.close()


def _wait_until_ready(client: httpx.Client) -> None:
    deadline = time.monotonic() + _RESULT_SECONDS
    while time.monotonic() < deadline:
        with contextlib.suppress(httpx.HTTPError):
            if client.get("/health/ready").is_success:
                return
        time.sleep(_POLL_SECONDS)
    raise TimeoutError("the API did not start")


async def _measure(site: MeasuredSite, chromium: str) -> None:
    async_playwright = importlib.import_module("playwright.async_api").async_playwright
    print(f"{'task':44}{'clicks':>7}{'keys':>6}{'waiting':>10}  path", flush=True)
    async with async_playwright() as playwright:
        options = ["--no-sandbox"] if os.getuid() == 0 else []
        browser = await playwright.chromium.launch(executable_path=chromium, args=options)
        for task in TASKS:
            async with _hands(browser, site) as hands:
                try:
                    await task.run(hands)
                except NotPossible as missing:
                    reason = f"not possible in the page, which lacks: {missing}. Instead: {task.otherwise}"
                    print(f"{task.name:44}{reason}", flush=True)
                else:
                    numbers = f"{hands.clicks:7}{hands.keystrokes:6}{hands.seconds:8.2f} s"
                    print(f"{task.name:44}{numbers}  {' > '.join(hands.path)}", flush=True)
        await browser.close()


@asynccontextmanager
async def _hands(browser: Browser, site: MeasuredSite) -> AsyncIterator[Hands]:
    """Yield a user in front of the screen Ask."""
    context = await browser.new_context(viewport={"width": 1440, "height": 900})
    await context.add_init_script(f"sessionStorage.setItem('foreask.key', {site.key!r})")
    page = await context.new_page()
    page.on("dialog", lambda dialog: dialog.accept())
    try:
        await page.goto(f"{site.url}/ask?collection={COLLECTION}")
        await page.wait_for_load_state("networkidle")
        yield Hands(page, site)
    finally:
        await context.close()


if __name__ == "__main__":
    main()
