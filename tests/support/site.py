"""A generated site on loopback with the difficulties of real ones, which records its requests."""

from __future__ import annotations

import asyncio
import hashlib
import random
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path

from aiohttp import web

from features.sources.web.crawl.memory import Memory

ROBOTS = "User-agent: *\nDisallow: /docs/private/\n"
_WORDS = """
harbour tide crane ferry pilot anchor cargo lighthouse berth captain vessel rope deck storm signal chart engine compass
hull sailor dock wave current buoy mast cabin port channel customs invoice permit fee leave day week winter summer
opening office letter form deadline contract repair manual sensor valve pump filter pressure
""".split()  # noqa: SIM905 - a list of words is hard to read
_SHARE_OF_COPIES = 0.4


@dataclass
class Site:
    """A site below `/docs/`.

    Pages `/docs/p/0.html` and following have different texts, and `/docs/copy/N.html` repeat them. Even pages have an
    ETag, odd ones only a `Last-Modified` that moves with each request. Around them are a calendar without end, loops of
    relative links, redirects in rings and to other hosts, pages that only look as if they existed, and pages that
    robots must not read or list.

    Args:
        pages: number of pages and copies.
        robots: its robots.txt.
        robots_status: status of robots.txt.
        private_url: address of a server that must receive no request.
        delay_seconds: time that a reply takes.
        missing_status: status of pages that do not exist.
        tag_replies: whether `replies` have an ETag.
        failing: paths that are answered with status 500.
        busy: number of requests for a path that are answered with status 429.
        edited: number of edits of a page.
        replies: replies for paths, instead of generated ones.
        requests: paths of the requests since the last `forget`, in order.
        all_requests: paths of all requests.
        bodies: number of replies with status 200, by path.
    """

    pages: int = 200
    robots: str = ROBOTS
    robots_status: int = 200
    private_url: str = "http://127.0.0.2:9/secret"
    delay_seconds: float = 0.0
    missing_status: int = 200
    tag_replies: bool = False
    url: str = ""
    failing: set[str] = field(default_factory=set)
    busy: Counter[str] = field(default_factory=Counter)
    edited: Counter[str] = field(default_factory=Counter)
    replies: dict[str, web.Response] = field(default_factory=dict)
    requests: list[str] = field(default_factory=list)
    all_requests: list[str] = field(default_factory=list)
    bodies: Counter[str] = field(default_factory=Counter)
    agents: set[str] = field(default_factory=set)
    times: list[float] = field(default_factory=list)
    most_at_once: int = 0
    _at_once: int = 0

    @property
    def unique(self) -> int:
        return round(self.pages * (1 - _SHARE_OF_COPIES))

    @property
    def start(self) -> str:
        return f"{self.url}/docs/"

    @property
    def documents(self) -> set[str]:
        """The addresses that a crawl must list: one of each text, first by its bytes."""
        texts: dict[int, str] = {}
        for path in [*map(self.path_of_copy, range(self.unique, self.pages)), *map(self.path, range(self.unique))]:
            number = self.number(path)
            texts[number] = min(path, texts.get(number, path))
        return {f"{self.url}{path}" for path in (*texts.values(), "/docs/behind-noindex.html", "/docs/")}

    def path(self, number: int) -> str:
        return f"/docs/p/{number}.html"

    def path_of_copy(self, number: int) -> str:
        return f"/docs/copy/{number}.html"

    def number(self, path: str) -> int:
        """Return the number of the text of a page."""
        return int(path.rpartition("/")[2].removesuffix(".html")) % self.unique

    def has_etag(self, path: str) -> bool:
        """Return whether replies for a path have an ETag."""
        return path.startswith(("/docs/p/", "/docs/copy/")) and path.endswith(".html") and self.number(path) % 2 == 0

    def forget(self) -> None:
        """Start a new record of requests."""
        self.all_requests += self.requests
        self.requests.clear()
        self.bodies.clear()
        self.times.clear()

    async def answer(self, request: web.Request) -> web.Response:
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        self.requests.append(request.path_qs)
        self.agents.add(request.headers.get("user-agent", ""))
        self.times.append(asyncio.get_running_loop().time())
        try:
            await asyncio.sleep(self.delay_seconds)
            reply = self._reply(request)
            if reply.status == 200:
                self.bodies[request.path] += 1
            return reply
        finally:
            self._at_once -= 1

    def _reply(self, request: web.Request) -> web.Response:
        path = request.path
        if path == "/robots.txt" and path not in self.replies:
            return web.Response(status=self.robots_status, text=self.robots)
        if self.busy[path]:
            self.busy[path] -= 1
            return web.Response(status=429, headers={"retry-after": "1"})
        if path in self.failing:
            return web.Response(status=500, text="failed")
        if path in self.replies:
            return self._given(request, self.replies[path])
        return web.Response(status=self.missing_status) if self.missing_status != 200 else self._generated(request)

    def _generated(self, request: web.Request) -> web.Response:
        path = request.path
        if path.startswith(("/docs/p/", "/docs/copy/")) and path.endswith(".html"):
            return self._page(request)
        if path == "/docs/":
            start = f"<main><h1>Start</h1><p>{text_of(-1, 0)}</p></main>"
            return html(f"{start}{_SPECIAL}<a href='/docs/p/0.html'>first</a>")
        if path == "/docs/calendar":
            return self._calendar(int(request.query.get("month", "0")))
        special = self._redirect(path) or _special(path)
        return special or html(f"<main><p>Sorry, {path} was not found. Use the menu above.</p></main>")

    def _given(self, request: web.Request, reply: web.Response) -> web.Response:
        headers = {name: value for name, value in reply.headers.items() if name.lower() != "content-length"}
        tag = f'"{hashlib.sha256(bytes(reply.body or b"")).hexdigest()}"'
        if self.tag_replies and request.headers.get("if-none-match") == tag:
            return web.Response(status=304)
        return web.Response(
            status=reply.status, body=reply.body, headers=headers | ({"etag": tag} if self.tag_replies else {})
        )

    def _page(self, request: web.Request) -> web.Response:
        """Return a page with a text by its number, and boilerplate that differs in each reply."""
        number = self.number(request.path)
        edits = self.edited[self.path(number)]
        tag = f'"{number}-{edits}"'
        now = datetime.now(UTC) + timedelta(seconds=len(self.requests))
        if number % 2 == 0 and request.headers.get("if-none-match") == tag:
            return web.Response(status=304, headers={"etag": tag})
        return html(
            f"<nav>{''.join(self._links(number))}</nav>"
            f"<main><h1>Page {number}</h1><p>{text_of(number, edits)}</p></main>"
            f"<footer>Rendered for request {len(self.requests)}</footer>",
            {"etag": tag} if number % 2 == 0 else {"last-modified": format_datetime(now, usegmt=True)},
        )

    def _links(self, number: int) -> list[str]:
        draw = random.Random(number)
        pages = [self.path(other % self.unique) for other in (number + 1, number + 2, draw.randrange(self.unique))]
        copies = [self.path_of_copy(other) for other in range(number + self.unique, self.pages, self.unique)]
        tracked = f"{self.path(draw.randrange(self.unique))}?utm_source=mail&fbclid=1#part"
        return [
            f'<a href="{target}">more</a>'
            for target in (*pages, *copies, tracked, "../", "loop/", f"/docs/go/{number}")
        ]

    def _redirect(self, path: str) -> web.Response | None:
        targets = {
            "/docs/out/private": self.private_url,
            "/docs/out/metadata": "http://169.254.169.254/latest",
            "/docs/out/host": "https://host.invalid/",
        }
        if path.startswith("/docs/go/"):
            return redirect(self.path(self.number(path)))
        if path.startswith("/docs/ring/"):
            return redirect(f"/docs/ring/{(int(path[-1]) + 1) % 4}")
        return redirect(targets[path]) if path in targets else None

    def _calendar(self, month: int) -> web.Response:
        return html(
            f"<main><p>Month {month}: {text_of(-3, month)}</p></main>"
            + "".join(f'<a href="/docs/calendar?month={month + step}&view=list">{step}</a>' for step in (1, 2, 12))
        )


