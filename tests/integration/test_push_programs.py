"""Programs that push: the example of the documentation as written, and the Python client's helper."""

import asyncio
import runpy
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest
from aiohttp import web
from foreask_client import AsyncClient, Client
from foreask_dlt import foreask, run_complete

from shared.ledger.work.backlog import Backlogs
from tests.integration.test_api_sources import ParseWorker
from tests.integration.test_push import documents
from tests.support.api import KEYS, as_tenant, serving, with_keys, work

GUIDE = Path(__file__).parents[2] / "docs/how-to/push-from-a-program.md"
MOST_LINES = 100


@pytest.fixture
async def server(services, settings, provider):
    async with serving(with_keys(settings), services) as http:
        http.headers.update(as_tenant("alice"))
        source = {"name": "wiki", "collection": "handbook", "uri": "push://wiki"}
        (await http.post("/v1/sources", json=source)).raise_for_status()
        yield http


@pytest.fixture
def url(server):
    return str(server.base_url).rstrip("/")


class Wiki:
    """A wiki whose API needs tokens, which it counts."""

    def __init__(self):
        self.pages = {}
        self.tokens = []
        self.read = []

    def put(self, number, content, *, etag="e1", groups=(), media_type="text/markdown"):
        self.pages[number] = (content, media_type, {"id": number, "etag": etag, "groups": list(groups)})

    def app(self):
        app = web.Application()
        app.router.add_post("/oauth/token", self._grant)
        app.router.add_get("/api/pages", self._list)
        app.router.add_get("/api/pages/{number}/content", self._content)
        return app

    async def _grant(self, request):
        form = await request.post()
        if (form["client_id"], form["client_secret"]) != ("connector", "secret"):
            raise web.HTTPUnauthorized
        self.tokens.append(f"token-{len(self.tokens)}")
        return web.json_response({"access_token": self.tokens[-1], "expires_in": 300})

    def _require_token(self, request):
        if request.headers.get("authorization") != f"Bearer {self.tokens[-1]}":
            raise web.HTTPUnauthorized

    async def _list(self, request):
        self._require_token(request)
        first = int(request.query["cursor"] or 0)
        shown = [
            {"title": f"Page {n}", "url": f"https://wiki/{n}", "space": "hr", "changed_at": "2026-11-30", **page}
            for n, (_, _, page) in sorted(self.pages.items())
        ]
        following = str(first + 2) if first + 2 < len(shown) else None
        return web.json_response({"pages": shown[first : first + 2], "next": following})

    async def _content(self, request):
        self._require_token(request)
        number = int(request.match_info["number"])
        self.read.append(number)
        content, media_type, _ = self.pages[number]
        return web.Response(body=content.encode(), content_type=media_type)


@pytest.fixture
async def wiki():
    wiki = Wiki()
    runner = web.AppRunner(wiki.app())
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    wiki.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield wiki
    await runner.cleanup()


async def test_guide_example_pushes_as_written(server, url, wiki, services, *, tmp_path, monkeypatch, capsys):
    (code, *_) = GUIDE.read_text().split("```python\n")[1:]
    program = tmp_path / "connector.py"
    program.write_text(code.partition("```")[0])
    assert len(program.read_text().splitlines()) <= MOST_LINES
    login = {"WIKI_URL": wiki.url, "WIKI_CLIENT": "connector", "WIKI_SECRET": "secret"}
    for name, value in (login | {"FOREASK_URL": url, "FOREASK_API_KEY": KEYS["alice"]}).items():
        monkeypatch.setenv(name, value)
    worker = ParseWorker(services, services.settings)

    async def run(code=0):
        with pytest.raises(SystemExit) as ended:
            await asyncio.to_thread(runpy.run_path, str(program), run_name="__main__")
        await worker.run()
        assert ended.value.code == code
        return capsys.readouterr()

    for number in range(5):
        wiki.put(number, f"# Page {number}\n\nThe harbour opens at {number}.", groups=["staff"] if number else [])
    wiki.put(5, "<h1>Plan</h1><p>The harbour closes at nine.</p>", media_type="text/html")
    assert "'created': 6" in (await run()).out
    assert wiki.read == [0, 1, 2, 3, 4, 5]
    while await services.ledger[Backlogs].due():
        await work(services)
    stored = await documents(server)
    assert stored["wiki/0"]["readable_by"] == ["everyone"]
    assert (stored["wiki/1"]["readable_by"], stored["wiki/1"]["title"]) == (["group:staff"], "Page 1")
    assert stored["wiki/1"]["metadata"] == {"space": "hr", "changed": "2026-11-30", "url": "https://wiki/1"}

    wiki.put(1, "# Page 1\n\nThe harbour opens at ten.", etag="e2", groups=["staff"])
    wiki.put(2, wiki.pages[2][0], groups=["legal"])
    del wiki.pages[3]
    wiki.read.clear()
    shown = await run()
    assert "'unchanged': 3" in shown.out
    assert ("'changed': 1" in shown.out, "'described': 1" in shown.out) == (True, True)
    assert wiki.read == [1]
    (newest, *_) = (await server.get("/v1/sources/wiki/syncs")).json()["items"]
    assert (newest["state"], newest["seen"], newest["missing"], newest["deleted"]) == ("done", 5, 1, 0)

    wiki.put(6, " ")
    assert "6: It is empty." in (await run(code=1)).err