_PLAIN = ("/docs/behind-noindex.html", "/docs/tagged.html", "/docs/nofollow.html", "/docs/private/secret.html")
_HEADERS = {"/docs/tagged.html": {"x-robots-tag": "noindex"}}
_SPECIAL = (
    "".join(
        f'<a href="{path}">special</a>'
        for path in (
            "/docs/calendar?month=1&view=list",
            "/docs/ring/0",
            "/docs/noindex.html",
            "/docs/tagged.html",
            "/docs/private/secret.html",
            "/docs/out/private",
            "/docs/out/metadata",
            "/docs/out/host",
            "/docs/missing/1.html",
            "/docs/missing/2.html",
            "mailto:office@host.invalid",
            "/outside.html",
        )
    )
    + '<a rel="nofollow" href="/docs/nofollow.html">not followed</a>'
)


def _special(path: str) -> web.Response | None:
    if path.endswith("/loop/"):
        return html(f"<main><p>{text_of(-2, len(path))}</p></main><a href='loop/'>again</a>")
    if path == "/docs/noindex.html":
        return html(f"<meta name=robots content=noindex><p>{text_of(-4, 0)}</p><a href=behind-noindex.html>x</a>")
    if path in _PLAIN:
        return html(f"<main><p>{text_of(-5, _PLAIN.index(path))}</p></main>", _HEADERS.get(path))
    return None


def text_of(number: int | str, edits: int) -> str:
    """Return the text of a page, which differs from the text of every other one."""
    draw = random.Random(f"{number}/{edits}")
    return f"Reference {number} {edits}: " + " ".join(draw.choices(_WORDS, k=120)) + "."


def html(body: str, headers: Mapping[str, str] | None = None) -> web.Response:
    page = f"<!doctype html><html><head><title>Harbour</title></head><body>{body}</body></html>"
    return web.Response(text=page, content_type="text/html", headers=headers)


def redirect(target: str, status: int = 302) -> web.Response:
    return web.Response(status=status, headers={"location": target})


@asynccontextmanager
async def serving_site(site: Site, host: str = "127.0.0.1") -> AsyncIterator[Site]:
    """Serve a site on a free port, and set its URL."""
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", site.answer)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    site.url = f"http://{host}:{runner.addresses[0][1]}"
    try:
        yield site
    finally:
        await runner.cleanup()


class SqliteMemory(Memory):
    """Notes in a file, as a sync stores them in its rows."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("CREATE TABLE IF NOT EXISTS notes (address TEXT PRIMARY KEY, note BLOB NOT NULL)")
        self.written = 0

    async def notes(self) -> AsyncIterator[tuple[str, bytes]]:
        for address, note in self._database.execute("SELECT address, note FROM notes").fetchall():
            yield address, note

    async def write(self, changes: Mapping[str, bytes | None]) -> None:
        assert all(len(note or b"") <= 1_024 for note in changes.values())
        self.written += len(changes)
        removed = [(address,) for address, note in changes.items() if note is None]
        self._database.executemany("DELETE FROM notes WHERE address = ?", removed)
        stored = [(address, note) for address, note in changes.items() if note is not None]
        self._database.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?)", stored)

    def close(self) -> None:
        self._database.close()