async def test_interrupted_push_continues_its_listing(url, server, services):
    sent = []

    def entries(fails_at=None):
        for number in range(1_200):
            if number == fails_at:
                raise ConnectionError
            yield {"key": str(number), "version": "1"}

    def body_of(entry):
        sent.append(entry["key"])
        return f"# {entry['key']}"

    def push(fails_at=None):
        with Client(url, KEYS["alice"]) as client:
            return client.push("wiki", entries(fails_at), body_of, key="nightly")

    with pytest.raises(ConnectionError):
        await asyncio.to_thread(push, 1_100)
    report = await asyncio.to_thread(push)

    assert report.results == {"unchanged": 1_000, "created": 200}
    assert len(sent) == len(set(sent)) == 1_200  # no body is sent twice
    await ParseWorker(services, services.settings).run()
    (only,) = (await server.get("/v1/sources/wiki/syncs")).json()["items"]
    assert (only["id"], only["state"], only["seen"], only["created"]) == (report.sync.id, "done", 1_200, 1_200)


async def test_push_sends_bodies_of_every_kind(url, server, tmp_path):
    (tmp_path / "plan.md").write_text("# Plan")
    bodies = {"text": "# Text", "bytes": b"<h1>Bytes</h1>", "file": tmp_path / "plan.md", "none": None}
    large = "word " * 300_000
    async with AsyncClient(url, KEYS["alice"]) as client:
        listed = [{"key": key, "version": "1"} for key in bodies] + [{"key": "large", "text": large}]
        report = await client.push("wiki", listed, lambda entry: bodies[entry["key"]], complete=False)
        again = await client.push("wiki", listed, lambda entry: bodies[entry["key"]], complete=False)

    assert (report.results, report.sync) == ({"created": 4, "body_needed": 1}, None)
    assert (again.results["unchanged"], [each.key for each in again.refused]) == (4, ["none"])
    stored = await documents(server)
    assert {key.removeprefix("wiki/"): each["filename"] for key, each in stored.items()} == {
        "text": None, "bytes": "bytes", "file": "plan.md", "large": "large"
    }  # fmt: skip


async def test_push_waits_while_intake_is_closed(url, server, monkeypatch):
    reasons = ["The disk is nearly full."] * 7
    pauses = []

    async def closed(*_):
        return reasons.pop() if reasons else None

    async def sleep(seconds):
        pauses.append(seconds)

    monkeypatch.setattr("features.sources.syncing.intake.Intake.closed", closed)
    async with AsyncClient(url, KEYS["alice"]) as client:
        monkeypatch.setattr(client, "_pause", sleep)
        monkeypatch.setattr("foreask_client.asynchronous.pushes.asyncio", Pausing(sleep))
        report = await client.push("wiki", [{"key": "a", "text": "# A"}])
    assert (report.results, len(pauses)) == ({"created": 1}, 7)
    assert min(pauses) >= 10  # as Retry-After says


class Pausing:
    """The module `asyncio` with another `sleep`."""

    def __init__(self, sleep):
        self.sleep = sleep


class StandInForDlt(ModuleType):
    """The part of dlt that the destination uses: it passes rows in batches, with the hints of their table."""

    def __init__(self):
        super().__init__("dlt")
        self.options = {}

    def destination(self, push, **options):
        self.options = options
        return lambda: push


class Pipeline:
    def __init__(self, *, fails=False):
        self.fails = fails

    def run(self, rows, *, destination):
        if not self.fails:
            destination(rows, {"name": "articles", "columns": {"id": {"primary_key": True}}})
        return self

    def raise_on_failed_jobs(self):
        if self.fails:
            raise ConnectionError


@pytest.fixture
def dlt(monkeypatch):
    module, exceptions = StandInForDlt(), ModuleType("dlt.common.destination.exceptions")
    exceptions.DestinationTerminalException = type("DestinationTerminalException", (Exception,), {})
    names = {"dlt": module, exceptions.__name__: exceptions}
    names |= {name: ModuleType(name) for name in ("dlt.common", "dlt.common.destination")}
    for name, each in names.items():
        monkeypatch.setitem(sys.modules, name, each)
    return module


async def test_dlt_destination_pushes_rows_and_listings(url, server, services, dlt, monkeypatch):
    monkeypatch.setenv("FOREASK_URL", url)
    monkeypatch.setenv("FOREASK_API_KEY", KEYS["alice"])
    rows = [{"id": number, "body": f"# {number}"} for number in range(3)]

    destination = foreask("wiki", text="body")
    await asyncio.to_thread(Pipeline().run, rows, destination=destination)
    assert sorted(await documents(server)) == [f"wiki/articles/{number}" for number in range(3)]
    assert (dlt.options["batch_size"], dlt.options["max_table_nesting"]) == (500, 0)
    with pytest.raises(Exception, match="1 rows were refused; the first one is articles/9: It is empty"):
        await asyncio.to_thread(Pipeline().run, [{"id": 9, "body": ""}], destination=destination)

    with pytest.raises(ConnectionError):
        await asyncio.to_thread(run_complete, Pipeline(fails=True), rows, "wiki", text="body")
    await asyncio.to_thread(run_complete, Pipeline(), rows[:2], "wiki", text="body")
    await ParseWorker(services, services.settings).run()
    (only,) = (await server.get("/v1/sources/wiki/syncs")).json()["items"]
    assert (only["state"], only["seen"], only["unchanged"], only["missing"]) == ("done", 2, 2, 1)


class CountingClient(Client):
    """A client that counts its requests."""

    requests = 0

    def _send_once(self, request):
        self.requests += 1
        return super()._send_once(request)


class Program:
    """A program that is started again: it keeps nothing but the numbers of its requests and bodies."""

    def __init__(self, entries):
        self.entries = entries
        self.bodies = self.requests = 0
        self.seconds = 0.0

    def body_of(self, entry):
        self.bodies += 1
        return f"# {entry['key']}\n\nThe harbour of {entry['key']} opens at nine."

    def run(self, url, *, readers, stops_after=None):
        def listed():
            for number in range(stops_after or self.entries):
                yield {"key": f"{number:05}", "version": "1", "readable_by": readers}
            if stops_after is not None:
                raise ConnectionError

        started = time.monotonic()
        with CountingClient(url, KEYS["alice"]) as client:
            try:
                return client.push("wiki", listed(), self.body_of, key="nightly")
            except ConnectionError:
                return None
            finally:
                self.requests += client.requests
                self.seconds += time.monotonic() - started


async def test_ten_thousand_entries_survive_restarts(services, settings, provider, capsys):
    program, worker = Program(10_000), ParseWorker(services, services.settings)

    async def run(**options):
        """Run the program with a server of its own, which then stops."""
        async with serving(with_keys(settings), services) as http:
            http.headers.update(as_tenant("alice"))
            source = {"name": "wiki", "collection": "handbook", "uri": "push://wiki"}
            assert (await http.post("/v1/sources", json=source)).status_code in {201, 409}
            report = await asyncio.to_thread(program.run, str(http.base_url).rstrip("/"), **options)
            await worker.run()
            return report, (await http.get("/v1/sources/wiki/syncs")).json()["items"]

    red = ["group:red"]
    assert (await run(readers=red, stops_after=5_000))[0] is None
    report, (sync,) = await run(readers=red)
    assert report.results == {"unchanged": 4_500, "created": 5_500}  # the page that was being filled was not sent
    assert (sync["state"], sync["seen"], sync["created"], program.bodies) == ("done", 10_000, 10_000, 10_000)
    numbers = [f"{program.entries / program.seconds:,.0f} new entries per second, {program.requests} requests"]
    while await services.ledger[Backlogs].due():
        await work(services)
    paid = provider.stats()
    assert (paid["calls"], paid["paid_twice"]) == (10_000, 0)

    assert (await run(readers=red, stops_after=5_000))[0] is None  # halfway
    again = Program(10_000)
    program = again
    report, (sync, *_) = await run(readers=["group:blue"])
    assert report.results == {"described": 10_000}
    assert (sync["seen"], sync["readers_changed"], sync["missing"], sync["deleted"]) == (10_000, 10_000, 0, 0)
    numbers.append(f"{again.entries / again.seconds:,.0f} changed readers per second, {again.requests} requests")
    assert (provider.stats(), again.bodies) == (paid, 0)
    program = Program(10_000)
    await run(readers=["group:blue"])
    numbers.append(f"{10_000 / program.seconds:,.0f} unchanged entries per second, {program.requests} requests")
    with capsys.disabled():
        print(f"\n10,000 entries: {'; '.join(numbers)}; {paid['calls']:,} calls paid, none of them twice")
